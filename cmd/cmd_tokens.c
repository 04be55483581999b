/* placeholder */
extern int cmd_cmd_tokens_c_placeholder;
