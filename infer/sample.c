/* placeholder */
extern int infer_sample_c_placeholder;
