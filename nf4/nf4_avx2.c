/* placeholder */
extern int nf4_nf4_avx2_c_placeholder;
