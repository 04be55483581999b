/* placeholder */
extern int cmd_progress_c_placeholder;
