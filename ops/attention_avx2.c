/* Attention with AVX2: tiles in F32 whatever the type of the tensors. */
#include "ops/attention_vector.h"
#include "ops/levels.h"

ATTENTION_BLOCKS_OF(f32, false, 1)
ATTENTION_BLOCKS_OF(f32, false, 2)
static const attention_block_function attention_blocks_f32[][ATTENTION_BLOCK_ROWS] = {ATTENTION_ROW_OF(f32, 1), ATTENTION_ROW_OF(f32, 2)};
ATTENTION_KIT(f32, false)

static const attention_kit kit = {
    .pairs = false,
    .pack = attention_pack_f32,
    .transpose = attention_transpose,
    .interleave = NULL,
    .multiply_scores = attention_multiply_scores_f32,
    .multiply_weights = attention_multiply_weights_f32,
    .softmax = attention_softmax_f32,
    .shrink = attention_shrink,
    .dots = attention_dots,
    .gradient_rows = attention_gradient_rows_f32,
    .gradient_columns = attention_gradient_columns_f32,
    .unpack = attention_unpack,
};

static void attention_forward(device *d, tensor o, tensor lse, tensor q, tensor k, tensor v, const ops_attention *shape)
{
    attention_tiles_forward(&kit, d, o, lse, q, k, v, shape);
}

static void attention_backward(device *d, tensor dq, tensor dk, tensor dv, tensor d_o, tensor o, tensor q, tensor k, tensor v, tensor lse, tensor delta,
                               const ops_attention *shape)
{
    attention_tiles_backward(&kit, d, dq, dk, dv, d_o, o, q, k, v, lse, delta, shape);
}

void attention_avx2_fill(ops_table *t)
{
    t->attention_forward = attention_forward;
    t->attention_backward = attention_backward;
}
