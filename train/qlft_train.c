/* placeholder */
extern int train_qlft_train_c_placeholder;
