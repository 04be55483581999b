/* NF4 with 512-bit vectors. A block's 16 values are made once (level times scale, rounded if BF16 is asked for) and looked up by permutes, which
 * ignore the index bits above those they need. */
#include <immintrin.h>

#include "nf4/levels.h"

/* f32_to_bf16 of core/dtype.h, exactly: vcvtneps2bf16 would flush subnormal values. */
static __m256i round_to_bf16(__m512 value)
{
    __m512i bits = _mm512_castps_si512(value);
    __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, nan, quiet));
}

static __m512 block_values(float scale)
{
    return _mm512_mul_ps(_mm512_loadu_ps(nf4_levels), _mm512_set1_ps(scale));
}

static __m256i load_codes(const uint8_t *codes, int64_t bytes)
{
    return _mm256_maskz_loadu_epi8(bytes >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << bytes) - 1, codes);
}

static void decode_block_bf16(void *out, const uint8_t *codes, int64_t bytes, float scale)
{
    __m512i values = _mm512_broadcast_i64x4(round_to_bf16(block_values(scale))); /* twice, as bit 4 of an index is a bit of the other code */
    __m256i packed = load_codes(codes, bytes);
    for (int half = 0; half < 2; half++) {
        __m512i byte = _mm512_cvtepu8_epi32(half ? _mm256_extracti128_si256(packed, 1) : _mm256_castsi256_si128(packed));
        __m512i index = _mm512_or_si512(_mm512_srli_epi32(byte, 4), _mm512_slli_epi32(byte, 16));
        _mm512_storeu_si512((uint16_t *)out + half * 32, _mm512_permutexvar_epi16(index, values));
    }
}

static void decode_block_f32(void *out, const uint8_t *codes, int64_t bytes, float scale)
{
    __m512 values = block_values(scale);
    uint8_t packed[NF4_BLOCK_BYTES];
    _mm256_storeu_si256((__m256i *)(void *)packed, load_codes(codes, bytes));
    for (int quarter = 0; quarter < 4; quarter++) {
        __m512i byte = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)(packed + quarter * 8)));
        __m512i index = _mm512_or_si512(_mm512_srli_epi64(byte, 4), _mm512_slli_epi64(byte, 32));
        _mm512_storeu_ps((float *)out + quarter * 16, _mm512_permutexvar_ps(index, values));
    }
}

static void decode(const void *matrix, int64_t first, int64_t count, void *out, dtype type)
{
    if (type == DTYPE_F32)
        nf4_decode_blocks(matrix, first, count, out, sizeof(float), decode_block_f32);
    else
        nf4_decode_blocks(matrix, first, count, out, sizeof(uint16_t), decode_block_bf16);
}

/* The number of midpoints below v, by binary search: exact, as they increase. */
static __m128i codes_of(__m512 v, __m512 midpoints)
{
    __m512i code = _mm512_setzero_si512();
    for (int step = 8; step > 0; step /= 2) {
        __m512 midpoint = _mm512_permutexvar_ps(_mm512_add_epi32(code, _mm512_set1_epi32(step - 1)), midpoints);
        __mmask16 above = _mm512_cmp_ps_mask(v, midpoint, _CMP_GT_OQ);
        code = _mm512_mask_add_epi32(code, above, code, _mm512_set1_epi32(step));
    }
    return _mm512_cvtepi32_epi8(code);
}

static int64_t quantize_full_block(uint8_t *codes, float *absmax, const float *values)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512 x[4];
    __m512i largest = _mm512_setzero_si512(); /* magnitudes order as their bits do */
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_loadu_ps(values + i * 16);
        largest = _mm512_max_epu32(largest, _mm512_and_si512(_mm512_castps_si512(x[i]), magnitude));
    }
    uint32_t bits = _mm512_reduce_max_epu32(largest);
    float size;
    memcpy(&size, &bits, sizeof size);
    if (bits >= 0x7f800000u || size <= NF4_TINY) return nf4_quantize_block(codes, absmax, values, NF4_BLOCK);
    *absmax = size;
    const __m512 reciprocal = _mm512_set1_ps(1.0f / size), midpoints = _mm512_maskz_loadu_ps(0x7fff, nf4_midpoints);
    for (int i = 0; i < 4; i += 2) {
        __m128i low = codes_of(_mm512_mul_ps(x[i], reciprocal), midpoints), high = codes_of(_mm512_mul_ps(x[i + 1], reciprocal), midpoints);
        __m256i pairs = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
        __m256i joined = _mm256_or_si256(_mm256_slli_epi16(pairs, 4), _mm256_srli_epi16(pairs, 8));
        _mm_storeu_si128((__m128i *)(void *)(codes + i * 8), _mm256_cvtepi16_epi8(joined));
    }
    return -1;
}

static int64_t quantize_blocks(uint8_t *codes, float *absmax, const float *values, int64_t first, int64_t count)
{
    for (int64_t i = 0; i < count; i += NF4_BLOCK) {
        int64_t at = first + i;
        uint8_t *to = codes + at / 2;
        float *scale = absmax + at / NF4_BLOCK;
        int64_t bad = count - i >= NF4_BLOCK ? quantize_full_block(to, scale, values + i) : nf4_quantize_block(to, scale, values + i, count - i);
        if (bad >= 0) return at + bad;
    }
    return -1;
}

const nf4_table nf4_avx512 = {"avx512", quantize_blocks, decode};
