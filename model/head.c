/* placeholder */
extern int model_head_c_placeholder;
