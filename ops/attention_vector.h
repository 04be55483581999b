/* The kits of attention_tiles.h for the level of the including file: F32 everywhere, BF16 pairs where the level has their dot product. */
#ifndef OPS_ATTENTION_VECTOR_H
#define OPS_ATTENTION_VECTOR_H

#include "ops/attention_tiles.h"
#include "ops/vector.h"

#ifdef __AVX2__

#define ATTENTION_INLINE static inline __attribute__((always_inline))

/* ---- packing ---- */

static inline int attention_padded(int n)
{
    return (n + ATTENTION_PAD - 1) / ATTENTION_PAD * ATTENTION_PAD;
}

static void attention_pack_f32(uint32_t *out, int stride, tensor x, int64_t row, int rows, int64_t col, int cols)
{
    for (int r = 0; r < rows; r++, out += stride)
        for (int e = 0; e < stride; e += VEC) vec_store(out + e, e < cols ? vec_read(vec_row(x, row + r), x.type, col + e, cols - e) : vec_set(0.0f));
    memset(out, 0, (size_t)(attention_padded(rows) - rows) * (size_t)stride * sizeof *out);
}

#ifdef __AVX512F__

/* 16 x 16 words: columns become rows. */
static inline void attention_transpose_block(uint32_t *out, int out_stride, const uint32_t *in, int in_stride)
{
    __m512i a[16], b[16];
#pragma GCC unroll 16
    for (int r = 0; r < 16; r++) a[r] = _mm512_loadu_si512(in + r * in_stride);
#pragma GCC unroll 8
    for (int r = 0; r < 16; r += 2) {
        b[r] = _mm512_unpacklo_epi32(a[r], a[r + 1]);
        b[r + 1] = _mm512_unpackhi_epi32(a[r], a[r + 1]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < 16; r += 4)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) { /* a[r + i]: column i of each 128-bit lane, rows r .. r + 3 */
            a[r + 2 * h] = _mm512_unpacklo_epi64(b[r + h], b[r + 2 + h]);
            a[r + 2 * h + 1] = _mm512_unpackhi_epi64(b[r + h], b[r + 2 + h]);
        }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i x = _mm512_shuffle_i32x4(a[i], a[i + 4], 0x88), y = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0x88);
        __m512i z = _mm512_shuffle_i32x4(a[i], a[i + 4], 0xdd), w = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0xdd);
        _mm512_storeu_si512(out + i * out_stride, _mm512_shuffle_i32x4(x, y, 0x88));
        _mm512_storeu_si512(out + (i + 4) * out_stride, _mm512_shuffle_i32x4(z, w, 0x88));
        _mm512_storeu_si512(out + (i + 8) * out_stride, _mm512_shuffle_i32x4(x, y, 0xdd));
        _mm512_storeu_si512(out + (i + 12) * out_stride, _mm512_shuffle_i32x4(z, w, 0xdd));
    }
}

#else

/* 8 x 8 words. */
static inline void attention_transpose_block(uint32_t *out, int out_stride, const uint32_t *in, int in_stride)
{
    __m256 a[8], b[8];
    for (int r = 0; r < 8; r++) a[r] = _mm256_loadu_ps((const float *)(const void *)(in + r * in_stride));
    for (int r = 0; r < 8; r += 2) {
        b[r] = _mm256_unpacklo_ps(a[r], a[r + 1]);
        b[r + 1] = _mm256_unpackhi_ps(a[r], a[r + 1]);
    }
    for (int r = 0; r < 8; r += 4) {
        a[r] = _mm256_shuffle_ps(b[r], b[r + 2], 0x44);
        a[r + 1] = _mm256_shuffle_ps(b[r], b[r + 2], 0xee);
        a[r + 2] = _mm256_shuffle_ps(b[r + 1], b[r + 3], 0x44);
        a[r + 3] = _mm256_shuffle_ps(b[r + 1], b[r + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps((float *)(void *)(out + i * out_stride), _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps((float *)(void *)(out + (i + 4) * out_stride), _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}

#endif

static void attention_transpose(uint32_t *out, const uint32_t *packed, int stride, int rows)
{
    for (int r = 0; r < attention_padded(rows); r += VEC)
        for (int e = 0; e < stride; e += VEC) attention_transpose_block(out + e * ATTENTION_TILE + r, ATTENTION_TILE, packed + r * stride + e, stride);
}

/* ---- products ---- */

enum { ATTENTION_BLOCK_ROWS = 6, ATTENTION_BLOCK_VECTORS = VEC == 16 ? 4 : 2 };

/* sum + a b of a word. */
ATTENTION_INLINE vec attention_word_product(vec sum, uint32_t a, vec b, const bool pairs)
{
#ifdef __AVX512BF16__
    if (pairs) return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
#endif
    (void)pairs;
    float value;
    memcpy(&value, &a, sizeof value);
    return vec_fma(vec_set(value), b, sum);
}

typedef struct attention_block {
    float *c;
    const uint32_t *a, *b;
    int c_stride, a_stride, b_stride, depth;
    bool add;
} attention_block;

/* A block of C that stays in registers; rows and vectors are constants where this is inlined. */
ATTENTION_INLINE void attention_multiply_block(const attention_block *x, const int rows, const int vectors, const bool pairs)
{
    vec sum[ATTENTION_BLOCK_ROWS][ATTENTION_BLOCK_VECTORS], b[ATTENTION_BLOCK_VECTORS];
    const uint32_t *a_at = x->a, *b_at = x->b;
    const int a_stride = x->a_stride, b_stride = x->b_stride;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) sum[r][j] = x->add ? vec_load(x->c + r * x->c_stride + j * VEC) : vec_set(0.0f);
    for (int p = 0; p < x->depth; p++, a_at++, b_at += b_stride) {
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) b[j] = vec_load(b_at + j * VEC);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++) sum[r][j] = attention_word_product(sum[r][j], a_at[r * a_stride], b[j], pairs);
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) vec_store(x->c + r * x->c_stride + j * VEC, sum[r][j]);
}

typedef void (*attention_block_function)(const attention_block *x);

#define ATTENTION_BLOCK(kind, pairs, rows, vectors)                                                                                                            \
    static void attention_block_##kind##_##rows##_##vectors(const attention_block *x)                                                                          \
    {                                                                                                                                                          \
        attention_multiply_block(x, rows, vectors, pairs);                                                                                                     \
    }
#define ATTENTION_BLOCKS_OF(kind, pairs, vectors)                                                                                                              \
    ATTENTION_BLOCK(kind, pairs, 1, vectors)                                                                                                                   \
    ATTENTION_BLOCK(kind, pairs, 2, vectors)                                                                                                                   \
    ATTENTION_BLOCK(kind, pairs, 3, vectors)                                                                                                                   \
    ATTENTION_BLOCK(kind, pairs, 4, vectors)                                                                                                                   \
    ATTENTION_BLOCK(kind, pairs, 5, vectors)                                                                                                                   \
    ATTENTION_BLOCK(kind, pairs, 6, vectors)
#define ATTENTION_ROW_OF(kind, vectors)                                                                                                                        \
    {                                                                                                                                                          \
        attention_block_##kind##_1_##vectors, attention_block_##kind##_2_##vectors, attention_block_##kind##_3_##vectors,                                      \
            attention_block_##kind##_4_##vectors, attention_block_##kind##_5_##vectors, attention_block_##kind##_6_##vectors                                   \
    }

/* [vectors - 1][rows - 1] */
typedef const attention_block_function (*attention_blocks)[ATTENTION_BLOCK_ROWS];

/* `rows` rows of C, `width` columns. */
ATTENTION_INLINE void attention_multiply_rows(attention_blocks blocks, attention_block x, int rows, int width)
{
    for (; width > 0; width -= ATTENTION_BLOCK_VECTORS * VEC, x.b += ATTENTION_BLOCK_VECTORS * VEC, x.c += ATTENTION_BLOCK_VECTORS * VEC) {
        const int vectors = width >= ATTENTION_BLOCK_VECTORS * VEC ? ATTENTION_BLOCK_VECTORS : width / VEC;
        blocks[vectors - 1][rows - 1](&x);
    }
}

/* The columns that any of the rows reaches. */
static inline void attention_reached(const int *from, const int *to, int rows, int *low, int *high)
{
    *low = ATTENTION_TILE;
    *high = 0;
    for (int r = 0; r < rows; r++) {
        if (from[r] >= to[r]) continue;
        if (from[r] < *low) *low = from[r];
        if (to[r] > *high) *high = to[r];
    }
    if (*low > *high) *low = *high;
}

ATTENTION_INLINE void attention_multiply_scores(attention_blocks blocks, float *c, const uint32_t *a, int a_stride, const uint32_t *b, int rows, int depth,
                                                const int *from, const int *to)
{
    for (int r = 0; r < rows; r += ATTENTION_BLOCK_ROWS) {
        const int count = rows - r < ATTENTION_BLOCK_ROWS ? rows - r : ATTENTION_BLOCK_ROWS;
        int low, high;
        attention_reached(from + r, to + r, count, &low, &high);
        low = low / VEC * VEC;
        high = (high + VEC - 1) / VEC * VEC;
        const attention_block x = {c + r * ATTENTION_TILE + low, a + r * a_stride, b + low, ATTENTION_TILE, a_stride, ATTENTION_TILE, depth, false};
        attention_multiply_rows(blocks, x, count, high - low);
    }
}

/* per: columns of weights in a word. */
ATTENTION_INLINE void attention_multiply_weights(attention_blocks blocks, float *c, int width, const uint32_t *a, const uint32_t *b, int b_stride, int rows,
                                                 const int *from, const int *to, bool add, const int per)
{
    for (int r = 0; r < rows; r += ATTENTION_BLOCK_ROWS) {
        const int count = rows - r < ATTENTION_BLOCK_ROWS ? rows - r : ATTENTION_BLOCK_ROWS;
        int low, high;
        attention_reached(from + r, to + r, count, &low, &high);
        low /= per;
        high = (high + per - 1) / per;
        const attention_block x = {c + r * width, a + r * ATTENTION_TILE + low, b + low * b_stride, width, ATTENTION_TILE, b_stride, high - low, add};
        attention_multiply_rows(blocks, x, count, width);
    }
}

/* ---- softmax and its gradient ---- */

/* Column of weights, as operand A; `at` is the column. */
ATTENTION_INLINE void attention_put_weights(uint32_t *row, int at, vec x, const bool pairs)
{
#ifdef __AVX512BF16__
    if (pairs) {
        _mm256_storeu_si256((__m256i *)(void *)((uint16_t *)row + at), (__m256i)_mm512_cvtneps_pbh(x));
        return;
    }
#endif
    (void)pairs;
    vec_store(row + at, x);
}

/* VEC scores from column `at`, -Inf where the row does not reach. */
ATTENTION_INLINE vec attention_scores(const float *s, int at, vec scale, int from, int to)
{
    vec x = vec_mul(vec_load(s + at), scale);
    return from <= at && to >= at + VEC ? x : vec_between(x, vec_set(-INFINITY), from - at, to - at);
}

static inline float attention_row_largest(const float *s, int width, float scale, int from, int to, float largest)
{
    vec most = vec_set(largest);
    for (int j = 0; j < width; j += VEC) most = vec_max(most, attention_scores(s, j, vec_set(scale), from, to));
    return vec_largest(most);
}

/* In three sweeps over the rows, without calls, so that the rows' reductions overlap. */
ATTENTION_INLINE void attention_softmax(uint32_t *p, float *largest, float *sum, float *factor, const float *s, const int *from, const int *to, int rows,
                                        int width, float scale, const bool pairs)
{
    float most[ATTENTION_TILE] = {0}, total[ATTENTION_TILE] = {0};
    for (int r = 0; r < rows; r++)
        most[r] = from[r] < to[r] ? attention_row_largest(s + r * ATTENTION_TILE, width, scale, from[r], to[r], largest[r]) : largest[r];
    for (int r = 0; r < rows; r++) {
        const vec shift = vec_set(most[r]);
        vec all = vec_set(0.0f);
        for (int j = 0; j < width; j += VEC) {
            vec e = from[r] < to[r] ? vec_exp(vec_sub(attention_scores(s + r * ATTENTION_TILE, j, vec_set(scale), from[r], to[r]), shift)) : vec_set(0.0f);
            all = vec_add(all, e);
            attention_put_weights(p + r * ATTENTION_TILE, j, e, pairs);
        }
        total[r] = vec_sum(all);
    }
    for (int r = 0; r < ATTENTION_TILE; r += VEC) {
        vec f = vec_exp(vec_sub(vec_load(largest + r), vec_load(most + r)));
        vec_store(factor + r, f);
        vec_store(sum + r, vec_fma(vec_load(sum + r), f, vec_load(total + r)));
        vec_store(largest + r, vec_load(most + r));
    }
    /* A row that has seen no key yet: -Inf less -Inf is NaN. */
    for (int r = 0; r < rows; r++)
        if (from[r] >= to[r] && factor[r] != 1.0f) {
            factor[r] = 1.0f;
            sum[r] = 0.0f;
        }
}

static void attention_shrink(float *x, int stride, const float *factor, int rows, int width)
{
    for (int r = 0; r < rows; r++, x += stride) {
        if (factor[r] == 1.0f) continue;
        const vec f = vec_set(factor[r]);
        for (int j = 0; j < width; j += VEC) vec_store(x + j, vec_mul(f, vec_load(x + j)));
    }
}

static void attention_dots(float *delta, tensor a, tensor b, int64_t row, int rows, int64_t col, int cols)
{
    for (int r = 0; r < rows; r++) {
        const void *a_row = vec_row(a, row + r), *b_row = vec_row(b, row + r);
        vec sum = vec_set(0.0f);
        for (int e = 0; e < cols; e += VEC) sum = vec_fma(vec_read(a_row, a.type, col + e, cols - e), vec_read(b_row, b.type, col + e, cols - e), sum);
        delta[r] = vec_sum(sum);
    }
}

/* The weights of VEC columns and their gradient. */
ATTENTION_INLINE void attention_gradient(vec *p, vec *ds, const float *s, const float *dp, int at, vec lse, vec delta, vec scale, int from, int to)
{
    *p = vec_exp(vec_sub(vec_mul(vec_load(s + at), scale), lse));
    *ds = vec_mul(*p, vec_sub(vec_load(dp + at), delta));
    if (from <= at && to >= at + VEC) return;
    *p = vec_between(*p, vec_set(0.0f), from - at, to - at);
    *ds = vec_between(*ds, vec_set(0.0f), from - at, to - at);
}

ATTENTION_INLINE void attention_gradient_rows(uint32_t *ds, const float *s, const float *dp, const float *lse, const float *delta, const int *from,
                                              const int *to, int rows, int width, float scale, const bool pairs)
{
    for (int r = 0; r < rows; r++, s += ATTENTION_TILE, dp += ATTENTION_TILE, ds += ATTENTION_TILE)
        for (int j = 0; j < width; j += VEC) {
            vec weight, change;
            attention_gradient(&weight, &change, s, dp, j, vec_set(lse[r]), vec_set(delta[r]), vec_set(scale), from[r], to[r]);
            attention_put_weights(ds, j, change, pairs);
        }
}

ATTENTION_INLINE void attention_gradient_columns(uint32_t *p, uint32_t *ds, const float *s, const float *dp, const float *lse, const float *delta,
                                                 const int *from, const int *to, int rows, int width, float scale, const bool pairs)
{
    for (int r = 0; r < rows; r++, s += ATTENTION_TILE, dp += ATTENTION_TILE, p += ATTENTION_TILE, ds += ATTENTION_TILE)
        for (int j = 0; j < width; j += VEC) {
            vec weight, change;
            attention_gradient(&weight, &change, s, dp, j, vec_load(lse + j), vec_load(delta + j), vec_set(scale), from[r], to[r]);
            attention_put_weights(p, j, weight, pairs);
            attention_put_weights(ds, j, change, pairs);
        }
}

static void attention_unpack(tensor y, int64_t row, int rows, int64_t col, int cols, const float *x, int stride, const float *factor, float scale)
{
    for (int r = 0; r < rows; r++, x += stride) {
        const vec f = vec_set(factor ? factor[r] * scale : scale);
        for (int e = 0; e < cols; e += VEC) vec_write(vec_row(y, row + r), y.type, col + e, cols - e, vec_mul(f, vec_load(x + e)));
    }
}

/* ---- a kit: the functions above with `pairs` fixed, and a table of blocks ---- */

#define ATTENTION_KIT(kind, with_pairs)                                                                                                                        \
    static void attention_multiply_scores_##kind(float *c, const uint32_t *a, int a_stride, const uint32_t *b, int rows, int depth, const int *from,           \
                                                 const int *to)                                                                                                \
    {                                                                                                                                                          \
        attention_multiply_scores(attention_blocks_##kind, c, a, a_stride, b, rows, depth, from, to);                                                          \
    }                                                                                                                                                          \
    static void attention_multiply_weights_##kind(float *c, int width, const uint32_t *a, const uint32_t *b, int b_stride, int rows, const int *from,          \
                                                  const int *to, bool add)                                                                                     \
    {                                                                                                                                                          \
        attention_multiply_weights(attention_blocks_##kind, c, width, a, b, b_stride, rows, from, to, add, (with_pairs) ? 2 : 1);                              \
    }                                                                                                                                                          \
    static void attention_softmax_##kind(uint32_t *p, float *largest, float *sum, float *factor, const float *s, const int *from, const int *to, int rows,     \
                                         int width, float scale)                                                                                               \
    {                                                                                                                                                          \
        attention_softmax(p, largest, sum, factor, s, from, to, rows, width, scale, with_pairs);                                                               \
    }                                                                                                                                                          \
    static void attention_gradient_rows_##kind(uint32_t *ds, const float *s, const float *dp, const float *lse, const float *delta, const int *from,           \
                                               const int *to, int rows, int width, float scale)                                                                \
    {                                                                                                                                                          \
        attention_gradient_rows(ds, s, dp, lse, delta, from, to, rows, width, scale, with_pairs);                                                              \
    }                                                                                                                                                          \
    static void attention_gradient_columns_##kind(uint32_t *p, uint32_t *ds, const float *s, const float *dp, const float *lse, const float *delta,            \
                                                  const int *from, const int *to, int rows, int width, float scale)                                            \
    {                                                                                                                                                          \
        attention_gradient_columns(p, ds, s, dp, lse, delta, from, to, rows, width, scale, with_pairs);                                                        \
    }

#endif
#endif
