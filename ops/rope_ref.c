/* placeholder */
extern int ops_rope_ref_c_placeholder;
