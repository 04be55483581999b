/* placeholder */
extern int ops_element_avx2_c_placeholder;
