/* Cross entropy, reference level. */
#include <assert.h>

#include "ops/levels.h"

static void xent(device *d, double *losses, tensor dlogits, tensor logits, const int32_t *targets)
{
    assert(logits.type == DTYPE_F32 && logits.cols > 0);
    assert(!dlogits.data || (dlogits.rows == logits.rows && dlogits.cols == logits.cols));
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < logits.rows; i++) {
        assert(targets[i] >= 0 && targets[i] < logits.cols);
        double largest = -(double)INFINITY, sum = 0;
        for (int64_t j = 0; j < logits.cols; j++) largest = fmax(largest, (double)tensor_get(logits, i, j));
        for (int64_t j = 0; j < logits.cols; j++) sum += exp((double)tensor_get(logits, i, j) - largest);
        losses[i] = log(sum) + (largest - (double)tensor_get(logits, i, targets[i]));
        if (!dlogits.data) continue;
        /* Ascending: a BF16 gradient written into the row it is read from never overtakes the logits. */
        for (int64_t j = 0; j < logits.cols; j++) {
            double p = exp((double)tensor_get(logits, i, j) - largest) / sum;
            tensor_put(dlogits, i, j, (float)(j == targets[i] ? p - 1.0 : p));
        }
    }
}

void xent_ref_fill(ops_table *t)
{
    t->xent = xent;
}
