/* placeholder */
extern int data_rows_c_placeholder;
