/* Matrix products with 256-bit vectors: micro-kernels of 6 rows x 2 vectors on F32 panels [inner][width]. BF16 is widened: w as it is packed, x six
 * rows at a time; products of BF16 are exact in F32, so that the sums mean the same as those of a BF16 dot product. */
#include <immintrin.h>

#include "ops/gemm_tiles.h"
#include "ops/levels.h"

enum { MICRO_ROWS = 6, MICRO_COLS = 16 };
_Static_assert((int)MICRO_ROWS <= (int)GEMM_GROUP, "the widened rows of x fit in the room for lines");

#define INLINE static inline __attribute__((always_inline))

/* ---- micro-kernels: the loops over r are unrolled, so that the sums stay in registers ---- */

INLINE void micro(int rows, float *to, const float *left, int64_t row_stride, int64_t step, const float *panel, int64_t inner, int64_t width)
{
    __m256 low[MICRO_ROWS], high[MICRO_ROWS];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) low[r] = high[r] = _mm256_setzero_ps();
    for (int64_t i = 0; i < inner; i++) {
        __m256 a = _mm256_loadu_ps(panel), b = _mm256_loadu_ps(panel + 8);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m256 x = _mm256_broadcast_ss(left + r * row_stride);
            low[r] = _mm256_fmadd_ps(a, x, low[r]);
            high[r] = _mm256_fmadd_ps(b, x, high[r]);
        }
        panel += width;
        left += step;
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        float *at = to + r * width;
        _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), low[r]));
        _mm256_storeu_ps(at + 8, _mm256_add_ps(_mm256_loadu_ps(at + 8), high[r]));
    }
}

typedef void (*micro_function)(float *to, const float *left, int64_t row_stride, int64_t step, const float *panel, int64_t inner, int64_t width);

#define MICRO(rows)                                                                                                                                            \
    static void micro_##rows(float *to, const float *left, int64_t row_stride, int64_t step, const float *panel, int64_t inner, int64_t width)                 \
    {                                                                                                                                                          \
        micro(rows, to, left, row_stride, step, panel, inner, width);                                                                                          \
    }
MICRO(1)
MICRO(2)
MICRO(3)
MICRO(4)
MICRO(5)
MICRO(6)

static const micro_function micro_table[MICRO_ROWS] = {micro_1, micro_2, micro_3, micro_4, micro_5, micro_6};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void multiply_floats(float *sums, int64_t rows, gemm_left left, int64_t inner, const void *panel, int64_t width, void *lines)
{
    (void)lines;
    for (int64_t row = 0; row < rows; row += MICRO_ROWS) {
        micro_function f = micro_table[smaller(MICRO_ROWS, rows - row) - 1];
        const float *x = (const float *)left.data + row * left.row_stride;
        for (int64_t c = 0; c < width; c += MICRO_COLS) f(sums + row * width + c, x, left.row_stride, left.step, (const float *)panel + c, inner, width);
    }
}

static void widen(float *to, const uint16_t *from, int64_t count)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(from + i)));
        _mm256_storeu_ps(to + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
    }
    for (; i < count; i++) to[i] = bf16_to_f32(from[i]);
}

static void multiply_bf16(float *sums, int64_t rows, gemm_left left, int64_t inner, const void *panel, int64_t width, void *lines)
{
    if (left.packed) {
        multiply_floats(sums, rows, left, inner, panel, width, lines);
        return;
    }
    float *wide = lines;
    for (int64_t row = 0; row < rows; row += MICRO_ROWS) {
        int64_t count = smaller(MICRO_ROWS, rows - row);
        for (int64_t r = 0; r < count; r++) widen(wide + r * GEMM_INNER, (const uint16_t *)left.data + (row + r) * left.row_stride, inner);
        multiply_floats(sums + row * width, count, (gemm_left){wide, GEMM_INNER, 1, false}, inner, panel, width, NULL);
    }
}

/* ---- packing ---- */

/* The part of row `row` of w as floats, of BF16 values if `type` says so; `room` holds as many floats and as many BF16 after them. */
static void read_line(float *line, uint16_t *room, const ops_matrix *w, int64_t row, int64_t col, int64_t count, dtype type)
{
    if (type == DTYPE_F32) {
        ops_matrix_row(w, row, col, count, line, DTYPE_F32);
        return;
    }
    const uint16_t *from = room;
    if (!w->decode && w->type == DTYPE_BF16)
        from = (const uint16_t *)w->data + row * w->stride + col;
    else
        ops_matrix_row(w, row, col, count, room, DTYPE_BF16);
    widen(line, from, count);
}

/* 8 x 8 floats, from rows of stride GEMM_INNER to rows of stride `width`. */
static void transpose(float *to, const float *from, int64_t width)
{
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(from + i * GEMM_INNER);
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            a[i + 2 * j] = _mm256_shuffle_ps(b[i + j], b[i + j + 2], 0x44);
            a[i + 2 * j + 1] = _mm256_shuffle_ps(b[i + j], b[i + j + 2], 0xee);
        }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * width, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * width, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}

/* Rows of w become columns of the panel, eight at a time: lines holds their floats and room for one line of BF16. */
static void pack_transposed(float *panel, float *lines, const ops_matrix *w, int64_t k, int64_t inner, int64_t c, int64_t cols, int64_t width, dtype type)
{
    uint16_t *room = (uint16_t *)(void *)(lines + 8 * GEMM_INNER);
    for (int64_t group = 0; group < width; group += 8) {
        for (int64_t j = 0; j < 8; j++) {
            if (group + j < cols)
                read_line(lines + j * GEMM_INNER, room, w, c + group + j, k, inner, type);
            else
                memset(lines + j * GEMM_INNER, 0, (size_t)inner * sizeof(float));
        }
        int64_t i = 0;
        for (; i + 8 <= inner; i += 8) transpose(panel + i * width + group, lines + i, width);
        for (; i < inner; i++)
            for (int64_t j = 0; j < 8; j++) panel[i * width + group + j] = lines[j * GEMM_INNER + i];
    }
}

static void pack(void *panel, void *lines, const ops_matrix *w, bool transposed, int64_t k, int64_t inner, int64_t c, int64_t cols, int64_t width, dtype type)
{
    if (transposed) {
        pack_transposed(panel, lines, w, k, inner, c, cols, width, type);
        return;
    }
    float *to = panel;
    for (int64_t i = 0; i < inner; i++, to += width) {
        read_line(to, lines, w, k + i, c, cols, type);
        for (int64_t j = cols; j < width; j++) to[j] = 0.0f; /* not stored, but denormals or NaN left here would cost time */
    }
}

static void pack_f32(void *panel, void *lines, const ops_matrix *w, bool transposed, int64_t k, int64_t inner, int64_t c, int64_t cols, int64_t width)
{
    pack(panel, lines, w, transposed, k, inner, c, cols, width, DTYPE_F32);
}

static void pack_bf16(void *panel, void *lines, const ops_matrix *w, bool transposed, int64_t k, int64_t inner, int64_t c, int64_t cols, int64_t width)
{
    pack(panel, lines, w, transposed, k, inner, c, cols, width, DTYPE_BF16);
}

/* ---- epilogue: plain C, which the compiler makes vectors of ---- */

static void store(tensor y, const float *sums, int64_t width, float alpha, const float *bias, float beta)
{
    for (int64_t row = 0; row < y.rows; row++) {
        const float *sum = sums + row * width;
        float line[GEMM_COLS];
        for (int64_t j = 0; j < y.cols; j++) line[j] = alpha * sum[j];
        if (bias)
            for (int64_t j = 0; j < y.cols; j++) line[j] += bias[j];
        if (y.type == DTYPE_F32) {
            float *to = (float *)y.data + row * y.stride;
            for (int64_t j = 0; j < y.cols; j++) to[j] = beta != 0.0f ? line[j] + to[j] : line[j];
        } else {
            uint16_t *to = (uint16_t *)y.data + row * y.stride;
            for (int64_t j = 0; j < y.cols; j++) to[j] = f32_to_bf16(beta != 0.0f ? line[j] + bf16_to_f32(to[j]) : line[j]);
        }
    }
}

static const gemm_level level_f32 = {pack_f32, multiply_floats, store, 12};
static const gemm_level level_bf16 = {pack_bf16, multiply_bf16, store, 16};

static void gemm_avx2(device *d, tensor y, const ops_product *products, int count, float alpha, const float *bias, float beta)
{
    gemm_tiles_run(d, &level_f32, &level_bf16, y, products, count, alpha, bias, beta);
}

static void gemm_outer_avx2(device *d, tensor y, tensor a, tensor b, float alpha)
{
    gemm_tiles_outer(d, &level_f32, &level_bf16, y, a, b, alpha);
}

void gemm_avx2_fill(ops_table *t)
{
    t->gemm = gemm_avx2;
    t->gemm_outer = gemm_outer_avx2;
}
