/* placeholder */
extern int train_report_c_placeholder;
