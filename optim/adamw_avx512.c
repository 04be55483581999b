/* placeholder */
extern int optim_adamw_avx512_c_placeholder;
