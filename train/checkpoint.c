/* placeholder */
extern int train_checkpoint_c_placeholder;
