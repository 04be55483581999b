/* placeholder */
extern int ops_act_ref_c_placeholder;
