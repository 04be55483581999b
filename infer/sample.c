#include "infer/sample.h"

#include <math.h>
#include <stdlib.h>

typedef struct candidate {
    double weight;
    int32_t id;
} candidate;

/* Falling weight; of equal ones the lower id first, so that the order is total. */
static int compare(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

/* Index of the largest logit, the first of equal ones; -1 if a NaN is among them or none is finite. */
static int64_t likeliest(const float *logits, int64_t vocabulary)
{
    int64_t best = -1;
    for (int64_t i = 0; i < vocabulary; i++) {
        if (isnan(logits[i]) || (isinf(logits[i]) && logits[i] > 0.0f)) return -1;
        if (best < 0 || logits[i] > logits[best]) best = i;
    }
    return best >= 0 && isfinite(logits[best]) ? best : -1;
}

/* How many of the sorted candidates stay, and the sum of their weights. */
static int64_t cut(const candidate *sorted, int64_t count, const sample_options *o, double *sum)
{
    int64_t kept = o->top_k > 0 && o->top_k < count ? o->top_k : count;
    double all = 0.0;
    for (int64_t i = 0; i < kept; i++) all += sorted[i].weight;
    *sum = 0.0;
    for (int64_t i = 0; i < kept; i++) {
        *sum += sorted[i].weight;
        if (*sum >= o->top_p * all) return i + 1;
    }
    return kept;
}

qlft_status sample_token(int32_t *out, const float *logits, int64_t vocabulary, const sample_options *o, uint64_t position)
{
    int64_t best = likeliest(logits, vocabulary);
    if (best < 0) return status_fail(QLFT_ENUMERIC, "the logits at position %llu are not finite", (unsigned long long)position);
    *out = (int32_t)best;
    if (o->temperature <= 0.0) return QLFT_OK;
    candidate *c = malloc((size_t)vocabulary * sizeof *c);
    if (!c) return status_fail(QLFT_ENOMEM, "out of memory for %lld candidates", (long long)vocabulary);
    for (int64_t i = 0; i < vocabulary; i++) c[i] = (candidate){exp(((double)logits[i] - (double)logits[best]) / o->temperature), (int32_t)i};
    qsort(c, (size_t)vocabulary, sizeof *c, compare);
    double sum = 0.0, seen = 0.0;
    int64_t kept = cut(c, vocabulary, o, &sum);
    double drawn = random_double(random_key_of(o->seed, RANDOM_SAMPLE, position, 0), 0) * sum;
    *out = c[kept - 1].id;
    for (int64_t i = 0; i < kept; i++) {
        seen += c[i].weight;
        if (drawn < seen) {
            *out = c[i].id;
            break;
        }
    }
    free(c);
    return QLFT_OK;
}
