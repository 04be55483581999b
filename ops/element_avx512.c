/* placeholder */
extern int ops_element_avx512_c_placeholder;
