/* Element-wise operations and the sum of squares, reference level. */
#include <assert.h>

#include "ops/element_chunks.h"
#include "ops/levels.h"

enum { CHUNKS = 256, CHUNK_LEAST = 4096 };

double element_sum_squares(device *d, tensor x, element_span_squares span)
{
    double sums[CHUNKS], total = 0;
    const int64_t all = x.rows * x.cols, even = (all + CHUNKS - 1) / CHUNKS, chunk = even < CHUNK_LEAST ? CHUNK_LEAST : even;
    const int64_t chunks = (all + chunk - 1) / chunk;
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t c = 0; c < chunks; c++) {
        const int64_t end = (c + 1) * chunk < all ? (c + 1) * chunk : all;
        sums[c] = 0;
        for (int64_t at = c * chunk, count; at < end; at += count) {
            count = x.cols - at % x.cols < end - at ? x.cols - at % x.cols : end - at;
            sums[c] += span(x, at / x.cols, at % x.cols, count);
        }
    }
    for (int64_t c = 0; c < chunks; c++) total += sums[c];
    return total;
}

static void cast(device *d, tensor y, tensor x)
{
    assert(y.rows == x.rows && y.cols == x.cols);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.cols; j++) tensor_put(y, i, j, tensor_get(x, i, j));
}

static void add(device *d, tensor y, tensor x)
{
    assert(y.rows == x.rows && y.cols == x.cols);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.cols; j++) tensor_put(y, i, j, tensor_get(y, i, j) + tensor_get(x, i, j));
}

static double span_squares(tensor x, int64_t row, int64_t from, int64_t count)
{
    double sum = 0;
    for (int64_t j = from; j < from + count; j++) sum += (double)tensor_get(x, row, j) * (double)tensor_get(x, row, j);
    return sum;
}

static double sum_squares(device *d, tensor x)
{
    return element_sum_squares(d, x, span_squares);
}

static void dropout(device *d, tensor y, tensor x, float p, random_key key, bool accumulate)
{
    assert(y.rows == x.rows && y.cols == x.cols && p >= 0 && p < 1);
    const float scale = element_dropout_scale(p);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.cols; j++) {
            bool kept = random_float(key, (uint64_t)(i * x.cols + j)) >= p;
            /* A dropped element is 0 even where x is not finite. */
            float value = kept ? tensor_get(x, i, j) * scale : 0.0f;
            tensor_put(y, i, j, accumulate ? tensor_get(y, i, j) + value : value);
        }
}

void element_ref_fill(ops_table *t)
{
    t->cast = cast;
    t->add = add;
    t->sum_squares = sum_squares;
    t->dropout = dropout;
}
