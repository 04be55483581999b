/* SwiGLU, reference level. */
#include <assert.h>

#include "ops/levels.h"

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static void act_forward(device *d, tensor h, tensor gate, tensor up)
{
    assert(h.rows == gate.rows && h.cols == gate.cols && up.rows == gate.rows && up.cols == gate.cols);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < gate.rows; i++)
        for (int64_t j = 0; j < gate.cols; j++) {
            double x = (double)tensor_get(gate, i, j);
            tensor_put(h, i, j, (float)(x * sigmoid(x) * (double)tensor_get(up, i, j)));
        }
}

static void act_backward(device *d, tensor d_gate, tensor d_up, tensor dh, tensor gate, tensor up)
{
    assert(d_gate.rows == gate.rows && d_gate.cols == gate.cols && d_up.rows == gate.rows && d_up.cols == gate.cols);
    assert(dh.rows == gate.rows && dh.cols == gate.cols && up.rows == gate.rows && up.cols == gate.cols);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < gate.rows; i++)
        for (int64_t j = 0; j < gate.cols; j++) {
            double x = (double)tensor_get(gate, i, j), u = (double)tensor_get(up, i, j), g = (double)tensor_get(dh, i, j);
            double s = sigmoid(x);
            tensor_put(d_gate, i, j, (float)(g * u * s * (1.0 + x * (1.0 - s))));
            tensor_put(d_up, i, j, (float)(g * x * s));
        }
}

void act_ref_fill(ops_table *t)
{
    t->act_forward = act_forward;
    t->act_backward = act_backward;
}
