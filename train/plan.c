/* placeholder */
extern int train_plan_c_placeholder;
