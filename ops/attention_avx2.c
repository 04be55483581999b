/* placeholder */
extern int ops_attention_avx2_c_placeholder;
