/* One decoder block, backward: the steps of block_forward.c in reverse. dx is the gradient of x. */
#include "model/model.h"

/* Steps 9 to 6: d_x holds the gradient of x_out and becomes that of x_mid. */
static void mlp_half(model *m, block *b, tensor d_x, block_acts *a, const pass *p)
{
    const linear_context *c = &p->linear;
    tensor h = tensor_rows(m->normed, 0, p->n), hidden = tensor_rows(m->hidden, 0, p->n), d_hidden = tensor_rows(m->d_hidden, 0, p->n);
    tensor gate = tensor_rows(a->gate, 0, p->n), up = tensor_rows(a->up, 0, p->n), d_h = tensor_rows(m->d_normed, 0, p->n);
    tensor x_mid = tensor_rows(a->x_mid, 0, p->n), u_down = tensor_rows(a->u[TENSOR_DOWN], 0, p->n);
    linear *down = &b->linears[TENSOR_DOWN], *const wide[2] = {&b->linears[TENSOR_GATE], &b->linears[TENSOR_UP]};
    m->ops->act_forward(m->dev, hidden, gate, up);
    linear_backward(c, &down, &d_x, &u_down, 1, hidden, d_hidden);
    m->ops->act_backward(m->dev, gate, up, d_hidden, gate, up); /* gate and up now hold their gradients */
    m->ops->norm_forward(m->dev, h, a->rstd_mlp, x_mid, b->norm_mlp, 0.0f, (float)m->dims.norm_eps);
    const tensor dy[2] = {gate, up}, u[2] = {tensor_rows(a->u[TENSOR_GATE], 0, p->n), tensor_rows(a->u[TENSOR_UP], 0, p->n)};
    linear_backward(c, wide, dy, u, 2, h, d_h);
    m->ops->norm_backward(m->dev, d_x, d_h, x_mid, b->norm_mlp, a->rstd_mlp, 0.0f);
}

/* Steps 5 to 1: d_x holds the gradient of x_mid and becomes that of x. */
static void attention_half(model *m, int layer, tensor d_x, tensor x, block_acts *a, const pass *p)
{
    block *b = &m->blocks[layer];
    const linear_context *c = &p->linear;
    tensor o = tensor_rows(a->o, 0, p->n), d_o = tensor_rows(m->d_o, 0, p->n), u_o = tensor_rows(a->u[TENSOR_O], 0, p->n);
    tensor h = tensor_rows(m->normed, 0, p->n), d_h = tensor_rows(m->d_normed, 0, p->n);
    tensor q = tensor_rows(a->q, 0, p->n), k = tensor_rows(a->k, 0, p->n), v = tensor_rows(a->v, 0, p->n);
    tensor d_q = tensor_rows(m->d_q, 0, p->n), d_k = tensor_rows(m->d_k, 0, p->n), d_v = tensor_rows(m->d_v, 0, p->n);
    linear *out = &b->linears[TENSOR_O], *const qkv[3] = {&b->linears[TENSOR_Q], &b->linears[TENSOR_K], &b->linears[TENSOR_V]};
    linear_backward(c, &out, &d_x, &u_o, 1, o, d_o);
    m->ops->attention_backward(m->dev, d_q, d_k, d_v, d_o, o, q, k, v, tensor_rows(a->lse, 0, p->n), tensor_rows(m->delta, 0, p->n), &p->attention);
    m->ops->rope(m->dev, d_q, m->dims.head_size, p->cosine, p->sine, -1.0f);
    m->ops->rope(m->dev, d_k, m->dims.head_size, p->cosine, p->sine, -1.0f);
    m->ops->norm_forward(m->dev, h, a->rstd_attention, x, b->norm_attention, 0.0f, (float)m->dims.norm_eps);
    const tensor dy[3] = {d_q, d_k, d_v};
    const tensor u[3] = {tensor_rows(a->u[TENSOR_Q], 0, p->n), tensor_rows(a->u[TENSOR_K], 0, p->n), tensor_rows(a->u[TENSOR_V], 0, p->n)};
    if (layer == 0) d_h.data = NULL; /* the embedding below is frozen */
    linear_backward(c, qkv, dy, u, 3, h, d_h);
    if (d_h.data) m->ops->norm_backward(m->dev, d_x, d_h, x, b->norm_attention, a->rstd_attention, 0.0f);
}

void block_backward(model *m, int layer, tensor d_x, tensor x, block_acts *a, const pass *p)
{
    mlp_half(m, &m->blocks[layer], d_x, a, p);
    attention_half(m, layer, d_x, x, a, p);
}
