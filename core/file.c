/* placeholder */
extern int core_file_c_placeholder;
