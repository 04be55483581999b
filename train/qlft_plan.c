/* placeholder */
extern int train_qlft_plan_c_placeholder;
