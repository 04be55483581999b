#include "lora/linear.h"

#include "lora/adapter.h"

static ops_matrix linear_base(const linear_context *c, const linear *l)
{
    return l->quantized ? nf4_operand(c->dev, &l->nf4) : ops_dense(l->dense);
}

static bool linear_drops(const linear_context *c, const linear *l)
{
    return c->training && l->adapter && l->dropout > 0.0f;
}

void linear_forward(const linear_context *c, const linear *l, tensor y, tensor x, tensor u, float beta)
{
    ops_product terms[2] = {{x, linear_base(c, l), true}};
    int count = 1;
    if (l->adapter) terms[count++] = l->adapter->forward(c, l, x, u);
    c->ops->gemm(c->dev, y, terms, count, 1.0f, l->bias, beta);
}

void linear_backward(const linear_context *c, linear *const *group, const tensor *dy, const tensor *u, int count, tensor x, tensor dx)
{
    ops_product terms[6] = {{x, {0}, false}};
    int used = 0;
    for (int i = 0; i < count; i++) {
        linear *l = group[i];
        if (dx.data) terms[used++] = (ops_product){dy[i], linear_base(c, l), false};
        if (!l->adapter) continue;
        tensor t = tensor_of(c->low_rank[i].data, x.rows, l->rank, x.type);
        ops_product part = l->adapter->backward(c, l, dy[i], x, u[i], t);
        if (dx.data && !linear_drops(c, l)) terms[used++] = part;
    }
    if (!dx.data) return;
    c->ops->gemm(c->dev, dx, terms, used, 1.0f, NULL, 0.0f);
    for (int i = 0; i < count; i++)
        if (linear_drops(c, group[i])) group[i]->adapter->backward_dropped(c, group[i], dx, tensor_of(c->low_rank[i].data, x.rows, group[i]->rank, x.type));
}
