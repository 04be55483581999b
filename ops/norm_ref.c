/* RMS norm, reference level. */
#include <assert.h>

#include "ops/levels.h"

static float rounded_to(dtype type, float value)
{
    return type == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(value)) : value;
}

static void norm_forward(device *d, tensor y, float *rstd, tensor x, tensor weight, float offset, float eps)
{
    assert(y.rows == x.rows && y.cols == x.cols && weight.cols == x.cols && weight.rows == 1);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < x.cols; j++) sum += (double)tensor_get(x, i, j) * (double)tensor_get(x, i, j);
        rstd[i] = (float)(1.0 / sqrt(sum / (double)x.cols + (double)eps));
        for (int64_t j = 0; j < x.cols; j++) tensor_put(y, i, j, rounded_to(y.type, tensor_get(x, i, j) * rstd[i]) * (tensor_get(weight, 0, j) + offset));
    }
}

static void norm_backward(device *d, tensor dx, tensor dy, tensor x, tensor weight, const float *rstd, float offset)
{
    assert(dx.rows == x.rows && dx.cols == x.cols && dy.rows == x.rows && dy.cols == x.cols && weight.cols == x.cols);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++) {
        double r = (double)rstd[i], mean = 0;
        for (int64_t j = 0; j < x.cols; j++)
            mean += (double)tensor_get(dy, i, j) * ((double)tensor_get(weight, 0, j) + (double)offset) * (double)tensor_get(x, i, j) * r;
        mean /= (double)x.cols;
        for (int64_t j = 0; j < x.cols; j++) {
            double g = (double)tensor_get(dy, i, j) * ((double)tensor_get(weight, 0, j) + (double)offset);
            tensor_put(dx, i, j, (float)((double)tensor_get(dx, i, j) + r * (g - (double)tensor_get(x, i, j) * r * mean)));
        }
    }
}

void norm_ref_fill(ops_table *t)
{
    t->norm_forward = norm_forward;
    t->norm_backward = norm_backward;
}
