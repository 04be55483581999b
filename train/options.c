/* placeholder */
extern int train_options_c_placeholder;
