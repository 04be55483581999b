/* placeholder */
extern int cmd_cmd_generate_c_placeholder;
