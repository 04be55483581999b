/* LoRA (Hu et al. 2021): y += s (drop(x) Aᵀ) Bᵀ, A [R, in], B [out, R].
 * u = s drop(x) Aᵀ is kept for the backward pass:  t = s dy B,  dB += dyᵀ u,  dA += tᵀ drop(x),  dx += undrop(t A). */
#include <math.h>
#include <string.h>

#include "lora/adapter.h"

static int64_t lora_parameters(const linear *l)
{
    return (int64_t)l->rank * (l->in + l->out);
}

static void lora_attach(linear *l, void *weights, dtype type, float *gradients)
{
    int64_t split = (int64_t)l->rank * l->in;
    char *at = weights ? (char *)weights + (size_t)l->offset * dtype_bytes(type) : NULL;
    l->a = tensor_of(at, l->rank, l->in, type);
    l->b = tensor_of(at ? at + (size_t)split * dtype_bytes(type) : NULL, l->out, l->rank, type);
    l->da = tensor_of(gradients ? gradients + l->offset : NULL, l->rank, l->in, DTYPE_F32);
    l->db = tensor_of(gradients ? gradients + l->offset + split : NULL, l->out, l->rank, DTYPE_F32);
}

/* As PEFT: A is Kaiming-uniform with a = sqrt(5), that is, uniform within +-1/sqrt(in); B is zero. */
static void lora_init(const linear *l, float *master, uint64_t seed)
{
    int64_t split = (int64_t)l->rank * l->in;
    random_key key = random_key_of(seed, RANDOM_ADAPTER_INIT, l->site, 0);
    double bound = 1.0 / sqrt((double)l->in);
    for (int64_t i = 0; i < split; i++) master[l->offset + i] = (float)((2.0 * random_double(key, (uint64_t)i) - 1.0) * bound);
    memset(master + l->offset + split, 0, (size_t)(l->rank * l->out) * sizeof *master);
}

static random_key lora_mask_key(const linear_context *c, const linear *l)
{
    return random_key_of(c->seed, RANDOM_DROPOUT, c->micro_step, l->site);
}

/* What A is multiplied with: x, or its dropped copy in the context's scratch. */
static tensor lora_input(const linear_context *c, const linear *l, tensor x)
{
    if (!c->training || l->dropout <= 0.0f) return x;
    tensor dropped = tensor_of(c->dropped.data, x.rows, x.cols, x.type);
    c->ops->dropout(c->dev, dropped, x, l->dropout, lora_mask_key(c, l), false);
    return dropped;
}

static ops_product lora_forward(const linear_context *c, const linear *l, tensor x, tensor u)
{
    ops_product down = {lora_input(c, l, x), ops_dense(l->a), true};
    c->ops->gemm(c->dev, u, &down, 1, l->scale, NULL, 0.0f);
    return (ops_product){u, ops_dense(l->b), true};
}

static ops_product lora_backward(const linear_context *c, linear *l, tensor dy, tensor x, tensor u, tensor t)
{
    ops_product up = {dy, ops_dense(l->b), false};
    c->ops->gemm(c->dev, t, &up, 1, l->scale, NULL, 0.0f);
    c->ops->gemm_outer(c->dev, l->db, dy, u, 1.0f);
    c->ops->gemm_outer(c->dev, l->da, t, lora_input(c, l, x), 1.0f);
    return (ops_product){t, ops_dense(l->a), false};
}

static void lora_backward_dropped(const linear_context *c, const linear *l, tensor dx, tensor t)
{
    tensor part = tensor_of(c->dropped.data, dx.rows, dx.cols, dx.type);
    ops_product term = {t, ops_dense(l->a), false};
    c->ops->gemm(c->dev, part, &term, 1, 1.0f, NULL, 0.0f);
    c->ops->dropout(c->dev, dx, part, l->dropout, lora_mask_key(c, l), true);
}

const adapter_kind adapter_lora = {"lora", "LORA", lora_parameters, lora_attach, lora_init, lora_forward, lora_backward, lora_backward_dropped};
