/* A decoder-only model: frozen base, adapters, one forward and one backward pass written by hand.
 *
 * Letters: N tokens of a micro-batch, D width, F inner width, H heads, K key heads, E head size, V vocabulary, R rank, L layers. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "lora/adapter.h"
#include "lora/targets.h"
#include "model/source.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { BLOCK_LINEARS = TENSOR_LINEARS };

/* A micro-batch as the model sees it: one flat run, no padding; attention of token i reaches back to first[i]. */
typedef struct model_batch {
    const int32_t *tokens, *targets; /* [N]; target -1: not counted */
    const int32_t *positions, *first;
    int64_t count;
    uint64_t micro_step; /* number of this micro-batch in the whole run: keys dropout */
} model_batch;

typedef struct model_options {
    dtype compute; /* DTYPE_BF16 or DTYPE_F32 */
    bool quantize, double_quant;
    bool backward;     /* training; else forward only */
    bool keep_blocks;  /* keep what every block needs for its backward pass; else recompute block by block */
    int64_t tokens;    /* N at most */
    int64_t loss_rows; /* rows of a chunk of the head */
    uint64_t seed;
} model_options;

typedef struct block {
    tensor norm_attention, norm_mlp; /* F32 [1, D] */
    linear linears[BLOCK_LINEARS];   /* by tensor_role */
} block;

/* What the backward pass of a block needs beside its input. */
typedef struct block_acts {
    tensor q, k, v, o;                /* [N, H*E] or [N, K*E]; q and k after rotation */
    tensor lse;                       /* F32 [N, H] */
    tensor x_mid;                     /* [N, D] after attention */
    tensor gate, up;                  /* [N, F]; the backward pass writes their gradients over them */
    tensor u[BLOCK_LINEARS];          /* [N, R] of each adapter */
    float *rstd_attention, *rstd_mlp; /* [N] */
} block_acts;

/* Keys and values of earlier tokens, for generation. */
typedef struct block_cache {
    tensor k, v; /* [capacity, K*E] compute type */
} block_cache;

/* Numbers of one pass. */
typedef struct pass {
    linear_context linear;
    int64_t n;           /* tokens in this pass */
    tensor cosine, sine; /* F32 [n, E/2] */
    ops_attention attention;
    block_cache *cache; /* [L] or NULL */
    int64_t past;       /* tokens in the cache before this pass */
} pass;

typedef struct model {
    device *dev;
    const ops_table *ops;
    source source;
    shape dims;
    bool own_head; /* the head has a matrix of its own */
    model_options options;
    float *inverse_frequency; /* [E/2] heap */

    tensor embed, head, final_norm;
    block *blocks;    /* [L] heap */
    block_acts *acts; /* [act_count] heap */
    int act_count;    /* 1 or L */
    tensor *inputs;   /* [L + 1] heap: inputs of the blocks, and the last one's output */

    /* adapters: flat arrays, in order of layer and role */
    const adapter_kind *adapter; /* NULL: none */
    int64_t parameters;
    void *weights;    /* compute type [parameters] */
    float *gradients; /* F32 [parameters], training only */

    /* scratch of a pass */
    tensor normed, hidden; /* [N, D], [N, F] */
    tensor cosine, sine;
    tensor dropped, low_rank[3];
    tensor d_x, d_normed; /* gradient of the residual stream, of a norm's output */
    tensor d_hidden;      /* MLP backward; shares memory with the next line and with the head */
    tensor d_o, d_q, d_k, d_v, delta;
    tensor head_rows, head_normed, head_logits, d_head_rows;
    float *head_rstd;
    int32_t *head_targets, *head_index;
    double *head_losses;
    double *token_losses; /* [N] loss of each counted token of the last pass, else 0 */
    float *staging;       /* one full-precision tensor, loading only */
    float *staging_absmax;
    size_t staging_bytes;    /* of both */
    double quantize_seconds; /* of the last model_load */
} model;

/* Reads config and headers; no weights. `dev` is borrowed. */
qlft_status model_open(model **out, device *dev, const char *base);
void model_close(model *m); /* accepts NULL */

/* Chooses the linears that get an adapter. scale: alpha / r or alpha / sqrt(r). QLFT_EARG names targets that do not exist or ranks above min(in, out). */
qlft_status model_adapt(model *m, const adapter_kind *kind, targets *wanted, int rank, float scale, float dropout);
/* One linear by module name ("model.layers.0.self_attn.q_proj"), NULL if there is none. */
linear *model_linear(model *m, const char *module);
/* All adapted linears in order; count in *count. `list` has room for L * BLOCK_LINEARS or is NULL. */
int model_adapted(model *m, linear **list);
/* Gives one linear an adapter (for adapter files); model_number_parameters afterwards. */
qlft_status model_adapt_linear(model *m, linear *l, const adapter_kind *kind, int rank, float scale, float dropout);
void model_number_parameters(model *m);

/* Takes all memory, dry or real: base, adapter weights and gradients, staging (released), activations, scratch. */
void model_bind(model *m, arena *a, const model_options *options);

typedef void (*model_progress)(void *payload, int64_t done, int64_t total);
/* Reads and quantizes the base, tensor by tensor. NaN or Inf is an error that names tensor and index. *stop may be NULL. */
qlft_status model_load(model *m, model_progress progress, void *payload, const volatile int *stop);
/* FP32 values into the compute weights. */
void model_set_weights(model *m, const float *master);

/* Embedding and blocks: leaves the last block's output in inputs[L]. cache: [L] for generation, else NULL; past: tokens in it. */
qlft_status model_forward(model *m, const model_batch *b, bool training, block_cache *cache, int64_t past);
/* Sum of losses over counted targets, from inputs[L]. gradient: also starts the backward pass (d_x). */
double model_loss(model *m, const model_batch *b, bool gradient);
/* The blocks' backward pass, last to first; adds to gradients. After model_loss with gradient. */
void model_backward(model *m, const model_batch *b);
/* Logits F32 of the last `rows` tokens of the pass into out [rows, V]. */
void model_logits(model *m, int64_t from, int64_t rows, float *out);

/* ---- inside model/ ---- */
/* Sizes of a role's matrix. */
void model_matrix_size(const model *m, tensor_role role, int64_t *rows, int64_t *cols);
void model_bind_base(model *m, arena *a);
/* x_out [n, D] = block(x); x_out.data NULL: the last product, which nothing but x_out needs, is left out (recomputation). */
void block_forward(model *m, int layer, tensor x_out, tensor x, block_acts *acts, const pass *p);
/* d_x in: gradient of the block's output, out: of its input (not computed for layer 0, below which nothing is trained). */
void block_backward(model *m, int layer, tensor d_x, tensor x, block_acts *acts, const pass *p);
/* Rotary frequencies [E/2] as Hugging Face computes them, and the tables of a pass. */
qlft_status rope_frequencies(float *out, const model *m);
void rope_tables(const model *m, tensor cosine, tensor sine, const int32_t *positions, int64_t count);
/* Counted tokens at most in one chunk of the head, for a vocabulary. */
int64_t head_rows_for(int64_t vocabulary);

#ifdef __cplusplus
}
#endif
#endif
