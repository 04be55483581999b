/* placeholder */
extern int ops_gemm_avx2_c_placeholder;
