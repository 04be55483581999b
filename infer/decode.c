/* placeholder */
extern int infer_decode_c_placeholder;
