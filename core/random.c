/* placeholder */
extern int core_random_c_placeholder;
