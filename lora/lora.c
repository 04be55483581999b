/* placeholder */
extern int lora_lora_c_placeholder;
