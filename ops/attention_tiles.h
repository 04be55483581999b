/* Flash attention over tiles, for every level: the walk over tiles is in attention_tiles.c, what works on numbers is a kit of the level.
 *
 * A word is 32 bits: one F32, or (kit->pairs) two BF16 that follow each other along the dimension that a product sums over. So a product
 * C [rows, width] = A B has A [rows, depth words] row-major and B [depth words, width] row-major, and is the same loop for both.
 * Strides are in words or floats. Depths and widths in memory are padded to multiples of ATTENTION_PAD, the padding is zero. */
#ifndef OPS_ATTENTION_TILES_H
#define OPS_ATTENTION_TILES_H

#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTENTION_TILE = 64, ATTENTION_PAD = 16, ATTENTION_HEAD_SIZE_MOST = 256 };

typedef struct attention_kit {
    bool pairs;

    /* out [rows padded, stride words] = rows [row, row + rows), columns [col, col + cols) of x, as operand A. */
    void (*pack)(uint32_t *out, int stride, tensor x, int64_t row, int rows, int64_t col, int cols);
    /* out [stride, ATTENTION_TILE]: the transpose of a packed one: operand B = xᵀ of a product that sums over the columns of x. */
    void (*transpose)(uint32_t *out, const uint32_t *packed, int stride, int rows);
    /* out [rows / 2 rounded up, width]: operand B = x of a product that sums over the rows of x. Not needed without pairs. */
    void (*interleave)(uint32_t *out, const uint32_t *packed, int stride, int rows, int width);
    /* Row r of a tile of scores or weights means something in columns from[r] .. to[r] - 1 only; what is outside is neither computed nor used.
     * Each element is one chain over depth: its bits do not depend on the other rows, nor on where in the tile its columns stand.
     * Scores: c [rows, ATTENTION_TILE] = a b with b [depth, ATTENTION_TILE]; columns outside may keep what they were. */
    void (*multiply_scores)(float *c, const uint32_t *a, int a_stride, const uint32_t *b, int rows, int depth, const int *from, const int *to);
    /* Sums with weights: c [rows, width] = (add ? c : 0) + a b, a [rows, ATTENTION_TILE], b [.., b_stride]; width is a multiple of ATTENTION_PAD. */
    void (*multiply_weights)(float *c, int width, const uint32_t *a, const uint32_t *b, int b_stride, int rows, const int *from, const int *to, bool add);

    /* One step of the running softmax on s [rows, ATTENTION_TILE], row r over its columns from[r] .. to[r] - 1: largest and sum are carried on,
     * p (operand A, stride ATTENTION_TILE words) = exp(scale s - largest), 0 outside; factor[r] = what earlier sums of the row shrink by.
     * largest, sum and factor have room for ATTENTION_TILE rows. */
    void (*softmax)(uint32_t *p, float *largest, float *sum, float *factor, const float *s, const int *from, const int *to, int rows, int width, float scale);
    /* x [rows, width] times factor[r]. */
    void (*shrink)(float *x, int stride, const float *factor, int rows, int width);
    /* delta[r] = sum over the columns of a and b. */
    void (*dots)(float *delta, tensor a, tensor b, int64_t row, int rows, int64_t col, int cols);
    /* p = exp(scale s - lse) and ds = p (dp - delta) as operands A, 0 outside [from, to) of a row. lse and delta by row; p is not wanted. */
    void (*gradient_rows)(uint32_t *ds, const float *s, const float *dp, const float *lse, const float *delta, const int *from, const int *to, int rows,
                          int width, float scale);
    /* The same on transposed tiles: lse and delta by column. */
    void (*gradient_columns)(uint32_t *p, uint32_t *ds, const float *s, const float *dp, const float *lse, const float *delta, const int *from, const int *to,
                             int rows, int width, float scale);
    /* Rows of y = x [rows, stride] times factor[r] (NULL: 1) times scale. */
    void (*unpack)(tensor y, int64_t row, int rows, int64_t col, int cols, const float *x, int stride, const float *factor, float scale);
} attention_kit;

void attention_tiles_forward(const attention_kit *kit, device *d, tensor o, tensor lse, tensor q, tensor k, tensor v, const ops_attention *shape);
void attention_tiles_backward(const attention_kit *kit, device *d, tensor dq, tensor dk, tensor dv, tensor d_o, tensor o, tensor q, tensor k, tensor v,
                              tensor lse, tensor delta, const ops_attention *shape);

#ifdef __cplusplus
}
#endif
#endif
