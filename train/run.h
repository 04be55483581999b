/* Everything of one run: configuration, device, model, data, memory. The commands of qlft.h are made of these steps:
 *   run_open_model -> run_open_data -> plan_make (dry bind) -> run_reserve (real bind, the same function) -> run_load -> work -> run_close */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "core/clock.h"
#include "data/dataset.h"
#include "infer/kv_cache.h"
#include "lora/peft.h"
#include "model/model.h"
#include "offload/pager.h"
#include "optim/optim.h"
#include "train/config.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PLAN_LEVERS = 8 };

/* What the plan decides. */
typedef struct plan_choice {
    int64_t tokens; /* of a micro-batch at most */
    int64_t loss_rows;
    int64_t cache_tokens; /* generation: what keys and values are kept of; else 0 */
    bool keep_blocks, page_optim;
    int pulls[PLAN_LEVERS]; /* how often each lever was pulled */
} plan_choice;

/* What the memory is for. */
typedef enum run_work { RUN_FORWARD, RUN_GRADIENT, RUN_TRAIN } run_work;

/* Seconds of each phase, for the report. */
typedef struct run_phases {
    double load, quantize, tokenize, train, eval, save;
} run_phases;

typedef struct run {
    const qlft_config *config;
    const qlft_observer *observer; /* may be NULL */

    device *dev;
    model *m;
    const optim_kind *optim;
    peft_config adapter;                     /* rank 0: none */
    peft_adapter continued;                  /* of --adapter; count 0: none */
    char base_fingerprint[SHA256_HEX_BYTES]; /* training only: what a resumed run compares */
    linear **adapted;                        /* [adapted_count] */
    int adapted_count;

    tokenizer *tok;            /* NULL for tokens rows without one */
    dataset *data, *eval_data; /* eval_data may be NULL */
    batcher *batches, *eval_batches;
    int64_t steps; /* optimizer steps of the run */

    run_work work;
    plan_choice choice;
    ledger planned, used;
    size_t budget[TIER_COUNT], budget_total; /* bytes that may be taken of each tier, and of all together */
    arena memory;
    pager pages;    /* home[0]: FP32 master, then the optimizer's states */
    kv_cache cache; /* generation only */
    batch rows;     /* arrays of a micro-batch */

    json_t *warnings; /* texts, for the report; training only */
    run_phases phases;
    double started; /* clock at the start */
} run;

qlft_status run_start(run *r, const qlft_config *c, const qlft_observer *observer);
void run_close(run *r); /* accepts a zeroed one */

/* Device, headers of the base, and the adapter: that of --adapter, else for RUN_TRAIN a fresh one by options. */
qlft_status run_open_model(run *r, run_work work);
/* Tokenizer (if there is one) and data sets with their batches. Without RUN_TRAIN, --data is what is evaluated, in order. */
qlft_status run_open_data(run *r);
/* Tokens of the largest micro-batch of the run, training or evaluation. */
int64_t run_largest_batch(const run *r);
/* One reservation a tier, then the real bind. */
qlft_status run_reserve(run *r);
/* Takes all memory of the run, dry or real. */
void run_bind(run *r, arena *a);
/* Base weights, and the adapter's values: fresh, or those of --adapter. */
qlft_status run_load(run *r);
bool run_stopped(const run *r);
/* Tells the observer, if there is one that listens. */
void run_progress(const run *r, const char *phase, int64_t done, int64_t total, const char *unit);
/* What is non-zero when the run is to stop, for those who know no run; NULL: nothing can stop it. */
const volatile int *run_stop_flag(const run *r);
/* Micro-batch `b` as the model takes it. */
model_batch run_model_batch(const batch *b, uint64_t micro_step);

/* ---- train/plan.c ---- */
/* For micro-batches of at most `tokens`, chooses what fits: dry bind, pull the next lever, repeat. QLFT_EFIT names the largest rows and the options that would
 * help. */
qlft_status plan_make(run *r, int64_t tokens);
json_t *plan_json(run *r);             /* as qlft_plan documents, without "base" and "data"; NULL without memory */
size_t plan_total(const ledger *book); /* peak bytes of all tiers */

#ifdef __cplusplus
}
#endif
#endif
