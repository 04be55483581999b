/* placeholder */
extern int data_jinja_c_placeholder;
