/* placeholder */
extern int optim_adamw_ref_c_placeholder;
