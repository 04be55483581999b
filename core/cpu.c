/* placeholder */
extern int core_cpu_c_placeholder;
