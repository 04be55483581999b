/* placeholder */
extern int ops_norm_avx2_c_placeholder;
