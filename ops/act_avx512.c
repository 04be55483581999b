/* placeholder */
extern int ops_act_avx512_c_placeholder;
