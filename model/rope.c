/* placeholder */
extern int model_rope_c_placeholder;
