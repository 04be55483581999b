/* The optimizers, one row each. */
#include <string.h>

#include "optim/adamw.h"

static void adamw(device *d, float *p, const float *g, void *const state[], int64_t n, const optim_hyper *h)
{
#ifdef QLFT_X86_LEVELS
    if (d->level >= CPU_AVX512) {
        adamw_avx512(d, p, g, state, n, h);
        return;
    }
#endif
    adamw_ref(d, p, g, state, n, h);
}

const optim_kind optims[] = {
    {"adamw", 2, {DTYPE_F32, DTYPE_F32}, {"exp_avg", "exp_avg_sq"}, 1, adamw},
};
const int optims_count = (int)(sizeof optims / sizeof *optims);

const optim_kind *optim_find(const char *name)
{
    for (int i = 0; name && i < optims_count; i++)
        if (strcmp(optims[i].name, name) == 0) return &optims[i];
    return NULL;
}
