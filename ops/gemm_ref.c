/* Matrix products, the specification: each output is one sum in double over all products in order, rounded once. */
#include <assert.h>
#include <omp.h>

#include "ops/levels.h"

enum { TILE_ROWS = 64, TILE_COLS = 64, TILE_INNER = 256 };

/* What a thread holds of one tile of y. */
typedef struct tile {
    double sums[TILE_ROWS][TILE_COLS];
    double panel[TILE_INNER][TILE_COLS]; /* of w, inner by column */
    float line[TILE_INNER];
} tile;
_Static_assert(sizeof(tile) <= DEVICE_SCRATCH_BYTES, "a tile fits in a thread's scratch");
_Static_assert(TILE_INNER >= TILE_COLS, "a line takes a row of either orientation");

static int64_t blocks_of(int64_t n, int64_t block)
{
    return n / block + (n % block != 0);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A part of a row of w as float; in BF16 mode rounded to BF16 first. */
static void read_line(float *line, const ops_matrix *w, int64_t row, int64_t col, int64_t count, dtype type)
{
    if (type == DTYPE_F32) {
        ops_matrix_row(w, row, col, count, line, DTYPE_F32);
        return;
    }
    uint16_t halves[TILE_INNER];
    ops_matrix_row(w, row, col, count, halves, DTYPE_BF16);
    for (int64_t i = 0; i < count; i++) line[i] = bf16_to_f32(halves[i]);
}

static void read_panel(tile *s, const ops_product *p, int64_t k, int64_t inner, int64_t c, int64_t cols)
{
    dtype type = p->x.type;
    if (p->transposed) {
        for (int64_t j = 0; j < cols; j++) {
            read_line(s->line, &p->w, c + j, k, inner, type);
            for (int64_t i = 0; i < inner; i++) s->panel[i][j] = (double)s->line[i];
        }
    } else {
        for (int64_t i = 0; i < inner; i++) {
            read_line(s->line, &p->w, k + i, c, cols, type);
            for (int64_t j = 0; j < cols; j++) s->panel[i][j] = (double)s->line[j];
        }
    }
}

static void add_product(tile *s, const ops_product *p, int64_t n, int64_t rows, int64_t c, int64_t cols)
{
    for (int64_t k = 0; k < p->x.cols; k += TILE_INNER) {
        int64_t inner = smaller(TILE_INNER, p->x.cols - k);
        read_panel(s, p, k, inner, c, cols);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t i = 0; i < inner; i++) {
                double x = (double)tensor_get(p->x, n + row, k + i);
                for (int64_t j = 0; j < cols; j++) s->sums[row][j] += x * s->panel[i][j];
            }
    }
}

static void gemm_ref(device *d, tensor y, const ops_product *products, int count, float alpha, const float *bias, float beta)
{
    for (int p = 0; p < count; p++) {
        const ops_matrix *w = &products[p].w;
        assert(products[p].x.rows == y.rows && (products[p].transposed ? w->rows : w->cols) == y.cols);
        assert((products[p].transposed ? w->cols : w->rows) == products[p].x.cols);
    }
    int64_t row_tiles = blocks_of(y.rows, TILE_ROWS), tasks = row_tiles * blocks_of(y.cols, TILE_COLS);
#pragma omp parallel for num_threads(d->threads) schedule(dynamic)
    for (int64_t task = 0; task < tasks; task++) {
        tile *s = device_scratch(d, omp_get_thread_num());
        int64_t n = task % row_tiles * TILE_ROWS, c = task / row_tiles * TILE_COLS;
        int64_t rows = smaller(TILE_ROWS, y.rows - n), cols = smaller(TILE_COLS, y.cols - c);
        memset(s->sums, 0, sizeof s->sums);
        for (int p = 0; p < count; p++) add_product(s, &products[p], n, rows, c, cols);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t j = 0; j < cols; j++) {
                double sum = (double)alpha * s->sums[row][j];
                if (bias) sum += (double)bias[c + j];
                if (beta != 0.0f) sum += (double)beta * (double)tensor_get(y, n + row, c + j);
                tensor_put(y, n + row, c + j, (float)sum);
            }
    }
}

static void gemm_outer_ref(device *d, tensor y, tensor a, tensor b, float alpha)
{
    assert(y.type == DTYPE_F32 && a.rows == b.rows && y.rows == a.cols && y.cols == b.cols);
    int64_t row_tiles = blocks_of(y.rows, TILE_ROWS), tasks = row_tiles * blocks_of(y.cols, TILE_COLS);
#pragma omp parallel for num_threads(d->threads) schedule(dynamic)
    for (int64_t task = 0; task < tasks; task++) {
        tile *s = device_scratch(d, omp_get_thread_num());
        int64_t r = task % row_tiles * TILE_ROWS, c = task / row_tiles * TILE_COLS;
        int64_t rows = smaller(TILE_ROWS, y.rows - r), cols = smaller(TILE_COLS, y.cols - c);
        memset(s->sums, 0, sizeof s->sums);
        for (int64_t n = 0; n < a.rows; n++) {
            for (int64_t j = 0; j < cols; j++) s->panel[0][j] = (double)tensor_get(b, n, c + j);
            for (int64_t row = 0; row < rows; row++) {
                double x = (double)tensor_get(a, n, r + row);
                for (int64_t j = 0; j < cols; j++) s->sums[row][j] += x * s->panel[0][j];
            }
        }
        for (int64_t row = 0; row < rows; row++)
            for (int64_t j = 0; j < cols; j++) {
                double sum = (double)alpha * s->sums[row][j] + (double)tensor_get(y, r + row, c + j);
                tensor_put(y, r + row, c + j, (float)sum);
            }
    }
}

void gemm_ref_fill(ops_table *t)
{
    t->gemm = gemm_ref;
    t->gemm_outer = gemm_outer_ref;
}
