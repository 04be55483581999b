/* placeholder */
extern int optim_optims_c_placeholder;
