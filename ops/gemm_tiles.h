/* What the SIMD levels of the matrix products share: the split of y into tiles, one tile a task, and the blocks of the inner dimension. A level
 * gives the three inner functions.
 *
 * A tile's sums lie in a thread's scratch as F32. Its columns are one strip, or a few where x is deep; an inner block of a strip of w is decoded and
 * packed once a tile into a panel, and multiplied with all rows of the tile. Each output's sum runs over the inner dimension in order, blocks of GEMM_INNER
 * summed apart, whatever the tile: so its bits depend neither on the threads nor on the other rows of the batch. */
#ifndef OPS_GEMM_TILES_H
#define OPS_GEMM_TILES_H

#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GEMM_COLS = 64,    /* columns of a panel at most: four vectors of 16 floats */
    GEMM_INNER = 1024, /* of a panel; even, so that only the last block can have half a BF16 pair */
    GEMM_ROWS = 768,   /* of a tile at most */
    GEMM_GROUP = 16    /* rows of w that are decoded together before they are transposed into a panel */
};

/* The left side of a product: element (row, i) at row * row_stride + i * step elements; packed: a panel of the level, (row, step) at row + step * width. */
typedef struct gemm_left {
    const void *data;
    int64_t row_stride, step;
    bool packed;
} gemm_left;

typedef struct gemm_level {
    /* Packs rows or columns [c, c + cols) of w, inner part [k, k + inner), for a tile of width columns (16, 32, 48 or 64). transposed as in
     * ops_product. `lines`: room for GEMM_GROUP x GEMM_INNER floats. Panel columns from cols to width may hold anything finite or not. */
    void (*pack)(void *panel, void *lines, const ops_matrix *w, bool transposed, int64_t k, int64_t inner, int64_t c, int64_t cols, int64_t width);
    /* sums [rows, width] += left [rows, inner] panel. `lines` as above. */
    void (*multiply)(float *sums, int64_t rows, gemm_left left, int64_t inner, const void *panel, int64_t width, void *lines);
    /* y [rows, cols] = beta y + alpha sums [rows, width] + bias [cols], rounded once. */
    void (*store)(tensor y, const float *sums, int64_t width, float alpha, const float *bias, float beta);
    int64_t pack_rows; /* rows of a tile that cost about as much as packing its panel: for the choice of tiles */
} gemm_level;

/* ops_table's gemm and gemm_outer: products of BF16 by bf16, others by f32. */
void gemm_tiles_run(device *d, const gemm_level *f32, const gemm_level *bf16, tensor y, const ops_product *products, int count, float alpha, const float *bias,
                    float beta);
void gemm_tiles_outer(device *d, const gemm_level *f32, const gemm_level *bf16, tensor y, tensor a, tensor b, float alpha);

#ifdef __cplusplus
}
#endif
#endif
