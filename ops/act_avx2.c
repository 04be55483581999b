/* placeholder */
extern int ops_act_avx2_c_placeholder;
