/* qlft plan: the ledger and what would be done to fit; loads no weights, trains nothing. */
#include <stdlib.h>
#include <string.h>

#include "train/report.h"
#include "train/samples.h"

static char *plan_text(run *r)
{
    json_t *plan = plan_json(r), *base = report_base(r, false);
    char *text = NULL;
    if (plan && base) {
        json_object_set(plan, "base", base);
        if (r->data) json_object_set_new(plan, "data", report_data(r->data));
        text = json_dumps(plan, JSON_INDENT(1));
    }
    json_decref(plan);
    json_decref(base);
    return text;
}

qlft_status qlft_plan(char **json_text, const qlft_config *c, const qlft_observer *observer)
{
    run r;
    samples answers;
    memset(&answers, 0, sizeof answers);
    *json_text = NULL;
    qlft_status status = run_start(&r, c, observer);
    if (status == QLFT_OK) status = run_open_model(&r, RUN_TRAIN);
    if (status == QLFT_OK && c->data_count) status = run_open_data(&r);
    if (status == QLFT_OK && c->data_count) status = samples_open(&answers, &r);
    if (status == QLFT_OK) status = plan_make(&r, c->data_count ? run_largest_batch(&r) : c->batch * c->seq);
    if (status == QLFT_OK || status == QLFT_EFIT) {
        char *why = strdup(qlft_last_error());
        *json_text = plan_text(&r);
        if (!*json_text)
            status = status_fail(QLFT_ENOMEM, "out of memory for the plan");
        else if (status != QLFT_OK)
            status_fail(status, "%s", why ? why : "");
        free(why);
    }
    samples_close(&answers);
    run_close(&r);
    return status;
}
