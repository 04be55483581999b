/* placeholder */
extern int ops_rope_avx2_c_placeholder;
