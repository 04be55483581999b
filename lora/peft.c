/* placeholder */
extern int lora_peft_c_placeholder;
