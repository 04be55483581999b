#include "cmd/cmd.h"

qlft_status cmd_probe(call *c)
{
    char *text = NULL;
    qlft_status status = qlft_probe(&text, c->config, &c->observer);
    progress_clear(c->shown);
    if (status == QLFT_OK) return show_result(c, text);
    qlft_free(text);
    return status;
}
