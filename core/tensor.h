/* A view of a matrix, never its owner. Row-major, columns contiguous, stride in elements.
 * Rank 2 is enough: rows are tokens or outputs; heads exist only inside attention. */
#ifndef CORE_TENSOR_H
#define CORE_TENSOR_H

#include "core/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tier { TIER_DEVICE, TIER_PINNED, TIER_HOST, TIER_DISK, TIER_COUNT } tier;

typedef struct tensor {
    void *data;
    int64_t rows, cols, stride;
    dtype type;
    tier where;
} tensor;

static inline tensor tensor_of(void *data, int64_t rows, int64_t cols, dtype type)
{
    tensor t;
    t.data = data;
    t.rows = rows;
    t.cols = cols;
    t.stride = cols;
    t.type = type;
    t.where = TIER_DEVICE;
    return t;
}

/* Rows [from, from + count) of t. */
static inline tensor tensor_rows(tensor t, int64_t from, int64_t count)
{
    t.data = t.data ? (char *)t.data + (size_t)(from * t.stride) * dtype_bytes(t.type) : t.data;
    t.rows = count;
    return t;
}

/* The element as float, and back with one rounding: for reference code and tests, not for inner loops. */
static inline float tensor_get(tensor t, int64_t row, int64_t col)
{
    size_t at = (size_t)(row * t.stride + col);
    switch (t.type) {
    case DTYPE_F32: return ((const float *)t.data)[at];
    case DTYPE_BF16: return bf16_to_f32(((const uint16_t *)t.data)[at]);
    case DTYPE_F16: return f16_to_f32(((const uint16_t *)t.data)[at]);
    case DTYPE_I32: return (float)((const int32_t *)t.data)[at];
    case DTYPE_U8: return (float)((const uint8_t *)t.data)[at];
    case DTYPE_COUNT: break;
    }
    return NAN;
}

static inline void tensor_put(tensor t, int64_t row, int64_t col, float value)
{
    size_t at = (size_t)(row * t.stride + col);
    switch (t.type) {
    case DTYPE_F32: ((float *)t.data)[at] = value; break;
    case DTYPE_BF16: ((uint16_t *)t.data)[at] = f32_to_bf16(value); break;
    case DTYPE_F16: ((uint16_t *)t.data)[at] = f32_to_f16(value); break;
    case DTYPE_I32: ((int32_t *)t.data)[at] = (int32_t)value; break;
    case DTYPE_U8: ((uint8_t *)t.data)[at] = (uint8_t)value; break;
    case DTYPE_COUNT: break;
    }
}

#ifdef __cplusplus
}
#endif
#endif
