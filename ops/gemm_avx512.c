/* Matrix products with 512-bit vectors: micro-kernels of 6 rows x 4 vectors. A BF16 panel holds pairs of inner neighbours, [inner / 2][width][2],
 * for the pair dot product; an F32 panel is [inner][width]. */
#include <immintrin.h>

#include "ops/gemm_tiles.h"
#include "ops/levels.h"

enum { MICRO_ROWS = 6, MICRO_VECTORS = GEMM_COLS / 16 };

#define INLINE static inline __attribute__((always_inline))

/* ---- micro-kernels: the loops over r and v are unrolled, so that the sums stay in registers ---- */

INLINE void micro_load(__m512 sums[MICRO_ROWS][MICRO_VECTORS], int rows, int vectors)
{
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sums[r][v] = _mm512_setzero_ps();
}

INLINE void micro_store(float *to, __m512 sums[MICRO_ROWS][MICRO_VECTORS], int rows, int vectors)
{
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            float *at = to + (r * vectors + v) * 16;
            _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), sums[r][v]));
        }
}

INLINE void micro_pairs_step(__m512 sums[MICRO_ROWS][MICRO_VECTORS], int rows, int vectors, const uint32_t *panel, const uint16_t *left, int64_t row_stride,
                             bool half)
{
    __m512bh w[MICRO_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) w[v] = (__m512bh)_mm512_loadu_si512(panel + v * 16);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        uint32_t pair = 0;
        if (half)
            pair = left[r * row_stride];
        else
            memcpy(&pair, left + r * row_stride, sizeof pair);
        __m512bh x = (__m512bh)_mm512_set1_epi32((int)pair);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], w[v], x);
    }
}

/* row_stride and step in BF16 elements; step from pair to pair. A last half pair must not read the element behind it: it may be anything. */
INLINE void micro_pairs(int rows, int vectors, float *to, const uint16_t *left, int64_t row_stride, int64_t step, const uint32_t *panel, int64_t inner)
{
    __m512 sums[MICRO_ROWS][MICRO_VECTORS];
    micro_load(sums, rows, vectors);
    for (int64_t i = 0; i < inner / 2; i++) {
        micro_pairs_step(sums, rows, vectors, panel, left, row_stride, false);
        panel += vectors * 16;
        left += step;
    }
    if (inner & 1) micro_pairs_step(sums, rows, vectors, panel, left, row_stride, true);
    micro_store(to, sums, rows, vectors);
}

INLINE void micro_floats(int rows, int vectors, float *to, const float *left, int64_t row_stride, int64_t step, const float *panel, int64_t inner)
{
    __m512 sums[MICRO_ROWS][MICRO_VECTORS];
    micro_load(sums, rows, vectors);
    for (int64_t i = 0; i < inner; i++) {
        __m512 w[MICRO_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) w[v] = _mm512_loadu_ps(panel + v * 16);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m512 x = _mm512_set1_ps(left[r * row_stride]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sums[r][v] = _mm512_fmadd_ps(w[v], x, sums[r][v]);
        }
        panel += vectors * 16;
        left += step;
    }
    micro_store(to, sums, rows, vectors);
}

typedef void (*pairs_function)(float *to, const uint16_t *left, int64_t row_stride, int64_t step, const uint32_t *panel, int64_t inner);
typedef void (*floats_function)(float *to, const float *left, int64_t row_stride, int64_t step, const float *panel, int64_t inner);

#define MICRO(rows, vectors)                                                                                                                                   \
    static void pairs_##rows##x##vectors(float *to, const uint16_t *left, int64_t row_stride, int64_t step, const uint32_t *panel, int64_t inner)              \
    {                                                                                                                                                          \
        micro_pairs(rows, vectors, to, left, row_stride, step, panel, inner);                                                                                  \
    }                                                                                                                                                          \
    static void floats_##rows##x##vectors(float *to, const float *left, int64_t row_stride, int64_t step, const float *panel, int64_t inner)                   \
    {                                                                                                                                                          \
        micro_floats(rows, vectors, to, left, row_stride, step, panel, inner);                                                                                 \
    }
#define MICRO_ROW(rows) MICRO(rows, 1) MICRO(rows, 2) MICRO(rows, 3) MICRO(rows, 4)
#define MICRO_NAMES(kind, rows)                                                                                                                                \
    {                                                                                                                                                          \
        kind##_##rows##x1, kind##_##rows##x2, kind##_##rows##x3, kind##_##rows##x4                                                                             \
    }
#define MICRO_TABLE(kind)                                                                                                                                      \
    {                                                                                                                                                          \
        MICRO_NAMES(kind, 1), MICRO_NAMES(kind, 2), MICRO_NAMES(kind, 3), MICRO_NAMES(kind, 4), MICRO_NAMES(kind, 5), MICRO_NAMES(kind, 6)                     \
    }

MICRO_ROW(1)
MICRO_ROW(2)
MICRO_ROW(3)
MICRO_ROW(4)
MICRO_ROW(5)
MICRO_ROW(6)

static const pairs_function pairs_table[MICRO_ROWS][MICRO_VECTORS] = MICRO_TABLE(pairs);
static const floats_function floats_table[MICRO_ROWS][MICRO_VECTORS] = MICRO_TABLE(floats);

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void multiply_pairs(float *sums, int64_t rows, gemm_left left, int64_t inner, const void *panel, int64_t width, void *lines)
{
    (void)lines;
    /* In a packed panel neighbours are two BF16 apart and steps are already pairs. */
    int64_t row_stride = left.packed ? 2 * left.row_stride : left.row_stride, step = 2 * left.step;
    for (int64_t row = 0; row < rows; row += MICRO_ROWS) {
        pairs_function f = pairs_table[smaller(MICRO_ROWS, rows - row) - 1][width / 16 - 1];
        f(sums + row * width, (const uint16_t *)left.data + row * row_stride, row_stride, step, panel, inner);
    }
}

static void multiply_floats(float *sums, int64_t rows, gemm_left left, int64_t inner, const void *panel, int64_t width, void *lines)
{
    (void)lines;
    for (int64_t row = 0; row < rows; row += MICRO_ROWS) {
        floats_function f = floats_table[smaller(MICRO_ROWS, rows - row) - 1][width / 16 - 1];
        f(sums + row * width, (const float *)left.data + row * left.row_stride, left.row_stride, left.step, panel, inner);
    }
}

/* ---- packing ---- */

/* The part of row `row` of w as `type`: where it lies if it is dense and of that type, else decoded into `line`. */
static const void *line_of(void *line, const ops_matrix *w, int64_t row, int64_t col, int64_t count, dtype type)
{
    if (!w->decode && w->type == type) return (const char *)w->data + (size_t)(row * w->stride + col) * dtype_bytes(type);
    ops_matrix_row(w, row, col, count, line, type);
    return line;
}

/* 16 x 16 elements of 4 bytes. */
static void transpose(__m512i t[16])
{
    __m512i u[16];
    for (int i = 0; i < 16; i += 2) {
        u[i] = _mm512_unpacklo_epi32(t[i], t[i + 1]);
        u[i + 1] = _mm512_unpackhi_epi32(t[i], t[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        t[i] = _mm512_unpacklo_epi64(u[i], u[i + 2]);
        t[i + 1] = _mm512_unpackhi_epi64(u[i], u[i + 2]);
        t[i + 2] = _mm512_unpacklo_epi64(u[i + 1], u[i + 3]);
        t[i + 3] = _mm512_unpackhi_epi64(u[i + 1], u[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        u[i] = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x88);
        u[i + 4] = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xdd);
        u[i + 8] = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x88);
        u[i + 12] = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(u[i], u[i + 8], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(u[i + 4], u[i + 12], 0x88);
        t[i + 8] = _mm512_shuffle_i32x4(u[i], u[i + 8], 0xdd);
        t[i + 12] = _mm512_shuffle_i32x4(u[i + 4], u[i + 12], 0xdd);
    }
}

/* Rows of w become columns of the panel. `units` of 4 bytes: floats or BF16 pairs; a line has `bytes` bytes. */
static void pack_transposed(uint32_t *panel, void *lines, const ops_matrix *w, int64_t k, int64_t inner, int64_t c, int64_t cols, int64_t width, dtype type)
{
    int64_t bytes = inner * (int64_t)dtype_bytes(type), units = (bytes + 3) / 4;
    for (int64_t group = 0; group < width; group += GEMM_GROUP) {
        const char *line[GEMM_GROUP];
        for (int64_t j = 0; j < GEMM_GROUP; j++) {
            if (group + j < cols)
                line[j] = line_of((char *)lines + (size_t)(j * GEMM_INNER) * dtype_bytes(type), w, c + group + j, k, inner, type);
            else
                line[j] = line[0]; /* group < cols always: such a column is not stored */
        }
        for (int64_t i = 0; i < units; i += 16) {
            int64_t left = bytes - 4 * i;
            __mmask64 mask = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
            __m512i t[16];
            for (int j = 0; j < 16; j++) t[j] = _mm512_maskz_loadu_epi8(mask, line[j] + 4 * i);
            transpose(t);
            for (int64_t j = 0; j < smaller(16, units - i); j++) _mm512_storeu_si512(panel + (i + j) * width + group, t[j]);
        }
    }
}

/* Pieces of rows that lie far apart are not fetched ahead by the hardware: asks for the piece `AHEAD` rows later of a dense matrix. */
static void fetch_ahead(const ops_matrix *w, int64_t row, int64_t end, int64_t col, int64_t cols)
{
    enum { AHEAD = 24 };
    if (w->decode || row + AHEAD >= end) return;
    size_t element = dtype_bytes(w->type);
    const char *at = (const char *)w->data + (size_t)((row + AHEAD) * w->stride + col) * element;
    for (size_t i = 0; i < (size_t)cols * element; i += 64) _mm_prefetch(at + i, _MM_HINT_T0);
}

/* Rows k and k + 1 of w are interleaved. */
static void pack_pairs(void *panel, void *lines, const ops_matrix *w, bool transposed, int64_t k, int64_t inner, int64_t c, int64_t cols, int64_t width)
{
    if (transposed) {
        pack_transposed(panel, lines, w, k, inner, c, cols, width, DTYPE_BF16);
        return;
    }
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    uint32_t *to = panel;
    for (int64_t i = 0; i < inner; i += 2, to += width) {
        const uint16_t *even = line_of(lines, w, k + i, c, cols, DTYPE_BF16), *odd = NULL;
        fetch_ahead(w, k + i, k + inner, c, cols);
        fetch_ahead(w, k + i + 1, k + inner, c, cols);
        if (i + 1 < inner) odd = line_of((uint16_t *)lines + GEMM_INNER, w, k + i + 1, c, cols, DTYPE_BF16);
        for (int64_t j = 0; j < width; j += 32) {
            int64_t left = cols - j;
            __mmask32 mask = left >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << left) - 1;
            __m512i a = _mm512_maskz_loadu_epi16(mask, even + j), b = odd ? _mm512_maskz_loadu_epi16(mask, odd + j) : _mm512_setzero_si512();
            _mm512_storeu_si512(to + j, _mm512_permutex2var_epi16(a, low, b));
            if (j + 16 < width) _mm512_storeu_si512(to + j + 16, _mm512_permutex2var_epi16(a, high, b));
        }
    }
}

static void pack_floats(void *panel, void *lines, const ops_matrix *w, bool transposed, int64_t k, int64_t inner, int64_t c, int64_t cols, int64_t width)
{
    if (transposed) {
        pack_transposed(panel, lines, w, k, inner, c, cols, width, DTYPE_F32);
        return;
    }
    float *to = panel;
    for (int64_t i = 0; i < inner; i++, to += width) {
        ops_matrix_row(w, k + i, c, cols, to, DTYPE_F32);
        for (int64_t j = cols; j < width; j++) to[j] = 0.0f; /* not stored, but denormals or NaN left here would cost time */
    }
}

/* ---- epilogue ---- */

static void store(tensor y, const float *sums, int64_t width, float alpha, const float *bias, float beta)
{
    const __m512 scale = _mm512_set1_ps(alpha);
    for (int64_t row = 0; row < y.rows; row++)
        for (int64_t j = 0; j < y.cols; j += 16) {
            int64_t left = y.cols - j, at = row * y.stride + j;
            __mmask16 mask = left >= 16 ? (__mmask16)~0 : (__mmask16)((1 << left) - 1);
            __m512 v = _mm512_mul_ps(scale, _mm512_loadu_ps(sums + row * width + j));
            if (bias) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, bias + j));
            if (y.type == DTYPE_F32) {
                float *to = (float *)y.data + at;
                if (beta != 0.0f) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, to));
                _mm512_mask_storeu_ps(to, mask, v);
            } else {
                uint16_t *to = (uint16_t *)y.data + at;
                if (beta != 0.0f) v = _mm512_add_ps(v, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, to)), 16)));
                _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh(v));
            }
        }
}

static const gemm_level level_f32 = {pack_floats, multiply_floats, store, 12};
static const gemm_level level_bf16 = {pack_pairs, multiply_pairs, store, 24};

static void gemm_avx512(device *d, tensor y, const ops_product *products, int count, float alpha, const float *bias, float beta)
{
    gemm_tiles_run(d, &level_f32, &level_bf16, y, products, count, alpha, bias, beta);
}

static void gemm_outer_avx512(device *d, tensor y, tensor a, tensor b, float alpha)
{
    gemm_tiles_outer(d, &level_f32, &level_bf16, y, a, b, alpha);
}

void gemm_avx512_fill(ops_table *t)
{
    t->gemm = gemm_avx512;
    t->gemm_outer = gemm_outer_avx512;
}
