/* placeholder */
extern int data_jinja_value_c_placeholder;
