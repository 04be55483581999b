/* SwiGLU for the level of the including file. */
#ifndef OPS_ACT_VECTOR_H
#define OPS_ACT_VECTOR_H

#include <assert.h>

#include "ops/vector.h"

#ifdef __AVX2__

#include "core/device.h"

static inline vec act_sigmoid(vec x)
{
    return vec_div(vec_set(1.0f), vec_add(vec_set(1.0f), vec_exp(vec_sub(vec_set(0.0f), x))));
}

static void act_forward(device *d, tensor h, tensor gate, tensor up)
{
    const int64_t cols = gate.cols;
    assert(h.rows == gate.rows && h.cols == cols && up.rows == gate.rows && up.cols == cols);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < gate.rows; i++) {
        const void *gate_row = vec_row(gate, i), *up_row = vec_row(up, i);
        void *h_row = vec_row(h, i);
        for (int64_t j = 0; j < cols; j += VEC) {
            vec x = vec_read(gate_row, gate.type, j, cols - j);
            vec_write(h_row, h.type, j, cols - j, vec_mul(vec_mul(x, act_sigmoid(x)), vec_read(up_row, up.type, j, cols - j)));
        }
    }
}

static void act_backward(device *d, tensor d_gate, tensor d_up, tensor dh, tensor gate, tensor up)
{
    const vec one = vec_set(1.0f);
    const int64_t cols = gate.cols;
    assert(d_gate.rows == gate.rows && d_gate.cols == cols && d_up.rows == gate.rows && d_up.cols == cols);
    assert(dh.rows == gate.rows && dh.cols == cols && up.rows == gate.rows && up.cols == cols);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < gate.rows; i++) {
        const void *gate_row = vec_row(gate, i), *up_row = vec_row(up, i), *dh_row = vec_row(dh, i);
        void *d_gate_row = vec_row(d_gate, i), *d_up_row = vec_row(d_up, i);
        for (int64_t j = 0; j < cols; j += VEC) {
            vec x = vec_read(gate_row, gate.type, j, cols - j), u = vec_read(up_row, up.type, j, cols - j), g = vec_read(dh_row, dh.type, j, cols - j);
            vec s = act_sigmoid(x), slope = vec_mul(s, vec_fma(x, vec_sub(one, s), one));
            vec_write(d_gate_row, d_gate.type, j, cols - j, vec_mul(vec_mul(g, u), slope));
            vec_write(d_up_row, d_up.type, j, cols - j, vec_mul(g, vec_mul(x, s)));
        }
    }
}

#endif
#endif
