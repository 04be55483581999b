/* placeholder */
extern int core_gguf_c_placeholder;
