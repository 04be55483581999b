/* placeholder */
extern int nf4_nf4_avx512_c_placeholder;
