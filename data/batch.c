/* placeholder */
extern int data_batch_c_placeholder;
