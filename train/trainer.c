/* placeholder */
extern int train_trainer_c_placeholder;
