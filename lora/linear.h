/* A frozen matrix with an optional bias and an optional adapter:  y = x Wᵀ + bias + adapter(x). */
#ifndef LORA_LINEAR_H
#define LORA_LINEAR_H

#include "nf4/nf4.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct linear linear;
typedef struct adapter_kind adapter_kind;

/* What every call of a pass shares. */
typedef struct linear_context {
    device *dev;
    const ops_table *ops;
    bool training;       /* dropout acts */
    uint64_t seed;       /* of dropout */
    uint64_t micro_step; /* counts micro-batches of the whole run: no two share a mask */
    tensor dropped;      /* [N, largest in] scratch of the compute type; data NULL unless dropout > 0 */
    tensor low_rank[3];  /* [N, R] scratch of the compute type for the backward pass of up to three linears of one input */
} linear_context;

struct linear {
    char name[96]; /* as in the checkpoint, without ".weight": "model.layers.3.self_attn.q_proj" */
    uint64_t site; /* number of this matrix in its model: dropout and initialisation are keyed by it */
    int64_t out, in;
    bool quantized;
    nf4_matrix nf4; /* if quantized */
    tensor dense;   /* else: BF16 or F32 [out, in] */
    float *bias;    /* F32 [out] or NULL */

    const adapter_kind *adapter; /* NULL: frozen */
    int rank;
    float scale; /* alpha / r, or alpha / sqrt(r) */
    float dropout;
    int64_t offset; /* of A in the flat parameter arrays; B follows at offset + rank * in */
    tensor a, b;    /* [R, in], [out, R], compute type, views into the flat weights */
    tensor da, db;  /* F32, views into the flat gradients */
};

/* y [N, out] = beta * y + base(x) + adapter(x): parts summed in FP32 and rounded once. x [N, in]; u [N, R] (compute type) keeps what the backward pass
 * of the adapter needs; not used without an adapter. */
void linear_forward(const linear_context *c, const linear *l, tensor y, tensor x, tensor u, float beta);

/* For up to three linears that share the input x: adds to the gradients of their adapters, and writes dx [N, in] = sum of their input gradients,
 * rounded once (dx.data NULL: not wanted). dy[i] [N, out_i]; u[i] as left by linear_forward. */
void linear_backward(const linear_context *c, linear *const *group, const tensor *dy, const tensor *u, int count, tensor x, tensor dx);

#ifdef __cplusplus
}
#endif
#endif
