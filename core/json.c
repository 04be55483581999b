/* placeholder */
extern int core_json_c_placeholder;
