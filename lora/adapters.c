/* placeholder */
extern int lora_adapters_c_placeholder;
