/* placeholder */
extern int cmd_cmd_eval_c_placeholder;
