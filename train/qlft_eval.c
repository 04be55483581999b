/* placeholder */
extern int train_qlft_eval_c_placeholder;
