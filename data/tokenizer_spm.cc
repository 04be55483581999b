/* placeholder */
extern int data_tokenizer_spm_cc_placeholder;
