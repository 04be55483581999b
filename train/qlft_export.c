/* placeholder */
extern int train_qlft_export_c_placeholder;
