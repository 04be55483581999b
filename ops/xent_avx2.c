/* placeholder */
extern int ops_xent_avx2_c_placeholder;
