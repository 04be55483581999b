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
    /* by their cost, the cheapest first */
    {"loss-chunk", "the head runs in smaller pieces: a few percent more time", pull_loss_chunk},
    {"checkpointing", "each block's forward pass is run twice: about a third more time", pull_checkpointing},
};

enum { LEVERS = sizeof levers / sizeof levers[0] };
_Static_assert((int)LEVERS <= (int)PLAN_LEVERS, "plan_choice.pulls has a place for each lever");

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

/* What may be taken: --memory on the device, --host-memory beside it, and of what is not said all that the machine has left. On a CPU all tiers are one memory,
 * so what is left is shared. */
static void set_budgets(run *r)
{
    size_t used = 0, total = 0;
    r->dev->table->usage(r->dev, &used, &total);
    size_t available = total > used ? total - used : 0;
    for (int i = 0; i < TIER_COUNT; i++) {
        size_t said = i == TIER_DEVICE ? r->config->memory : r->config->host_memory;
        r->budget[i] = said ? said : available;
    }
    r->budget_total = r->config->memory && r->config->host_memory ? r->config->memory + r->config->host_memory : available;
}

/* Bytes by which the plan misses its budgets; 0: it fits. */
static size_t plan_excess(const run *r)
{
    size_t total = plan_total(&r->planned), most = total > r->budget_total ? total - r->budget_total : 0;
    for (int i = 0; i < TIER_COUNT; i++)
        if (r->planned.peak[i] > r->budget[i] && r->planned.peak[i] - r->budget[i] > most) most = r->planned.peak[i] - r->budget[i];
    return most;
}

static int compare_rows(const void *a, const void *b)
{
    size_t x = ((const ledger_row *)a)->bytes, y = ((const ledger_row *)b)->bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Adds what the choice in hand would free of `need` bytes, if that is worth a word. */
static void add_remedy(run *r, size_t need, char *help, size_t bytes, const char *what)
{
    size_t then = plan_dry(r) == QLFT_OK ? plan_total(&r->planned) : need;
    char text[BYTES_TEXT];
    if (then < need && need - then > need / 100)
        snprintf(help + strlen(help), bytes - strlen(help), " %s frees %s;", what, bytes_text(text, (double)(need - then)));
}

static qlft_status plan_does_not_fit(run *r)
{
    char rows[512] = "", text[5][BYTES_TEXT];
    ledger_row *sorted = malloc(r->planned.count * sizeof *sorted);
    if (!sorted) return status_fail(QLFT_ENOMEM, "out of memory");
    memcpy(sorted, r->planned.rows, r->planned.count * sizeof *sorted);
    qsort(sorted, r->planned.count, sizeof *sorted, compare_rows);
    for (size_t i = 0; i < r->planned.count && i < 4; i++)
        snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "%s%s %s %s", i ? ", " : "", sorted[i].owner, sorted[i].name,
                 bytes_text(text[0], (double)sorted[i].bytes));
    free(sorted);
    size_t need = plan_total(&r->planned);
    char help[512] = "";
    const plan_choice saved = r->choice;
    if (r->choice.keep_blocks) {
        r->choice.keep_blocks = false;
        add_remedy(r, need, help, sizeof help, "--checkpointing block");
        r->choice = saved;
    }
    if (r->work != RUN_TRAIN && r->choice.cache_tokens >= 2) {
        r->choice.cache_tokens /= 2;
        add_remedy(r, need, help, sizeof help, "half of the prompt and --max-tokens");
        r->choice = saved;
    } else if (r->choice.tokens >= 2) {
        r->choice.tokens /= 2;
        add_remedy(r, need, help, sizeof help, "half of --seq (or of --batch)");
        r->choice = saved;
    }
    QLFT_TRY(plan_dry(r));
    return status_fail(QLFT_EFIT,
                       "the run needs %s on the device and %s on the host; %s (--memory) and %s (--host-memory) may be taken, %s in all. Largest rows: %s.%s "
                       "a smaller base or --r helps too",
                       bytes_text(text[0], (double)r->planned.peak[TIER_DEVICE]), bytes_text(text[1], (double)r->planned.peak[TIER_HOST]),
                       bytes_text(text[2], (double)r->budget[TIER_DEVICE]), bytes_text(text[3], (double)r->budget[TIER_HOST]),
                       bytes_text(text[4], (double)r->budget_total), rows, help);
}

/* The cheapest lever that is enough is pulled, and after it cheaper ones only as far as they are still needed. */
static qlft_status pull_levers(run *r)
{
    const plan_choice start = r->choice;
    size_t excess = plan_excess(r);
    for (int last = 0; last < LEVERS && plan_excess(r); last++) {
        r->choice = start;
        QLFT_TRY(plan_dry(r));
        for (int i = last; i >= 0; i--)
            while (plan_excess(r) && levers[i].pull(r)) {
                r->choice.pulls[i]++;
                QLFT_TRY(plan_dry(r));
            }
    }
    char text[BYTES_TEXT];
    for (int i = 0; i < LEVERS; i++)
        if (r->choice.pulls[i]) log_info("to fit, %s must go: --%s pulled (%s)", bytes_text(text, (double)excess), levers[i].name, levers[i].cost);
    return QLFT_OK;
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
    set_budgets(r);
    QLFT_TRY(plan_dry(r));
    if (training) QLFT_TRY(pull_levers(r));
    return plan_excess(r) ? plan_does_not_fit(r) : QLFT_OK;
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
                                json_pack("{s:I, s:I}", "planned_peak_bytes", (json_int_t)r->planned.peak[i], "budget_bytes", (json_int_t)r->budget[i]));
    return tiers;
}

/* What each lever did, or would save: the difference of two dry binds. */
static json_t *plan_levers(run *r)
{
    json_t *out = json_array();
    const plan_choice saved = r->choice;
    size_t now = plan_total(&r->planned);
    for (int i = 0; out && i < LEVERS; i++) {
        bool pulled = r->choice.pulls[i] > 0;
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
                     (int)(plan_excess(r) == 0), "choices", choices, "levers", levers_json, "ledger", plan_rows(&r->planned), "memory", "planned_peak_bytes",
                     (json_int_t)total, "tiers", plan_tiers(r));
}
