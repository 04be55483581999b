/* placeholder */
extern int ops_xent_ref_c_placeholder;
