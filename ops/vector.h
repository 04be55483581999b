/* F32 vectors for the level that this file is compiled for (by its flags): VEC lanes, partial reads and writes, BF16 in memory, exp.
 * One body written with these serves avx2 and avx512; sums over lanes have one fixed order. Only static functions. */
#ifndef OPS_VECTOR_H
#define OPS_VECTOR_H

#include "core/tensor.h"

#ifdef __AVX2__ /* without the flags of a level there is nothing here */

#include <immintrin.h>

/* exp: Cody and Waite's reduction by ln 2 in two parts and the polynomial of Cephes expf (Moshier) on
 * [-ln2/2, ln2/2]; measured against double on every 37th float with a normal result: at most 1.26 ulp. Below -104 it is 0, above 88.73 it is Inf;
 * NaN stays. */
#define VEC_LOG2E 1.44269504088896341f
#define VEC_LN2_HIGH 0.693359375f
#define VEC_LN2_LOW (-2.12194440e-4f)
#define VEC_EXP_LEAST (-104.0f)
#define VEC_EXP_MOST 89.0f

static inline void *vec_row(tensor t, int64_t row)
{
    return (char *)t.data + (size_t)(row * t.stride) * dtype_bytes(t.type);
}

#ifdef __AVX512F__

enum { VEC = 16 };
typedef __m512 vec;

static inline vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}
static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}
static inline vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}
static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}
static inline vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}
/* NaN in b wins, NaN in a does not. */
static inline vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}
static inline vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

static inline __mmask16 vec_mask(int64_t count)
{
    return (__mmask16)(count >= VEC ? 0xffffu : (1u << count) - 1u);
}

/* Lanes from..to - 1 of x, others of otherwise. */
static inline vec vec_between(vec x, vec otherwise, int from, int to)
{
    int low = from < 0 ? 0 : from > VEC ? VEC : from, high = to < 0 ? 0 : to > VEC ? VEC : to;
    return _mm512_mask_blend_ps((__mmask16)(((1u << high) - 1u) & ~((1u << low) - 1u)), otherwise, x);
}

static inline __m512 vec_widen(__m256i x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

/* f32_to_bf16 of every lane: subnormals kept, unlike vcvtneps2bf16. */
static inline __m256i vec_narrow(vec x)
{
    __m512i u = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    rounded = _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), u, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

/* min(count, VEC) elements from data[at]; the lanes after them are 0. */
static inline vec vec_read(const void *data, dtype type, int64_t at, int64_t count)
{
    if (type == DTYPE_F32) return _mm512_maskz_loadu_ps(vec_mask(count), (const float *)data + at);
    return vec_widen(_mm256_maskz_loadu_epi16(vec_mask(count), (const uint16_t *)data + at));
}

static inline void vec_write(void *data, dtype type, int64_t at, int64_t count, vec x)
{
    if (type == DTYPE_F32)
        _mm512_mask_storeu_ps((float *)data + at, vec_mask(count), x);
    else
        _mm256_mask_storeu_epi16((uint16_t *)data + at, vec_mask(count), vec_narrow(x));
}

static inline vec vec_load(const void *from)
{
    return _mm512_loadu_ps(from);
}

static inline void vec_store(void *to, vec x)
{
    _mm512_storeu_ps(to, x);
}

static inline vec vec_round_bf16(vec x)
{
    return vec_widen(vec_narrow(x));
}

static inline float vec_sum(vec x)
{
    return _mm512_reduce_add_ps(x);
}
static inline float vec_largest(vec x)
{
    return _mm512_reduce_max_ps(x);
}

/* 2^n p, n integral in [-151, 130]. */
static inline vec vec_scale(vec p, vec n)
{
    return _mm512_scalef_ps(p, n);
}
static inline vec vec_nearest(vec x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Sums of lanes in double. */
typedef struct vec_double {
    __m512d a, b;
} vec_double;

static inline vec_double vec_double_zero(void)
{
    vec_double z = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    return z;
}

static inline vec_double vec_double_of(vec x)
{
    vec_double r = {_mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1))};
    return r;
}

/* sum + x y, x and y of F32 so that the product is exact. */
static inline vec_double vec_double_fma(vec_double sum, vec x, vec y)
{
    vec_double p = vec_double_of(x), q = vec_double_of(y);
    sum.a = _mm512_fmadd_pd(p.a, q.a, sum.a);
    sum.b = _mm512_fmadd_pd(p.b, q.b, sum.b);
    return sum;
}

static inline vec_double vec_double_add(vec_double sum, vec x)
{
    vec_double p = vec_double_of(x);
    sum.a = _mm512_add_pd(sum.a, p.a);
    sum.b = _mm512_add_pd(sum.b, p.b);
    return sum;
}

static inline double vec_double_sum(vec_double x)
{
    return _mm512_reduce_add_pd(_mm512_add_pd(x.a, x.b));
}

#else

enum { VEC = 8 };
typedef __m256 vec;

static inline vec vec_set(float x)
{
    return _mm256_set1_ps(x);
}
static inline vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}
static inline vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}
static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}
static inline vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
static inline vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}
static inline vec vec_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}

static inline __m256i vec_lanes(void)
{
    return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}
static inline __m256i vec_mask(int64_t count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(count > VEC ? VEC : count)), vec_lanes());
}

static inline vec vec_between(vec x, vec otherwise, int from, int to)
{
    __m256i inside = _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(from), vec_lanes()), _mm256_cmpgt_epi32(_mm256_set1_epi32(to), vec_lanes()));
    return _mm256_blendv_ps(otherwise, x, _mm256_castsi256_ps(inside));
}

static inline vec vec_widen(__m128i x)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}

static inline __m128i vec_narrow(vec x)
{
    __m256i u = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256 quiet = _mm256_castsi256_ps(_mm256_or_si256(u, _mm256_set1_epi32(0x400000)));
    rounded = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(rounded), quiet, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
    rounded = _mm256_srli_epi32(rounded, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
}

static inline vec vec_read(const void *data, dtype type, int64_t at, int64_t count)
{
    if (type == DTYPE_F32) return _mm256_maskload_ps((const float *)data + at, vec_mask(count));
    if (count >= VEC) return vec_widen(_mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)data + at)));
    uint16_t part[VEC] = {0};
    memcpy(part, (const uint16_t *)data + at, (size_t)count * sizeof *part);
    return vec_widen(_mm_loadu_si128((const __m128i *)(const void *)part));
}

static inline void vec_write(void *data, dtype type, int64_t at, int64_t count, vec x)
{
    uint16_t part[VEC];
    if (type == DTYPE_F32) {
        _mm256_maskstore_ps((float *)data + at, vec_mask(count), x);
    } else if (count >= VEC) {
        _mm_storeu_si128((__m128i *)(void *)((uint16_t *)data + at), vec_narrow(x));
    } else {
        _mm_storeu_si128((__m128i *)(void *)part, vec_narrow(x));
        memcpy((uint16_t *)data + at, part, (size_t)count * sizeof *part);
    }
}

static inline vec vec_load(const void *from)
{
    return _mm256_loadu_ps(from);
}

static inline void vec_store(void *to, vec x)
{
    _mm256_storeu_ps(to, x);
}

static inline vec vec_round_bf16(vec x)
{
    return vec_widen(vec_narrow(x));
}

static inline float vec_sum(vec x)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float vec_largest(vec x)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* In two steps, each a normal power of two, so that subnormal results and Inf come out. */
static inline vec vec_scale(vec p, vec n)
{
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half), bias = _mm256_set1_epi32(127);
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
}

static inline vec vec_nearest(vec x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

typedef struct vec_double {
    __m256d a, b;
} vec_double;

static inline vec_double vec_double_zero(void)
{
    vec_double z = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    return z;
}

static inline vec_double vec_double_of(vec x)
{
    vec_double r = {_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
    return r;
}

static inline vec_double vec_double_fma(vec_double sum, vec x, vec y)
{
    vec_double p = vec_double_of(x), q = vec_double_of(y);
    sum.a = _mm256_fmadd_pd(p.a, q.a, sum.a);
    sum.b = _mm256_fmadd_pd(p.b, q.b, sum.b);
    return sum;
}

static inline vec_double vec_double_add(vec_double sum, vec x)
{
    vec_double p = vec_double_of(x);
    sum.a = _mm256_add_pd(sum.a, p.a);
    sum.b = _mm256_add_pd(sum.b, p.b);
    return sum;
}

static inline double vec_double_sum(vec_double x)
{
    __m256d four = _mm256_add_pd(x.a, x.b);
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#endif

static inline vec vec_exp(vec x)
{
    x = vec_min(vec_set(VEC_EXP_MOST), vec_max(vec_set(VEC_EXP_LEAST), x));
    vec n = vec_nearest(vec_mul(x, vec_set(VEC_LOG2E)));
    vec r = vec_fma(n, vec_set(-VEC_LN2_LOW), vec_fma(n, vec_set(-VEC_LN2_HIGH), x));
    vec p = vec_fma(r, vec_set(1.9875691500e-4f), vec_set(1.3981999507e-3f));
    p = vec_fma(p, r, vec_set(8.3334519073e-3f));
    p = vec_fma(p, r, vec_set(4.1665795894e-2f));
    p = vec_fma(p, r, vec_set(1.6666665459e-1f));
    p = vec_fma(p, r, vec_set(5.0000001201e-1f));
    p = vec_fma(p, vec_mul(r, r), vec_add(r, vec_set(1.0f)));
    return vec_scale(p, n);
}

#endif
#endif
