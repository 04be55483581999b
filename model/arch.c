/* placeholder */
extern int model_arch_c_placeholder;
