/* placeholder */
extern int data_jinja_filters_c_placeholder;
