/* Rotary embedding, reference level. */
#include <assert.h>

#include "ops/levels.h"

static void rope(device *d, tensor x, int head_size, tensor cosine, tensor sine, float sign)
{
    const int64_t half = head_size / 2;
    assert(head_size % 2 == 0 && x.cols % head_size == 0);
    assert(cosine.rows >= x.rows && sine.rows >= x.rows && cosine.cols == half && sine.cols == half && cosine.type == DTYPE_F32 && sine.type == DTYPE_F32);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t head = 0; head < x.cols; head += head_size)
            for (int64_t j = 0; j < half; j++) {
                double a = (double)tensor_get(x, i, head + j), b = (double)tensor_get(x, i, head + half + j);
                double c = (double)tensor_get(cosine, i, j), s = (double)sign * (double)tensor_get(sine, i, j);
                tensor_put(x, i, head + j, (float)(a * c - b * s));
                tensor_put(x, i, head + half + j, (float)(b * c + a * s));
            }
}

void rope_ref_fill(ops_table *t)
{
    t->rope = rope;
}
