/* placeholder */
extern int infer_eval_c_placeholder;
