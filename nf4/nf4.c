/* placeholder */
extern int nf4_nf4_c_placeholder;
