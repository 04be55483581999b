/* placeholder */
extern int cmd_cmd_probe_c_placeholder;
