/* placeholder */
extern int ops_gemm_avx512_c_placeholder;
