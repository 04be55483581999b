/* placeholder */
extern int core_device_cpu_c_placeholder;
