/* placeholder */
extern int data_cache_c_placeholder;
