/* placeholder */
extern int train_qlft_generate_c_placeholder;
