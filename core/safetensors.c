/* placeholder */
extern int core_safetensors_c_placeholder;
