#include "cmd/cmd.h"

qlft_status cmd_eval(call *c)
{
    char *text = NULL;
    qlft_status status = qlft_eval(&text, c->config, &c->observer);
    progress_clear(c->shown);
    if (status == QLFT_OK) return show_result(c, text);
    qlft_free(text);
    return status;
}
