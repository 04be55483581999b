/* placeholder */
extern int cmd_cmd_train_c_placeholder;
