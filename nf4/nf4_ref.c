/* placeholder */
extern int nf4_nf4_ref_c_placeholder;
