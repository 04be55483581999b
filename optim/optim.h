/* Optimizers (a table), learning-rate schedules and clipping. They see flat FP32 arrays only. */
#ifndef OPTIM_OPTIM_H
#define OPTIM_OPTIM_H

#include "core/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct optim_hyper {
    double lr, beta1, beta2, eps, weight_decay; /* double, as Python holds them: 1 - 0.999 differs in F32 in the fifth digit */
    float gradient_scale;                       /* multiplies every gradient: 1 / tokens times the clipping factor */
    int64_t step;                               /* 1 for the first */
} optim_hyper;

typedef struct optim_kind {
    const char *name;
    int state_count;
    dtype state_type[2];
    const char *state_name[2]; /* in checkpoints: "exp_avg", "exp_avg_sq" */
    int64_t granule;           /* pages hold whole granules */
    /* Updates n elements of the FP32 master p; with the level of d. Decoupled decay first, as torch.optim.AdamW. */
    void (*step)(device *d, float *p, const float *g, void *const state[], int64_t n, const optim_hyper *h);
} optim_kind;

extern const optim_kind optims[];
extern const int optims_count;
const optim_kind *optim_find(const char *name); /* NULL if unknown */

/* ---- schedules ---- */
typedef struct schedule_shape {
    const char *name;
    int64_t steps, warmup, decay;
    double min_ratio;
} schedule_shape;
/* Factor on the base rate for optimizer step `step` (1 .. steps), as transformers computes it: with warm-up W, step 1 runs at rate 0 and step
 * W + 1 at the peak. wsd decays over the last `decay` steps along a cosine ("wsd") or a line ("wsd-linear") down to min_ratio. */
double schedule_factor(const schedule_shape *s, int64_t step);
bool schedule_known(const char *name);
const char *schedule_names(void); /* "cosine|linear|constant|wsd|wsd-linear" */

/* ---- clipping ---- */
/* min(1, limit / (norm + 1e-6)) as torch.nn.utils.clip_grad_norm_; limit 0: 1. */
double clip_factor(double norm, double limit);

#ifdef __cplusplus
}
#endif
#endif
