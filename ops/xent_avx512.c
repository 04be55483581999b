/* placeholder */
extern int ops_xent_avx512_c_placeholder;
