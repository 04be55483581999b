/* The operations of adamw_element in its order, 16 elements at a time, no fused multiply-add: the same bits as the reference. */
#include <immintrin.h>

#include "optim/adamw.h"

enum { LANES = 16 };

void adamw_avx512(device *d, float *p, const float *g, void *const state[], int64_t n, const optim_hyper *h)
{
    const adamw_step s = adamw_step_of(h);
    float *m = state[0], *v = state[1];
    const __m512 scale = _mm512_set1_ps(s.gradient_scale), keep = _mm512_set1_ps(s.keep), rise1 = _mm512_set1_ps(s.one_minus_beta1);
    const __m512 beta2 = _mm512_set1_ps(s.beta2), rise2 = _mm512_set1_ps(s.one_minus_beta2), root = _mm512_set1_ps(s.root_correction);
    const __m512 eps = _mm512_set1_ps(s.eps), rate = _mm512_set1_ps(s.rate);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t at = 0; at < n; at += LANES) {
        const __mmask16 mask = (__mmask16)(n - at >= LANES ? 0xffff : (1 << (n - at)) - 1);
        __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, g + at), scale), q = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, p + at), keep);
        __m512 m1 = _mm512_maskz_loadu_ps(mask, m + at), v1 = _mm512_maskz_loadu_ps(mask, v + at);
        m1 = _mm512_add_ps(m1, _mm512_mul_ps(_mm512_sub_ps(x, m1), rise1));
        v1 = _mm512_add_ps(_mm512_mul_ps(v1, beta2), _mm512_mul_ps(_mm512_mul_ps(x, x), rise2));
        __m512 below = _mm512_add_ps(_mm512_mul_ps(_mm512_sqrt_ps(v1), root), eps);
        q = _mm512_sub_ps(q, _mm512_mul_ps(rate, _mm512_div_ps(m1, below)));
        _mm512_mask_storeu_ps(p + at, mask, q);
        _mm512_mask_storeu_ps(m + at, mask, m1);
        _mm512_mask_storeu_ps(v + at, mask, v1);
    }
}
