/* placeholder */
extern int train_qlft_probe_c_placeholder;
