/* placeholder */
extern int offload_stash_c_placeholder;
