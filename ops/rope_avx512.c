/* placeholder */
extern int ops_rope_avx512_c_placeholder;
