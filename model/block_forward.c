/* One decoder block, forward. The backward pass beside it (block_backward.c) mirrors it step by step:
 *   1 h = norm(x)            2 q, k, v = linear(h)        3 rotate q, k         4 o = attention(q, k, v)
 *   5 x_mid = x + linear(o)  6 h = norm(x_mid)            7 gate, up = linear(h) 8 m = silu(gate) * up      9 x_out = x_mid + linear(m) */
#include <string.h>

#include "model/model.h"

static void copy_rows(tensor to, tensor from)
{
    memcpy(to.data, from.data, (size_t)(from.rows * from.cols) * dtype_bytes(from.type));
}

/* With a cache the new keys and values are put behind the earlier ones and attention reads all of them. */
static void attend(model *m, int layer, block_acts *a, const pass *p, tensor q, tensor k, tensor v)
{
    tensor o = tensor_rows(a->o, 0, p->n), lse = tensor_rows(a->lse, 0, p->n);
    if (p->cache) {
        block_cache *cache = &p->cache[layer];
        copy_rows(tensor_rows(cache->k, p->past, p->n), k);
        copy_rows(tensor_rows(cache->v, p->past, p->n), v);
        k = tensor_rows(cache->k, 0, p->past + p->n);
        v = tensor_rows(cache->v, 0, p->past + p->n);
    }
    m->ops->attention_forward(m->dev, o, lse, q, k, v, &p->attention);
}

static void attention_half(model *m, int layer, tensor x, block_acts *a, const pass *p)
{
    block *b = &m->blocks[layer];
    const linear_context *c = &p->linear;
    tensor h = tensor_rows(m->normed, 0, p->n), x_mid = tensor_rows(a->x_mid, 0, p->n);
    tensor q = tensor_rows(a->q, 0, p->n), k = tensor_rows(a->k, 0, p->n), v = tensor_rows(a->v, 0, p->n);
    m->ops->norm_forward(m->dev, h, a->rstd_attention, x, b->norm_attention, 0.0f, (float)m->dims.norm_eps);
    linear_forward(c, &b->linears[TENSOR_Q], q, h, tensor_rows(a->u[TENSOR_Q], 0, p->n), 0.0f);
    linear_forward(c, &b->linears[TENSOR_K], k, h, tensor_rows(a->u[TENSOR_K], 0, p->n), 0.0f);
    linear_forward(c, &b->linears[TENSOR_V], v, h, tensor_rows(a->u[TENSOR_V], 0, p->n), 0.0f);
    m->ops->rope(m->dev, q, m->dims.head_size, p->cosine, p->sine, 1.0f);
    m->ops->rope(m->dev, k, m->dims.head_size, p->cosine, p->sine, 1.0f);
    attend(m, layer, a, p, q, k, v);
    copy_rows(x_mid, x);
    linear_forward(c, &b->linears[TENSOR_O], x_mid, tensor_rows(a->o, 0, p->n), tensor_rows(a->u[TENSOR_O], 0, p->n), 1.0f);
}

void block_forward(model *m, int layer, tensor x_out, tensor x, block_acts *a, const pass *p)
{
    block *b = &m->blocks[layer];
    const linear_context *c = &p->linear;
    attention_half(m, layer, x, a, p);
    tensor h = tensor_rows(m->normed, 0, p->n), hidden = tensor_rows(m->hidden, 0, p->n), x_mid = tensor_rows(a->x_mid, 0, p->n);
    tensor gate = tensor_rows(a->gate, 0, p->n), up = tensor_rows(a->up, 0, p->n);
    m->ops->norm_forward(m->dev, h, a->rstd_mlp, x_mid, b->norm_mlp, 0.0f, (float)m->dims.norm_eps);
    linear_forward(c, &b->linears[TENSOR_GATE], gate, h, tensor_rows(a->u[TENSOR_GATE], 0, p->n), 0.0f);
    linear_forward(c, &b->linears[TENSOR_UP], up, h, tensor_rows(a->u[TENSOR_UP], 0, p->n), 0.0f);
    m->ops->act_forward(m->dev, hidden, gate, up);
    tensor u_down = tensor_rows(a->u[TENSOR_DOWN], 0, p->n);
    if (!x_out.data) {
        /* Recomputation: the backward pass wants the adapter's u, but not the product. */
        const linear *down = &b->linears[TENSOR_DOWN];
        if (down->adapter) down->adapter->forward(c, down, hidden, u_down);
        return;
    }
    copy_rows(x_out, x_mid);
    linear_forward(c, &b->linears[TENSOR_DOWN], x_out, hidden, u_down, 1.0f);
}
