/* placeholder */
extern int data_chat_c_placeholder;
