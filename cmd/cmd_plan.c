/* placeholder */
extern int cmd_cmd_plan_c_placeholder;
