/* placeholder */
extern int ops_attention_ref_c_placeholder;
