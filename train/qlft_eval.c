/* qlft eval: mean loss of base, or base and adapter, on rows. */
#include <math.h>
#include <stdlib.h>

#include "train/report.h"

qlft_status qlft_eval(char **json_text, const qlft_config *c, const qlft_observer *observer)
{
    run r;
    double loss = 0.0, started = 0.0;
    int64_t supervised = 0, tokens = 0;
    *json_text = NULL;
    qlft_status status = run_start(&r, c, observer);
    if (status == QLFT_OK) status = run_open_model(&r, RUN_FORWARD);
    if (status == QLFT_OK) status = run_open_data(&r);
    if (status == QLFT_OK) status = plan_make(&r, run_largest_batch(&r));
    if (status == QLFT_OK) status = run_reserve(&r);
    if (status == QLFT_OK) status = run_load(&r);
    started = clock_seconds();
    if (status == QLFT_OK) status = trainer_eval(&r, r.batches, &loss, &supervised, &tokens);
    if (status == QLFT_OK) {
        double seconds = clock_seconds() - started;
        json_t *result = json_pack("{s:f, s:o, s:I, s:I, s:I, s:f, s:f}", "loss", loss, "perplexity", json_real_or_null(exp(loss)), "samples",
                                   (json_int_t)dataset_size(r.data), "supervised_tokens", (json_int_t)supervised, "tokens", (json_int_t)tokens, "seconds",
                                   seconds, "tokens_per_second", seconds > 0.0 ? (double)tokens / seconds : 0.0);
        *json_text = result ? json_dumps(result, JSON_INDENT(1)) : NULL;
        json_decref(result);
        if (!*json_text) status = status_fail(QLFT_ENOMEM, "out of memory");
    }
    run_close(&r);
    return status;
}
