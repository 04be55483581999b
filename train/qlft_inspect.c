/* placeholder */
extern int train_qlft_inspect_c_placeholder;
