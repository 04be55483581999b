/* placeholder */
extern int model_block_backward_c_placeholder;
