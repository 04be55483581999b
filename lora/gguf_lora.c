/* placeholder */
extern int lora_gguf_lora_c_placeholder;
