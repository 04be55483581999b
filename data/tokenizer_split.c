/* placeholder */
extern int data_tokenizer_split_c_placeholder;
