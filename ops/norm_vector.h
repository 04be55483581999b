/* RMS norm for the level of the including file. */
#ifndef OPS_NORM_VECTOR_H
#define OPS_NORM_VECTOR_H

#include <assert.h>

#include "ops/vector.h"

#ifdef __AVX2__

#include "core/device.h"

static void norm_forward(device *d, tensor y, float *rstd, tensor x, tensor weight, float offset, float eps)
{
    const vec shift = vec_set(offset);
    const int64_t cols = x.cols;
    assert(y.rows == x.rows && y.cols == cols && weight.cols == cols && weight.rows == 1);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++) {
        const void *from = vec_row(x, i);
        void *to = vec_row(y, i);
        vec_double sum = vec_double_zero();
        for (int64_t j = 0; j < cols; j += VEC) {
            vec a = vec_read(from, x.type, j, cols - j);
            sum = vec_double_fma(sum, a, a);
        }
        rstd[i] = (float)(1.0 / sqrt(vec_double_sum(sum) / (double)cols + (double)eps));
        const vec r = vec_set(rstd[i]);
        for (int64_t j = 0; j < cols; j += VEC) {
            vec a = vec_mul(vec_read(from, x.type, j, cols - j), r);
            if (y.type == DTYPE_BF16) a = vec_round_bf16(a);
            vec_write(to, y.type, j, cols - j, vec_mul(a, vec_add(vec_read(weight.data, weight.type, j, cols - j), shift)));
        }
    }
}

static void norm_backward(device *d, tensor dx, tensor dy, tensor x, tensor weight, const float *rstd, float offset)
{
    const vec shift = vec_set(offset);
    const int64_t cols = x.cols;
    assert(dx.rows == x.rows && dx.cols == cols && dy.rows == x.rows && dy.cols == cols && weight.cols == cols);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++) {
        const void *x_row = vec_row(x, i), *dy_row = vec_row(dy, i);
        void *to = vec_row(dx, i);
        vec_double sum = vec_double_zero();
        for (int64_t j = 0; j < cols; j += VEC) {
            vec g = vec_mul(vec_read(dy_row, dy.type, j, cols - j), vec_add(vec_read(weight.data, weight.type, j, cols - j), shift));
            sum = vec_double_fma(sum, g, vec_read(x_row, x.type, j, cols - j));
        }
        /* rstd (g - x rstd mean), mean = rstd sum / cols */
        const vec r = vec_set(rstd[i]), back = vec_set((float)(-vec_double_sum(sum) / (double)cols * (double)rstd[i] * (double)rstd[i]));
        for (int64_t j = 0; j < cols; j += VEC) {
            vec g = vec_mul(vec_read(dy_row, dy.type, j, cols - j), vec_add(vec_read(weight.data, weight.type, j, cols - j), shift));
            vec change = vec_fma(back, vec_read(x_row, x.type, j, cols - j), g);
            vec_write(to, dx.type, j, cols - j, vec_fma(r, change, vec_read(to, dx.type, j, cols - j)));
        }
    }
}

#endif
#endif
