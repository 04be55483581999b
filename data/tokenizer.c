/* placeholder */
extern int data_tokenizer_c_placeholder;
