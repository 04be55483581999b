/* The plan is a dry bind: what is counted here is what is taken later, by the same code. Policy is a table of levers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "train/run.h"

/* ---- levers ---- */

typedef struct lever {
    const char *name, *cost;
    bool (*pull)(run *r); /* false: nothing (more) to gain */
} lever;

static bool pull_checkpointing(run *r)
{
    if (!r->choice.keep_blocks || r->config->checkpointing != CHECKPOINTING_AUTO) return false;
    r->choice.keep_blocks = false;
    return true;
}

static bool pull_loss_chunk(run *r)
{
    if (r->config->loss_chunk || r->choice.loss_rows <= 16) return false;
    r->choice.loss_rows = r->choice.loss_rows / 2 / 16 * 16;
    if (r->choice.loss_rows < 16) r->choice.loss_rows = 16;
    return true;
}

static const lever levers[] = {
    {"checkpointing", "each block's forward pass is run twice: about a third more time", pull_checkpointing},
    {"loss-chunk", "the head runs in smaller pieces: a few percent more time", pull_loss_chunk},
};

enum { LEVERS = sizeof levers / sizeof levers[0], MAX_PULLS = 64 };

/* ---- dry bind ---- */

size_t plan_total(const ledger *book)
{
    size_t total = 0;
    for (int i = 0; i < TIER_COUNT; i++) total += book->peak[i];
    return total;
}

static qlft_status plan_dry(run *r)
{
    arena dry;
    memset(&dry, 0, sizeof dry);
    ledger_free(&r->planned);
    dry.book = &r->planned;
    run_bind(r, &dry);
    return arena_status(&dry);
}

/* Bytes that may be taken: what --memory and --host-memory say, else what the machine has left. On a CPU all tiers are one memory. */
static size_t memory_budget(run *r)
{
    size_t used = 0, total = 0;
    r->dev->table->usage(r->dev, &used, &total);
    size_t available = total > used ? total - used : 0;
    if (r->config->memory) return r->config->memory + r->config->host_memory;
    return available;
}

static int compare_rows(const void *a, const void *b)
{
    size_t x = ((const ledger_row *)a)->bytes, y = ((const ledger_row *)b)->bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

static qlft_status plan_does_not_fit(run *r)
{
    char rows[512] = "";
    ledger_row *sorted = malloc(r->planned.count * sizeof *sorted);
    if (!sorted) return status_fail(QLFT_ENOMEM, "out of memory");
    memcpy(sorted, r->planned.rows, r->planned.count * sizeof *sorted);
    qsort(sorted, r->planned.count, sizeof *sorted, compare_rows);
    for (size_t i = 0; i < r->planned.count && i < 4; i++)
        snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "%s%s %s %.2f GB", i ? ", " : "", sorted[i].owner, sorted[i].name,
                 (double)sorted[i].bytes / 1e9);
    free(sorted);
    const plan_choice saved = r->choice;
    size_t need = plan_total(&r->planned);
    char help[512] = "";
    if (r->choice.keep_blocks) {
        r->choice.keep_blocks = false;
        if (plan_dry(r) == QLFT_OK && plan_total(&r->planned) < need)
            snprintf(help, sizeof help, " --checkpointing block frees %.2f GB;", (double)(need - plan_total(&r->planned)) / 1e9);
        r->choice = saved;
    }
    if (r->choice.tokens >= 2) {
        r->choice.tokens /= 2;
        if (plan_dry(r) == QLFT_OK && plan_total(&r->planned) < need)
            snprintf(help + strlen(help), sizeof help - strlen(help), " half of --seq (or of --batch) frees %.2f GB;",
                     (double)(need - plan_total(&r->planned)) / 1e9);
        r->choice = saved;
    }
    QLFT_TRY(plan_dry(r));
    return status_fail(QLFT_EFIT, "the run needs %.2f GB and %.2f GB may be taken (--memory). Largest rows: %s.%s a smaller base or --r helps too",
                       (double)need / 1e9, (double)r->budget / 1e9, rows, help);
}

qlft_status plan_make(run *r, int64_t tokens)
{
    const qlft_config *c = r->config;
    bool training = r->work == RUN_TRAIN;
    r->choice.tokens = tokens;
    r->choice.loss_rows = c->loss_chunk ? c->loss_chunk : head_rows_for(r->m->dims.vocabulary);
    if (r->choice.loss_rows > r->choice.tokens) r->choice.loss_rows = r->choice.tokens;
    r->choice.keep_blocks = training && c->checkpointing != CHECKPOINTING_BLOCK;
    r->choice.page_optim = training && c->page_optim != CHOOSE_OFF;
    r->budget = memory_budget(r);
    QLFT_TRY(plan_dry(r));
    int pulls = 0;
    for (int i = 0; i < LEVERS; i++) {
        while (training && plan_total(&r->planned) > r->budget && pulls++ < MAX_PULLS && levers[i].pull(r)) {
            log_info("to fit %.2f GB: --%s pulled (%s)", (double)r->budget / 1e9, levers[i].name, levers[i].cost);
            QLFT_TRY(plan_dry(r));
        }
    }
    return plan_total(&r->planned) > r->budget ? plan_does_not_fit(r) : QLFT_OK;
}

/* ---- JSON ---- */

static json_t *plan_rows(const ledger *book)
{
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < book->count; i++) {
        const ledger_row *row = &book->rows[i];
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s, s:I}", "owner", row->owner, "name", row->name, "kind", ledger_kind_name(row->kind), "tier",
                                              ledger_tier_name(row->where), "planned_bytes", (json_int_t)row->bytes));
    }
    return rows;
}

static json_t *plan_tiers(const run *r)
{
    json_t *tiers = json_object();
    for (int i = 0; tiers && i < TIER_COUNT; i++)
        if (r->planned.peak[i])
            json_object_set_new(tiers, ledger_tier_name((tier)i),
                                json_pack("{s:I, s:I}", "planned_peak_bytes", (json_int_t)r->planned.peak[i], "budget_bytes", (json_int_t)r->budget));
    return tiers;
}

/* What each lever did, or would save: the difference of two dry binds. */
static json_t *plan_levers(run *r)
{
    json_t *out = json_array();
    const plan_choice saved = r->choice;
    size_t now = plan_total(&r->planned);
    for (int i = 0; out && i < LEVERS; i++) {
        bool pulled = strcmp(levers[i].name, "checkpointing") == 0
                          ? !r->choice.keep_blocks
                          : r->choice.loss_rows < head_rows_for(r->m->dims.vocabulary) && !r->config->loss_chunk && r->choice.loss_rows < r->choice.tokens;
        size_t saves = 0;
        if (levers[i].pull(r) && plan_dry(r) == QLFT_OK && plan_total(&r->planned) < now) saves = now - plan_total(&r->planned);
        r->choice = saved;
        json_array_append_new(
            out, json_pack("{s:s, s:s, s:b, s:I}", "name", levers[i].name, "cost", levers[i].cost, "pulled", (int)pulled, "saves_bytes", (json_int_t)saves));
    }
    if (plan_dry(r) != QLFT_OK) {
        json_decref(out);
        return NULL;
    }
    return out;
}

json_t *plan_json(run *r)
{
    json_t *choices = json_pack("{s:s, s:s, s:I}", "checkpointing", r->choice.keep_blocks ? "none" : "block", "page-optim", r->choice.page_optim ? "on" : "off",
                                "loss-chunk", (json_int_t)r->choice.loss_rows);
    json_t *levers_json = plan_levers(r);
    size_t total = plan_total(&r->planned);
    return json_pack("{s:I, s:I, s:b, s:o, s:o, s:o, s:{s:I, s:o}}", "steps", (json_int_t)r->steps, "micro_batch_tokens", (json_int_t)r->choice.tokens, "fits",
                     (int)(total <= r->budget), "choices", choices, "levers", levers_json, "ledger", plan_rows(&r->planned), "memory", "planned_peak_bytes",
                     (json_int_t)total, "tiers", plan_tiers(r));
}
