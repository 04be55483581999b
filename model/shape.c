/* placeholder */
extern int model_shape_c_placeholder;
