/* Attention with AVX-512: F32 tensors by fused multiply-add, BF16 tensors by dot products of pairs (vdpbf16ps; weights and their gradients are
 * rounded to BF16, sums are F32). */
#include <assert.h>

#include "ops/attention_vector.h"
#include "ops/levels.h"

ATTENTION_BLOCKS_OF(f32, false, 1)
ATTENTION_BLOCKS_OF(f32, false, 2)
ATTENTION_BLOCKS_OF(f32, false, 3)
ATTENTION_BLOCKS_OF(f32, false, 4)
static const attention_block_function attention_blocks_f32[][ATTENTION_BLOCK_ROWS] = {ATTENTION_ROW_OF(f32, 1), ATTENTION_ROW_OF(f32, 2),
                                                                                      ATTENTION_ROW_OF(f32, 3), ATTENTION_ROW_OF(f32, 4)};
ATTENTION_KIT(f32, false)

ATTENTION_BLOCKS_OF(bf16, true, 1)
ATTENTION_BLOCKS_OF(bf16, true, 2)
ATTENTION_BLOCKS_OF(bf16, true, 3)
ATTENTION_BLOCKS_OF(bf16, true, 4)
static const attention_block_function attention_blocks_bf16[][ATTENTION_BLOCK_ROWS] = {ATTENTION_ROW_OF(bf16, 1), ATTENTION_ROW_OF(bf16, 2),
                                                                                       ATTENTION_ROW_OF(bf16, 3), ATTENTION_ROW_OF(bf16, 4)};
ATTENTION_KIT(bf16, true)

static void pack_bf16(uint32_t *out, int stride, tensor x, int64_t row, int rows, int64_t col, int cols)
{
    assert(x.type == DTYPE_BF16);
    for (int r = 0; r < rows; r++) {
        const uint16_t *from = (const uint16_t *)vec_row(x, row + r) + col;
        for (int at = 0; at < 2 * stride; at += 2 * VEC) {
            const int left = cols - at < 0 ? 0 : cols - at > 2 * VEC ? 2 * VEC : cols - at;
            const __mmask32 mask = (__mmask32)((UINT64_C(1) << left) - 1);
            _mm512_storeu_si512(out + (size_t)r * (size_t)stride + at / 2, _mm512_maskz_loadu_epi16(mask, from + at));
        }
    }
    memset(out + (size_t)rows * (size_t)stride, 0, (size_t)(attention_padded(rows) - rows) * (size_t)stride * sizeof *out);
}

static void interleave_bf16(uint32_t *out, const uint32_t *packed, int stride, int rows, int width)
{
    for (int r = 0; r < rows; r += 2, out += width, packed += 2 * stride)
        for (int j = 0; j < width; j += VEC) {
            __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)((const uint16_t *)packed + j)));
            __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)((const uint16_t *)(packed + stride) + j)));
            _mm512_storeu_si512(out + j, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
        }
}

static const attention_kit kit_f32 = {
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

static const attention_kit kit_bf16 = {
    .pairs = true,
    .pack = pack_bf16,
    .transpose = attention_transpose,
    .interleave = interleave_bf16,
    .multiply_scores = attention_multiply_scores_bf16,
    .multiply_weights = attention_multiply_weights_bf16,
    .softmax = attention_softmax_bf16,
    .shrink = attention_shrink,
    .dots = attention_dots,
    .gradient_rows = attention_gradient_rows_bf16,
    .gradient_columns = attention_gradient_columns_bf16,
    .unpack = attention_unpack,
};

static const attention_kit *kit_of(tensor q)
{
    return q.type == DTYPE_BF16 ? &kit_bf16 : &kit_f32;
}

static void attention_forward(device *d, tensor o, tensor lse, tensor q, tensor k, tensor v, const ops_attention *shape)
{
    attention_tiles_forward(kit_of(q), d, o, lse, q, k, v, shape);
}

static void attention_backward(device *d, tensor dq, tensor dk, tensor dv, tensor d_o, tensor o, tensor q, tensor k, tensor v, tensor lse, tensor delta,
                               const ops_attention *shape)
{
    attention_tiles_backward(kit_of(q), d, dq, dk, dv, d_o, o, q, k, v, lse, delta, shape);
}

void attention_avx512_fill(ops_table *t)
{
    t->attention_forward = attention_forward;
    t->attention_backward = attention_backward;
}
