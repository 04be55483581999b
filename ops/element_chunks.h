/* What the levels of the element-wise operations must share: how a sum of squares is cut, and the scale of dropout. */
#ifndef OPS_ELEMENT_CHUNKS_H
#define OPS_ELEMENT_CHUNKS_H

#include "core/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ELEMENT_CHUNKS = 256, ELEMENT_CHUNK_LEAST = 4096 };

/* Sum of squares of elements [from, from + count) of a row. */
typedef double (*element_span_squares)(tensor x, int64_t row, int64_t from, int64_t count);

/* The flat row-major order in at most ELEMENT_CHUNKS chunks, whose bounds depend on the shape only; chunks in parallel, their sums added in order. */
static inline double element_sum_squares(device *d, tensor x, element_span_squares span)
{
    double sums[ELEMENT_CHUNKS], total = 0;
    const int64_t all = x.rows * x.cols;
    int64_t chunk = (all + ELEMENT_CHUNKS - 1) / ELEMENT_CHUNKS;
    if (chunk < ELEMENT_CHUNK_LEAST) chunk = ELEMENT_CHUNK_LEAST;
    const int64_t chunks = (all + chunk - 1) / chunk;
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t c = 0; c < chunks; c++) {
        int64_t at = c * chunk, end = at + chunk < all ? at + chunk : all;
        sums[c] = 0;
        while (at < end) {
            int64_t row = at / x.cols, from = at % x.cols, count = x.cols - from < end - at ? x.cols - from : end - at;
            sums[c] += span(x, row, from, count);
            at += count;
        }
    }
    for (int64_t c = 0; c < chunks; c++) total += sums[c];
    return total;
}

static inline float element_dropout_scale(float p)
{
    return (float)(1.0 / (1.0 - (double)p));
}

#ifdef __cplusplus
}
#endif
#endif
