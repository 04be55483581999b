/* placeholder */
extern int ops_norm_ref_c_placeholder;
