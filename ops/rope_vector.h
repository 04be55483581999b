/* Rotary embedding for the level of the including file. */
#ifndef OPS_ROPE_VECTOR_H
#define OPS_ROPE_VECTOR_H

#include <assert.h>

#include "ops/vector.h"

#ifdef __AVX2__

#include "core/device.h"

static void rope(device *d, tensor x, int head_size, tensor cosine, tensor sine, float sign)
{
    const int64_t half = head_size / 2;
    const vec turn = vec_set(sign);
    assert(head_size % 2 == 0 && x.cols % head_size == 0);
    assert(cosine.rows >= x.rows && sine.rows >= x.rows && cosine.cols == half && sine.cols == half && cosine.type == DTYPE_F32 && sine.type == DTYPE_F32);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++) {
        const void *cosine_row = vec_row(cosine, i), *sine_row = vec_row(sine, i);
        void *row = vec_row(x, i);
        for (int64_t head = 0; head < x.cols; head += head_size)
            for (int64_t j = 0; j < half; j += VEC) {
                vec a = vec_read(row, x.type, head + j, half - j), b = vec_read(row, x.type, head + half + j, half - j);
                vec c = vec_read(cosine_row, DTYPE_F32, j, half - j), s = vec_mul(turn, vec_read(sine_row, DTYPE_F32, j, half - j));
                vec_write(row, x.type, head + j, half - j, vec_sub(vec_mul(a, c), vec_mul(b, s)));
                vec_write(row, x.type, head + half + j, half - j, vec_add(vec_mul(b, c), vec_mul(a, s)));
            }
    }
}

#endif
#endif
