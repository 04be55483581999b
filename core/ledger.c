/* placeholder */
extern int core_ledger_c_placeholder;
