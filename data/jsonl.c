/* placeholder */
extern int data_jsonl_c_placeholder;
