/* AdamW, shared by its levels: the constants of a step in F32, and the update of one element, whose order of operations every level keeps, so that
 * all levels, threads and page bounds give the same bits. As torch.optim.AdamW (foreach): decoupled decay first, then
 *   m += (g - m)(1 - beta1),  v = beta2 v + (1 - beta2) g g,  p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps). */
#ifndef OPTIM_ADAMW_H
#define OPTIM_ADAMW_H

#include <math.h>

#include "optim/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct adamw_step {
    float gradient_scale, keep, one_minus_beta1, beta2, one_minus_beta2, root_correction, eps, rate;
} adamw_step;

static inline adamw_step adamw_step_of(const optim_hyper *h)
{
    adamw_step s;
    s.gradient_scale = h->gradient_scale;
    s.keep = (float)(1.0 - h->lr * h->weight_decay);
    s.one_minus_beta1 = (float)(1.0 - h->beta1);
    s.beta2 = (float)h->beta2;
    s.one_minus_beta2 = (float)(1.0 - h->beta2);
    s.root_correction = (float)(1.0 / sqrt(1.0 - pow(h->beta2, (double)h->step)));
    s.eps = (float)h->eps;
    s.rate = (float)(h->lr / (1.0 - pow(h->beta1, (double)h->step)));
    return s;
}

static inline void adamw_element(float *p, float *m, float *v, float gradient, const adamw_step *s)
{
    float g = gradient * s->gradient_scale;
    *p = *p * s->keep;
    *m = *m + (g - *m) * s->one_minus_beta1;
    *v = *v * s->beta2 + (g * g) * s->one_minus_beta2;
    *p = *p - s->rate * (*m / (sqrtf(*v) * s->root_correction + s->eps));
}

void adamw_ref(device *d, float *p, const float *g, void *const state[], int64_t n, const optim_hyper *h);
void adamw_avx512(device *d, float *p, const float *g, void *const state[], int64_t n, const optim_hyper *h);

#ifdef __cplusplus
}
#endif
#endif
