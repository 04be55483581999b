/* placeholder */
extern int train_report_html_c_placeholder;
