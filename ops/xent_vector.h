/* Cross entropy for the level of the including file. */
#ifndef OPS_XENT_VECTOR_H
#define OPS_XENT_VECTOR_H

#include <assert.h>

#include "ops/vector.h"

#ifdef __AVX2__

#include "core/device.h"

/* Largest logit of a row; NaNs may hide here, the sum of exponentials shows them. */
static inline float xent_largest(const float *row, int64_t cols)
{
    vec most = vec_set(-INFINITY);
    int64_t j = 0;
    for (; j + VEC <= cols; j += VEC) most = vec_max(most, vec_read(row, DTYPE_F32, j, VEC));
    float largest = vec_largest(most);
    for (; j < cols; j++) largest = row[j] > largest ? row[j] : largest;
    return largest;
}

static inline double xent_sum(const float *row, int64_t cols, float largest)
{
    const vec most = vec_set(largest);
    vec_double sum = vec_double_zero();
    for (int64_t j = 0; j < cols; j += VEC) {
        vec e = vec_exp(vec_sub(vec_read(row, DTYPE_F32, j, cols - j), most));
        if (cols - j < VEC) e = vec_between(e, vec_set(0.0f), 0, (int)(cols - j));
        sum = vec_double_add(sum, e);
    }
    return vec_double_sum(sum);
}

static void xent(device *d, double *losses, tensor dlogits, tensor logits, const int32_t *targets)
{
    const int64_t cols = logits.cols;
    assert(logits.type == DTYPE_F32 && cols > 0);
    assert(!dlogits.data || (dlogits.rows == logits.rows && dlogits.cols == cols));
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < logits.rows; i++) {
        assert(targets[i] >= 0 && targets[i] < cols);
        const float *row = vec_row(logits, i);
        const float largest = xent_largest(row, cols), target = row[targets[i]];
        const double sum = xent_sum(row, cols, largest);
        losses[i] = log(sum) + ((double)largest - (double)target);
        if (!dlogits.data) continue;
        const vec most = vec_set(largest), share = vec_set((float)(1.0 / sum));
        void *to = vec_row(dlogits, i);
        /* Ascending, read before written: a BF16 gradient in the row it is read from never overtakes the logits. */
        for (int64_t j = 0; j < cols; j += VEC) {
            vec p = vec_mul(vec_exp(vec_sub(vec_read(row, DTYPE_F32, j, cols - j), most)), share);
            if (targets[i] >= j && targets[i] < j + VEC) {
                const int lane = (int)(targets[i] - j);
                p = vec_between(vec_sub(p, vec_set(1.0f)), p, lane, lane + 1);
            }
            vec_write(to, dlogits.type, j, cols - j, p);
        }
    }
}

#endif
#endif
