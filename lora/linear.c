/* placeholder */
extern int lora_linear_c_placeholder;
