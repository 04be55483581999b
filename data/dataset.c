/* placeholder */
extern int data_dataset_c_placeholder;
