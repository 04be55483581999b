/* placeholder */
extern int train_run_c_placeholder;
