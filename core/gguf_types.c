/* placeholder */
extern int core_gguf_types_c_placeholder;
