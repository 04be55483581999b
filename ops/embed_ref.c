/* placeholder */
extern int ops_embed_ref_c_placeholder;
