/* Attention, reference level: written as the formulas stand, one query or one key at a time, nothing kept but one row.
 *   s = scale q.k,  p = exp(s - lse),  o = sum p v;   dp = do.v,  delta = do.o,  ds = p (dp - delta),  dq = scale sum ds k,  dk = scale sum ds q,  dv = sum p
 * do */
#include <assert.h>

#include "ops/levels.h"

enum { HEAD_SIZE_MOST = 256 };

static double dot(tensor a, int64_t a_row, int64_t a_col, tensor b, int64_t b_row, int64_t b_col, int size)
{
    double sum = 0;
    for (int e = 0; e < size; e++) sum += (double)tensor_get(a, a_row, a_col + e) * (double)tensor_get(b, b_row, b_col + e);
    return sum;
}

static void add_row(double *out, double factor, tensor x, int64_t row, int64_t col, int size)
{
    for (int e = 0; e < size; e++) out[e] += factor * (double)tensor_get(x, row, col + e);
}

static void put_row(tensor out, int64_t row, int64_t col, const double *x, double factor, int size)
{
    for (int e = 0; e < size; e++) tensor_put(out, row, col + e, (float)(factor * x[e]));
}

static void attention_forward(device *d, tensor o, tensor lse, tensor q, tensor k, tensor v, const ops_attention *shape)
{
    const int heads = shape->heads, size = shape->head_size, group = heads / shape->key_heads;
    const int64_t behind = k.rows - q.rows;
    assert(size <= HEAD_SIZE_MOST && heads % shape->key_heads == 0 && behind >= 0 && v.rows == k.rows && o.rows == q.rows && lse.rows == q.rows);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t task = 0; task < q.rows * heads; task++) {
        const int64_t i = task / heads, q_col = task % heads * size, k_col = task % heads / group * size;
        double largest = -(double)INFINITY, sum = 0, out[HEAD_SIZE_MOST] = {0};
        assert(shape->first[i] >= 0 && shape->first[i] <= i + behind);
        for (int64_t j = shape->first[i]; j <= i + behind; j++) largest = fmax(largest, (double)shape->scale * dot(q, i, q_col, k, j, k_col, size));
        for (int64_t j = shape->first[i]; j <= i + behind; j++) {
            double p = exp((double)shape->scale * dot(q, i, q_col, k, j, k_col, size) - largest);
            sum += p;
            add_row(out, p, v, j, k_col, size);
        }
        put_row(o, i, q_col, out, 1.0 / sum, size);
        tensor_put(lse, i, task % heads, (float)(largest + log(sum)));
    }
}

/* p and ds of query row i, query head `head`, and key row j. */
typedef struct backward_inputs {
    tensor d_o, q, k, v, lse, delta;
    const ops_attention *shape;
} backward_inputs;
typedef struct backward_pair {
    double p, ds;
} backward_pair;

static backward_pair backward_of(const backward_inputs *in, int64_t i, int64_t j, int head)
{
    const int size = in->shape->head_size, group = in->shape->heads / in->shape->key_heads;
    const int64_t q_col = (int64_t)head * size, k_col = (int64_t)(head / group) * size;
    backward_pair r;
    r.p = exp((double)in->shape->scale * dot(in->q, i, q_col, in->k, j, k_col, size) - (double)tensor_get(in->lse, i, head));
    r.ds = r.p * (dot(in->d_o, i, q_col, in->v, j, k_col, size) - (double)tensor_get(in->delta, i, head));
    return r;
}

static void backward_query(const backward_inputs *in, tensor dq, tensor o, int64_t i, int head)
{
    const int size = in->shape->head_size, group = in->shape->heads / in->shape->key_heads;
    double sum[HEAD_SIZE_MOST] = {0};
    tensor_put(in->delta, i, head, (float)dot(in->d_o, i, (int64_t)head * size, o, i, (int64_t)head * size, size));
    for (int64_t j = in->shape->first[i]; j <= i; j++) add_row(sum, backward_of(in, i, j, head).ds, in->k, j, (int64_t)(head / group) * size, size);
    put_row(dq, i, (int64_t)head * size, sum, (double)in->shape->scale, size);
}

static void backward_key(const backward_inputs *in, tensor dk, tensor dv, int64_t j, int key_head)
{
    const int size = in->shape->head_size, group = in->shape->heads / in->shape->key_heads;
    double k_sum[HEAD_SIZE_MOST] = {0}, v_sum[HEAD_SIZE_MOST] = {0};
    for (int head = key_head * group; head < (key_head + 1) * group; head++)
        for (int64_t i = j; i < in->q.rows && in->shape->first[i] <= j; i++) {
            backward_pair r = backward_of(in, i, j, head);
            add_row(k_sum, r.ds, in->q, i, (int64_t)head * size, size);
            add_row(v_sum, r.p, in->d_o, i, (int64_t)head * size, size);
        }
    put_row(dk, j, (int64_t)key_head * size, k_sum, (double)in->shape->scale, size);
    put_row(dv, j, (int64_t)key_head * size, v_sum, 1.0, size);
}

static void attention_backward(device *d, tensor dq, tensor dk, tensor dv, tensor d_o, tensor o, tensor q, tensor k, tensor v, tensor lse, tensor delta,
                               const ops_attention *shape)
{
    const int heads = shape->heads, key_heads = shape->key_heads;
    const backward_inputs in = {d_o, q, k, v, lse, delta, shape};
    assert(shape->head_size <= HEAD_SIZE_MOST && heads % key_heads == 0 && k.rows == q.rows && delta.type == DTYPE_F32);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t task = 0; task < q.rows * heads; task++) backward_query(&in, dq, o, task / heads, (int)(task % heads));
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t task = 0; task < k.rows * key_heads; task++) backward_key(&in, dk, dv, task / key_heads, (int)(task % key_heads));
}

void attention_ref_fill(ops_table *t)
{
    t->attention_forward = attention_forward;
    t->attention_backward = attention_backward;
}
