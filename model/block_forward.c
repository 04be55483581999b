/* placeholder */
extern int model_block_forward_c_placeholder;
