/* placeholder */
extern int model_source_c_placeholder;
