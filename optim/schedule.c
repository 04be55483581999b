/* placeholder */
extern int optim_schedule_c_placeholder;
