#include "optim/adamw.h"

void adamw_ref(device *d, float *p, const float *g, void *const state[], int64_t n, const optim_hyper *h)
{
    const adamw_step s = adamw_step_of(h);
    float *m = state[0], *v = state[1];
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < n; i++) adamw_element(&p[i], &m[i], &v[i], g[i], &s);
}
