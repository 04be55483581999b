/* NF4 with 256-bit vectors. */
#include <immintrin.h>

#include "nf4/levels.h"

/* The 64 codes of a block as bytes, in order. */
static void unpack_codes(__m256i codes[2], const uint8_t *packed, int64_t bytes)
{
    uint8_t padded[NF4_BLOCK_BYTES] = {0};
    if (bytes < NF4_BLOCK_BYTES) packed = memcpy(padded, packed, (size_t)bytes);
    const __m128i low = _mm_set1_epi8(15);
    for (int i = 0; i < 2; i++) {
        __m128i byte = _mm_loadu_si128((const __m128i *)(const void *)(packed + i * 16));
        __m128i first = _mm_and_si128(_mm_srli_epi16(byte, 4), low), second = _mm_and_si128(byte, low);
        codes[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi8(first, second)), _mm_unpackhi_epi8(first, second), 1);
    }
}

static void decode_block_bf16(void *out, const uint8_t *packed, int64_t bytes, float scale)
{
    /* The 16 values rounded once, split into tables of low and high bytes for the byte shuffle. */
    uint8_t low[16], high[16];
    for (int i = 0; i < 16; i++) {
        uint16_t value = f32_to_bf16(nf4_levels[i] * scale);
        low[i] = (uint8_t)value;
        high[i] = (uint8_t)(value >> 8);
    }
    __m256i low_table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)low));
    __m256i high_table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)high));
    __m256i codes[2];
    unpack_codes(codes, packed, bytes);
    for (int i = 0; i < 2; i++) {
        __m256i a = _mm256_shuffle_epi8(low_table, codes[i]), b = _mm256_shuffle_epi8(high_table, codes[i]);
        __m256i first = _mm256_unpacklo_epi8(a, b), second = _mm256_unpackhi_epi8(a, b); /* by lanes of 128 bits */
        __m256i *to = (__m256i *)(void *)((uint16_t *)out + i * 32);
        _mm256_storeu_si256(to, _mm256_permute2x128_si256(first, second, 0x20));
        _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(first, second, 0x31));
    }
}

static void decode_block_f32(void *out, const uint8_t *packed, int64_t bytes, float scale)
{
    __m256 low = _mm256_mul_ps(_mm256_loadu_ps(nf4_levels), _mm256_set1_ps(scale));
    __m256 high = _mm256_mul_ps(_mm256_loadu_ps(nf4_levels + 8), _mm256_set1_ps(scale));
    __m256i codes[2];
    uint8_t code[NF4_BLOCK];
    unpack_codes(codes, packed, bytes);
    _mm256_storeu_si256((__m256i *)(void *)code, codes[0]);
    _mm256_storeu_si256((__m256i *)(void *)(code + 32), codes[1]);
    for (int i = 0; i < NF4_BLOCK; i += 8) {
        __m256i index = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(code + i)));
        __m256 a = _mm256_permutevar8x32_ps(low, index), b = _mm256_permutevar8x32_ps(high, index);
        _mm256_storeu_ps((float *)out + i, _mm256_blendv_ps(a, b, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)))); /* bit 3 chooses */
    }
}

static void decode(const void *matrix, int64_t first, int64_t count, void *out, dtype type)
{
    if (type == DTYPE_F32)
        nf4_decode_blocks(matrix, first, count, out, sizeof(float), decode_block_f32);
    else
        nf4_decode_blocks(matrix, first, count, out, sizeof(uint16_t), decode_block_bf16);
}

/* The number of midpoints below v. */
static __m256i codes_of(__m256 v)
{
    __m256i code = _mm256_setzero_si256();
    for (int i = 0; i < 15; i++) {
        __m256 above = _mm256_cmp_ps(v, _mm256_broadcast_ss(nf4_midpoints + i), _CMP_GT_OQ);
        code = _mm256_sub_epi32(code, _mm256_castps_si256(above)); /* a true lane is -1 */
    }
    return code;
}

/* 32 codes, 8 a vector, to 16 bytes. */
static void pack_codes(uint8_t *to, const __m256i codes[4])
{
    __m256i words[2] = {_mm256_packus_epi32(codes[0], codes[1]), _mm256_packus_epi32(codes[2], codes[3])};
    __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words[0], words[1]), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    __m256i joined = _mm256_and_si256(_mm256_or_si256(_mm256_slli_epi16(bytes, 4), _mm256_srli_epi16(bytes, 8)), _mm256_set1_epi16(255));
    _mm_storeu_si128((__m128i *)(void *)to, _mm_packus_epi16(_mm256_castsi256_si128(joined), _mm256_extracti128_si256(joined, 1)));
}

static int64_t quantize_full_block(uint8_t *codes, float *absmax, const float *values)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i largest = _mm256_setzero_si256(); /* magnitudes order as their bits do */
    for (int i = 0; i < NF4_BLOCK; i += 8) largest = _mm256_max_epu32(largest, _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(values + i)), magnitude));
    uint32_t lanes[8], bits = 0;
    _mm256_storeu_si256((__m256i *)(void *)lanes, largest);
    for (int i = 0; i < 8; i++) bits = lanes[i] > bits ? lanes[i] : bits;
    float size;
    memcpy(&size, &bits, sizeof size);
    if (bits >= 0x7f800000u || size <= NF4_TINY) return nf4_quantize_block(codes, absmax, values, NF4_BLOCK);
    *absmax = size;
    const __m256 reciprocal = _mm256_set1_ps(1.0f / size);
    for (int half = 0; half < 2; half++) {
        __m256i part[4];
        for (int i = 0; i < 4; i++) part[i] = codes_of(_mm256_mul_ps(_mm256_loadu_ps(values + half * 32 + i * 8), reciprocal));
        pack_codes(codes + half * 16, part);
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

const nf4_table nf4_avx2 = {"avx2", quantize_blocks, decode};
