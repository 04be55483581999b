/* placeholder */
extern int model_weights_c_placeholder;
