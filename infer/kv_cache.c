/* placeholder */
extern int infer_kv_cache_c_placeholder;
