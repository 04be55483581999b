/* placeholder */
extern int train_qlft_tokens_c_placeholder;
