/* placeholder */
extern int model_model_c_placeholder;
