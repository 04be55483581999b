/* Element-wise operations for the level of the including file. dropout is not here: see the files of the levels. */
#ifndef OPS_ELEMENT_VECTOR_H
#define OPS_ELEMENT_VECTOR_H

#include <assert.h>

#include "ops/element_chunks.h"
#include "ops/vector.h"

#ifdef __AVX2__

static void cast(device *d, tensor y, tensor x)
{
    const int64_t cols = x.cols;
    assert(y.rows == x.rows && y.cols == cols);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < cols; j += VEC) vec_write(vec_row(y, i), y.type, j, cols - j, vec_read(vec_row(x, i), x.type, j, cols - j));
}

static void add(device *d, tensor y, tensor x)
{
    const int64_t cols = x.cols;
    assert(y.rows == x.rows && y.cols == cols);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++) {
        void *to = vec_row(y, i);
        for (int64_t j = 0; j < cols; j += VEC)
            vec_write(to, y.type, j, cols - j, vec_add(vec_read(to, y.type, j, cols - j), vec_read(vec_row(x, i), x.type, j, cols - j)));
    }
}

static double span_squares(tensor x, int64_t row, int64_t from, int64_t count)
{
    const void *data = vec_row(x, row);
    vec_double sum = vec_double_zero();
    for (int64_t j = 0; j < count; j += VEC) {
        vec a = vec_read(data, x.type, from + j, count - j);
        sum = vec_double_fma(sum, a, a);
    }
    return vec_double_sum(sum);
}

static double sum_squares(device *d, tensor x)
{
    return element_sum_squares(d, x, span_squares);
}

#endif
#endif
