/* Kernels of the model, as one table of functions per level: ref (plain C, double accumulation: the specification and the
 * oracle), avx2, avx512. A level copies the table of the level below and replaces what it does better.
 *
 * Letters: N tokens, D width, F inner width, H heads, K key heads, E head size, V vocabulary, R rank.
 * Activations are F32 or BF16, all of a call the same unless said; sums are F32 or double and are rounded once.
 * All kernels are deterministic: parallel over outputs, never over a reduction, so bits do not depend on d->threads.
 * Kernels return nothing: shapes are checked when a run is bound and asserted inside. Scratch: device_scratch, per thread. */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "core/device.h"
#include "core/random.h"
#include "core/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A matrix operand [rows, cols], row-major: dense (F32 or BF16; decode NULL), or something that decodes itself, like NF4. */
typedef struct ops_matrix {
    int64_t rows, cols;
    const void *data; /* dense: the elements; else what decode reads */
    int64_t stride;   /* dense: elements from row to row */
    dtype type;       /* dense: F32 or BF16 */
    /* Writes elements [first, first + count) of the flat row-major order to out as `type` (F32 exact; BF16 rounded to nearest even). */
    void (*decode)(const void *data, int64_t first, int64_t count, void *out, dtype type);
} ops_matrix;

static inline ops_matrix ops_dense(tensor t)
{
    ops_matrix m;
    m.rows = t.rows;
    m.cols = t.cols;
    m.data = t.data;
    m.stride = t.stride;
    m.type = t.type;
    m.decode = 0;
    return m;
}

/* One term of a sum of products: x [N, inner] times w; transposed: w is [C, inner] and its transpose is used, else w is [inner, C]. */
typedef struct ops_product {
    tensor x;
    ops_matrix w;
    bool transposed;
} ops_product;

typedef struct ops_attention {
    int heads, key_heads, head_size; /* H, K, E; H is a multiple of K; query head h reads key head h / (H / K) */
    float scale;                     /* of the scores, usually 1 / sqrt(E) */
    const int32_t *first;            /* [N queries] index (row of k and v) of the first key that the query sees; never decreases.
                                        The last one it sees is its own: row i + (k.rows - q.rows). So packed samples do not see each other. */
} ops_attention;

typedef struct ops_table {
    const char *name;

    /* y [N, C] = beta * y + alpha * (sum over products of x w) + bias; the whole right side is summed in F32 (a dot product of BF16 values too)
     * and rounded once into y (F32 or BF16). bias: F32 [C] or NULL. beta is 0 (y is not read) or 1. x: all F32 or all BF16. With F32 x the weights
     * are taken as F32; with BF16 x as BF16 (F32 weights and decoded values are rounded). y must not alias any x. */
    void (*gemm)(device *d, tensor y, const ops_product *products, int count, float alpha, const float *bias, float beta);

    /* Weight gradient: y F32 [R, C] += alpha * aᵀ b, a [N, R], b [N, C] (each F32 or BF16). */
    void (*gemm_outer)(device *d, tensor y, tensor a, tensor b, float alpha);

    /* RMS norm: y [N, D] = round(x * rstd) * (weight + offset), rstd [N] = 1 / sqrt(mean(x²) + eps). In BF16 the normalised value is rounded
     * before the product, as Hugging Face does. weight: F32 or BF16 [1, D]. y may alias x. */
    void (*norm_forward)(device *d, tensor y, float *rstd, tensor x, tensor weight, float offset, float eps);
    /* dx [N, D] += gradient through the norm of dy: rstd * (g - x̂ mean(g x̂)), g = dy (weight + offset), x̂ = x rstd. dx must not alias dy. */
    void (*norm_backward)(device *d, tensor dx, tensor dy, tensor x, tensor weight, const float *rstd, float offset);

    /* Rotary embedding in place on x [N, heads * E], half-split pairs (i, i + E/2): cosine and sine F32 [N, E/2].
     * sign +1 forward, -1 backward (the transpose). */
    void (*rope)(device *d, tensor x, int head_size, tensor cosine, tensor sine, float sign);

    /* o [N, H*E] = softmax(scale q kᵀ) v over the keys each query sees; lse F32 [N, H] natural log of the sum of exp of scaled scores.
     * k, v [M, K*E], M >= N. Never holds N x M. */
    void (*attention_forward)(device *d, tensor o, tensor lse, tensor q, tensor k, tensor v, const ops_attention *shape);
    /* dq, dk, dv are written (not added). Needs M == N. delta: F32 [N, H] scratch (row sums of do * o). o may be the buffer of dq? no: none alias. */
    void (*attention_backward)(device *d, tensor dq, tensor dk, tensor dv, tensor d_o, tensor o, tensor q, tensor k, tensor v, tensor lse, tensor delta,
                               const ops_attention *shape);

    /* SwiGLU: h = silu(gate) * up, [N, F]. h may alias gate or up. */
    void (*act_forward)(device *d, tensor h, tensor gate, tensor up);
    /* d_gate = dh up silu'(gate), d_up = dh silu(gate). d_gate may alias gate or dh, d_up may alias up. */
    void (*act_backward)(device *d, tensor d_gate, tensor d_up, tensor dh, tensor gate, tensor up);

    /* y [N, D] = row tokens[i] of table [V, D]. */
    void (*embed)(device *d, tensor y, ops_matrix table, const int32_t *tokens);

    /* Cross entropy of logits F32 [N, V]: losses[i] (double) = logsumexp - logits[target]; the gradient softmax - onehot is written to dlogits
     * (F32 or BF16 [N, V]; data NULL: not wanted), which may lie in the same memory as logits with the same row start in bytes. A row that holds a
     * NaN or +Inf gives a loss that is not finite. */
    void (*xent)(device *d, double *losses, tensor dlogits, tensor logits, const int32_t *targets);

    /* y = x converted (F32 or BF16 either way); same shape. */
    void (*cast)(device *d, tensor y, tensor x);
    /* y += x. */
    void (*add)(device *d, tensor y, tensor x);
    /* Sum of squares in double, in an order that depends on the shape only. */
    double (*sum_squares)(device *d, tensor x);
    /* y = x * mask / (1 - p); accumulate: y += instead. The mask of element (i, j) is a function of key and i * cols + j. y may alias x. */
    void (*dropout)(device *d, tensor y, tensor x, float p, random_key key, bool accumulate);
} ops_table;

/* The table for d->level. */
const ops_table *ops_for(const device *d);
const ops_table *ops_at(cpu_level level); /* for the checker */

/* Row-major F32 helper of all levels: decodes any part of a matrix: row r, columns [col, col + count), as `type`. */
void ops_matrix_row(const ops_matrix *m, int64_t row, int64_t col, int64_t count, void *out, dtype type);

#ifdef __cplusplus
}
#endif
#endif
