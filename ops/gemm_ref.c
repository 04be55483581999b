/* placeholder */
extern int ops_gemm_ref_c_placeholder;
