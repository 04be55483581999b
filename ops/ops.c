/* placeholder */
extern int ops_ops_c_placeholder;
