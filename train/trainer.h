/* The training loop: micro-batches into gradients, gradients into one optimizer step, steps into a run that can be stopped and resumed. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "train/checkpoint.h"
#include "train/samples.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct step_record {
    int64_t step, epoch, tokens, supervised_tokens;
    double loss, grad_norm, lr, seconds;
} step_record;

typedef struct eval_record {
    int64_t step, supervised_tokens;
    double loss;
} eval_record;

/* What a run leaves for its report. */
typedef struct history {
    step_record *steps;
    int64_t step_count, step_capacity;
    eval_record *evals;
    int64_t eval_count, eval_capacity;
    samples answers;                   /* to held-out rows, before and after */
    int64_t resumed_at;                /* step that this process began after */
    int64_t tokens, supervised_tokens; /* of all steps, also those of earlier processes */
    double seconds;                    /* likewise */
} history;

void history_free(history *h);
/* Steps so far of an earlier process, from OUT/metrics.jsonl, up to and including `step`; the file is cut to them. Step 0: a fresh file. */
qlft_status history_begin(history *h, const char *out, int64_t step);

/* Evaluations and first answers of an earlier process, as checkpoints keep them. */
qlft_status history_evals_from(history *h, const char *text);

/* Trains from `at` to the end, or until stopped (QLFT_ESIGNAL after saving a checkpoint). Evaluates before, after and every --eval-every steps. */
qlft_status trainer_run(run *r, cursor *at, history *h);
/* Mean loss over --eval-data with the present weights. */
qlft_status trainer_eval(run *r, batcher *batches, double *loss, int64_t *supervised, int64_t *tokens);

#ifdef __cplusplus
}
#endif
#endif
