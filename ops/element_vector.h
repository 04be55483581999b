/* Element-wise operations for the level of the including file. */
#ifndef OPS_ELEMENT_VECTOR_H
#define OPS_ELEMENT_VECTOR_H

#include <assert.h>

#include "ops/element_chunks.h"
#include "ops/vector.h"

#ifdef __AVX2__

#include "core/random.h"

static void cast(device *d, tensor y, tensor x)
{
    const int64_t cols = x.cols;
    assert(y.rows == x.rows && y.cols == cols);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < cols; j += VEC) vec_write(vec_row(y, i), y.type, j, cols - j, vec_read(vec_row(x, i), x.type, j, cols - j));
}

static void add(device *d, tensor y, tensor x)
{
    const int64_t cols = x.cols;
    assert(y.rows == x.rows && y.cols == cols);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++) {
        void *to = vec_row(y, i);
        for (int64_t j = 0; j < cols; j += VEC)
            vec_write(to, y.type, j, cols - j, vec_add(vec_read(to, y.type, j, cols - j), vec_read(vec_row(x, i), x.type, j, cols - j)));
    }
}

static double span_squares(tensor x, int64_t row, int64_t from, int64_t count)
{
    const void *data = vec_row(x, row);
    vec_double sum = vec_double_zero();
    for (int64_t j = 0; j < count; j += VEC) {
        vec a = vec_read(data, x.type, from + j, count - j);
        sum = vec_double_fma(sum, a, a);
    }
    return vec_double_sum(sum);
}

static double sum_squares(device *d, tensor x)
{
    return element_sum_squares(d, x, span_squares);
}

/* ---- dropout ---- */

enum { DROPOUT_BLOCKS = 16, DROPOUT_WORDS = 4 * DROPOUT_BLOCKS };

#ifdef __AVX512F__

/* The halves of x times m, lane by lane. */
static inline void dropout_wide_product(__m512i x, __m512i m, __m512i *low, __m512i *high)
{
    __m512i even = _mm512_mul_epu32(x, m), odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), m);
    *low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}

/* random_block (core/random.c) of DROPOUT_BLOCKS counters from `block` on: words 4 block .. of the stream. */
static void dropout_words(uint32_t out[DROPOUT_WORDS], random_key key, uint64_t block)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), low = _mm512_set1_epi32((int)(uint32_t)block);
    __m512i x0 = _mm512_add_epi32(low, lanes), x1 = _mm512_set1_epi32((int)(uint32_t)(block >> 32)), x2 = _mm512_setzero_si512(), x3 = x2;
    x1 = _mm512_mask_add_epi32(x1, _mm512_cmplt_epu32_mask(x0, low), x1, _mm512_set1_epi32(1)); /* carry */
    uint32_t key0 = key.word[0], key1 = key.word[1];
    for (int round = 0; round < 10; round++, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
        __m512i a_low, a_high, b_low, b_high;
        dropout_wide_product(x0, _mm512_set1_epi32((int)0xD2511F53u), &a_low, &a_high);
        dropout_wide_product(x2, _mm512_set1_epi32((int)0xCD9E8D57u), &b_low, &b_high);
        x0 = _mm512_xor_si512(_mm512_xor_si512(b_high, x1), _mm512_set1_epi32((int)key0));
        x2 = _mm512_xor_si512(_mm512_xor_si512(a_high, x3), _mm512_set1_epi32((int)key1));
        x1 = b_low;
        x3 = a_low;
    }
    /* Lane b of x0 .. x3 holds words 4b .. 4b + 3: transposed 4 x 4 within 128-bit lanes, then the lanes are stored in their order. */
    __m512i p = _mm512_unpacklo_epi32(x0, x1), q = _mm512_unpackhi_epi32(x0, x1), r = _mm512_unpacklo_epi32(x2, x3), s = _mm512_unpackhi_epi32(x2, x3);
    const __m512i block_of[4] = {_mm512_unpacklo_epi64(p, r), _mm512_unpackhi_epi64(p, r), _mm512_unpacklo_epi64(q, s), _mm512_unpackhi_epi64(q, s)};
    for (int i = 0; i < 4; i++) {
        _mm_storeu_si128((__m128i *)(void *)(out + 4 * i), _mm512_extracti32x4_epi32(block_of[i], 0));
        _mm_storeu_si128((__m128i *)(void *)(out + 16 + 4 * i), _mm512_extracti32x4_epi32(block_of[i], 1));
        _mm_storeu_si128((__m128i *)(void *)(out + 32 + 4 * i), _mm512_extracti32x4_epi32(block_of[i], 2));
        _mm_storeu_si128((__m128i *)(void *)(out + 48 + 4 * i), _mm512_extracti32x4_epi32(block_of[i], 3));
    }
}

/* x where the word gives a number of at least p, else 0. */
static inline vec dropout_kept(vec x, const uint32_t *word, vec p)
{
    vec uniform = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srli_epi32(_mm512_loadu_si512(word), 8)), _mm512_set1_ps(0x1p-24f));
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(uniform, p, _CMP_GE_OQ), x);
}

#else

static void dropout_words(uint32_t out[DROPOUT_WORDS], random_key key, uint64_t block)
{
    for (int b = 0; b < DROPOUT_BLOCKS; b++) random_block(out + 4 * b, key, block + (uint64_t)b, 0);
}

static inline vec dropout_kept(vec x, const uint32_t *word, vec p)
{
    __m256i bits = _mm256_srli_epi32(_mm256_loadu_si256((const __m256i *)(const void *)word), 8);
    vec uniform = _mm256_mul_ps(_mm256_cvtepi32_ps(bits), _mm256_set1_ps(0x1p-24f));
    return _mm256_and_ps(x, _mm256_cmp_ps(uniform, p, _CMP_GE_OQ));
}

#endif

static void dropout(device *d, tensor y, tensor x, float p, random_key key, bool accumulate)
{
    const int64_t cols = x.cols;
    const vec least = vec_set(p), scale = vec_set(element_dropout_scale(p));
    assert(y.rows == x.rows && y.cols == cols && p >= 0 && p < 1);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < x.rows; i++) {
        uint32_t word[DROPOUT_WORDS + VEC] = {0}; /* a partial vector reads behind the words it uses */
        const void *from = vec_row(x, i);
        void *to = vec_row(y, i);
        int64_t count;
        for (int64_t at = 0; at < cols; at += count) {
            const uint64_t index = (uint64_t)(i * cols + at);
            const int64_t skip = (int64_t)(index % 4);
            dropout_words(word, key, index / 4);
            count = cols - at < DROPOUT_WORDS - skip ? cols - at : DROPOUT_WORDS - skip;
            for (int64_t j = 0; j < count; j += VEC) {
                vec kept = dropout_kept(vec_mul(vec_read(from, x.type, at + j, count - j), scale), word + skip + j, least);
                if (accumulate) kept = vec_add(vec_read(to, y.type, at + j, count - j), kept);
                vec_write(to, y.type, at + j, count - j, kept);
            }
        }
    }
}

#endif
#endif
