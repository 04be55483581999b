/* placeholder */
extern int data_tokenizer_bpe_c_placeholder;
