/* placeholder */
extern int lora_targets_c_placeholder;
