/* placeholder */
extern int data_jinja_parse_c_placeholder;
