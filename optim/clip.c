/* placeholder */
extern int optim_clip_c_placeholder;
