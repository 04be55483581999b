/* placeholder */
extern int core_device_c_placeholder;
