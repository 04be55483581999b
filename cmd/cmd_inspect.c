/* placeholder */
extern int cmd_cmd_inspect_c_placeholder;
