/* placeholder */
extern int cmd_cmd_export_c_placeholder;
