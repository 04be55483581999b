/* What the levels of the element-wise operations share: how a sum of squares is cut, and the constants of dropout. */
#ifndef OPS_ELEMENT_CHUNKS_H
#define OPS_ELEMENT_CHUNKS_H

#include "core/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sum of squares of elements [from, from + count) of a row. */
typedef double (*element_span_squares)(tensor x, int64_t row, int64_t from, int64_t count);

/* The flat row-major order in at most 256 chunks of at least 4096, whose bounds depend on the shape only; chunks in parallel, their sums added in order. */
double element_sum_squares(device *d, tensor x, element_span_squares span);

static inline float element_dropout_scale(float p)
{
    return (float)(1.0 / (1.0 - (double)p));
}

#ifdef __cplusplus
}
#endif
#endif
