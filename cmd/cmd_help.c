/* placeholder */
extern int cmd_cmd_help_c_placeholder;
