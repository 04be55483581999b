/* placeholder */
extern int offload_pager_c_placeholder;
