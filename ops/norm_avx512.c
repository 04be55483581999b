/* placeholder */
extern int ops_norm_avx512_c_placeholder;
