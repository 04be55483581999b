/* placeholder */
extern int train_config_c_placeholder;
