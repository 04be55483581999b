/* placeholder */
extern int core_dtype_c_placeholder;
