/* Tiles of the matrix products; see gemm_tiles.h. */
#include "ops/gemm_tiles.h"

#include <assert.h>
#include <omp.h>

enum { TILE_SUMS = 73728, TILE_COLS = 640 };
_Static_assert(TILE_SUMS >= GEMM_ROWS * GEMM_COLS, "a strip of GEMM_ROWS rows fits");

/* A thread's scratch. `left` holds the packed left side of gemm_outer, whose tiles have GEMM_COLS rows at most. */
typedef struct tile_scratch {
    float panel[GEMM_INNER * GEMM_COLS];
    float lines[GEMM_GROUP * GEMM_INNER];
    union {
        float sums[TILE_SUMS]; /* strip by strip, each [rows, its width] */
        struct {
            float sums[GEMM_COLS * GEMM_COLS];
            float left[GEMM_INNER * GEMM_COLS];
        } outer;
    } tile;
} tile_scratch;
_Static_assert(sizeof(tile_scratch) <= DEVICE_SCRATCH_BYTES, "a tile fits in a thread's scratch");

typedef struct tiling {
    int64_t width, height; /* of a tile */
    int64_t across, down;  /* tiles in a row and in a column of y */
} tiling;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t blocks_of(int64_t n, int64_t block)
{
    return n / block + (n % block != 0);
}

/* Strips of a tile are of equal width, but for the last: each is a panel. */
static int64_t strip_width(int64_t cols)
{
    int64_t strips = blocks_of(cols, GEMM_COLS);
    return blocks_of(blocks_of(cols, strips), 16) * 16;
}

/* Seconds, times something: columns times (rows + pack_rows). A deep x does not stay in the cache from tile to tile,
 * and to read it again costs about as much as to multiply it with 18 columns (measured; the head's gradient, 50 MB of x and w). */
static double tile_cost(int64_t width, int64_t rows, int64_t pack_rows, bool deep)
{
    double penalty = width == 16 ? 1.3 : width == 32 ? 1.05 : 1.0; /* a vector alone does not hide the latency of its sums */
    return (double)width * (double)(rows + pack_rows) * penalty + (deep ? 18.0 * (double)rows : 0.0);
}

/* The tiling with the least work for the busiest thread. */
static tiling tiling_choose(int64_t rows, int64_t cols, int64_t inner, int threads, int64_t pack_rows)
{
    bool deep = inner > 4 * GEMM_INNER;
    tiling best = {0, 0, 0, 0};
    double best_cost = 0.0;
    int64_t least = blocks_of(rows, GEMM_ROWS), most = smaller(blocks_of(rows, 48), least + 2 * threads);
    for (int64_t down = least; down <= most; down++) {
        int64_t height = blocks_of(blocks_of(rows, down), 6) * 6; /* micro-kernels have 6 rows */
        if (height > GEMM_ROWS) continue;
        int64_t widest = deep ? smaller(TILE_COLS, TILE_SUMS / height / 16 * 16) : GEMM_COLS;
        for (int64_t width = widest; width >= 16; width -= 16) {
            tiling t = {width, height, blocks_of(cols, width), blocks_of(rows, height)};
            double cost =
                (double)blocks_of(t.across * t.down, threads) * tile_cost(smaller(width, blocks_of(cols, 16) * 16), smaller(height, rows), pack_rows, deep);
            if (best.width == 0 || cost < best_cost * 0.999) {
                best = t;
                best_cost = cost;
            }
        }
    }
    return best;
}

/* Threads are not worth waking for less than about 10 microseconds of work. */
static int threads_for(const device *d, int64_t rows, int64_t cols, int64_t inner)
{
    return (double)(rows + 16) * (double)cols * (double)inner < 4e5 ? 1 : d->threads;
}

static void run_tile(tile_scratch *s, const gemm_level *level, int64_t n, int64_t rows, int64_t c, int64_t cols, const ops_product *products, int count)
{
    int64_t strip = strip_width(cols);
    memset(s->tile.sums, 0, (size_t)(rows * blocks_of(cols, 16) * 16) * sizeof(float));
    for (int p = 0; p < count; p++) {
        const ops_product *product = &products[p];
        tensor x = tensor_rows(product->x, n, rows);
        for (int64_t k = 0; k < x.cols; k += GEMM_INNER) {
            int64_t inner = smaller(GEMM_INNER, x.cols - k);
            gemm_left left = {(const char *)x.data + (size_t)k * dtype_bytes(x.type), x.stride, 1, false};
            for (int64_t j = 0; j < cols; j += strip) {
                int64_t part = smaller(strip, cols - j), width = blocks_of(part, 16) * 16;
                level->pack(s->panel, s->lines, &product->w, product->transposed, k, inner, c + j, part, width);
                level->multiply(s->tile.sums + rows * j, rows, left, inner, s->panel, width, s->lines);
            }
        }
    }
}

static tensor part_of(tensor y, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    tensor part = tensor_rows(y, row, rows);
    part.data = (char *)part.data + (size_t)col * dtype_bytes(y.type);
    part.cols = cols;
    return part;
}

void gemm_tiles_run(device *d, const gemm_level *f32, const gemm_level *bf16, tensor y, const ops_product *products, int count, float alpha, const float *bias,
                    float beta)
{
    int64_t inner = 0, deepest = 0;
    for (int p = 0; p < count; p++) {
        const ops_product *product = &products[p];
        assert(product->x.rows == y.rows && (product->transposed ? product->w.rows : product->w.cols) == y.cols);
        assert((product->transposed ? product->w.cols : product->w.rows) == product->x.cols && product->x.type == products[0].x.type);
        inner += product->x.cols;
        deepest = product->x.cols > deepest ? product->x.cols : deepest;
    }
    if (y.rows == 0 || y.cols == 0) return;
    const gemm_level *level = count > 0 && products[0].x.type == DTYPE_BF16 ? bf16 : f32;
    int threads = threads_for(d, y.rows, y.cols, inner);
    tiling t = tiling_choose(y.rows, y.cols, deepest, threads, level->pack_rows);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t task = 0; task < t.across * t.down; task++) {
        tile_scratch *s = device_scratch(d, omp_get_thread_num());
        int64_t n = task % t.down * t.height, c = task / t.down * t.width;
        int64_t rows = smaller(t.height, y.rows - n), cols = smaller(t.width, y.cols - c);
        run_tile(s, level, n, rows, c, cols, products, count);
        for (int64_t j = 0, strip = strip_width(cols); j < cols; j += strip) {
            int64_t part = smaller(strip, cols - j), width = blocks_of(part, 16) * 16;
            level->store(part_of(y, n, rows, c + j, part), s->tile.sums + rows * j, width, alpha, bias ? bias + c + j : NULL, beta);
        }
    }
}

void gemm_tiles_outer(device *d, const gemm_level *f32, const gemm_level *bf16, tensor y, tensor a, tensor b, float alpha)
{
    assert(y.type == DTYPE_F32 && a.rows == b.rows && y.rows == a.cols && y.cols == b.cols);
    if (y.rows == 0 || y.cols == 0) return;
    const gemm_level *level = a.type == DTYPE_BF16 && b.type == DTYPE_BF16 ? bf16 : f32;
    ops_matrix left_matrix = ops_dense(a), right_matrix = ops_dense(b);
    int64_t down = blocks_of(y.rows, GEMM_COLS), across = blocks_of(y.cols, GEMM_COLS);
#pragma omp parallel for num_threads(threads_for(d, y.rows, y.cols, a.rows)) schedule(dynamic)
    for (int64_t task = 0; task < across * down; task++) {
        tile_scratch *s = device_scratch(d, omp_get_thread_num());
        int64_t r = task % down * GEMM_COLS, c = task / down * GEMM_COLS;
        int64_t rows = smaller(GEMM_COLS, y.rows - r), cols = smaller(GEMM_COLS, y.cols - c);
        int64_t width = blocks_of(cols, 16) * 16, left_width = blocks_of(rows, 16) * 16;
        memset(s->tile.outer.sums, 0, (size_t)(rows * width) * sizeof(float));
        for (int64_t n = 0; n < a.rows; n += GEMM_INNER) {
            int64_t inner = smaller(GEMM_INNER, a.rows - n);
            gemm_left left = {s->tile.outer.left, 1, left_width, true};
            level->pack(s->tile.outer.left, s->lines, &left_matrix, false, n, inner, r, rows, left_width);
            level->pack(s->panel, s->lines, &right_matrix, false, n, inner, c, cols, width);
            level->multiply(s->tile.outer.sums, rows, left, inner, s->panel, width, s->lines);
        }
        level->store(part_of(y, r, rows, c, cols), s->tile.outer.sums, width, alpha, NULL, 1.0f);
    }
}
