/* placeholder */
extern int ops_attention_avx512_c_placeholder;
