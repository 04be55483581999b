/* placeholder */
extern int ops_element_ref_c_placeholder;
