/* Drawing a token from logits. */
#ifndef INFER_SAMPLE_H
#define INFER_SAMPLE_H

#include "core/random.h"
#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sample_options {
    double temperature; /* 0: the likeliest token (of equal ones the first) */
    double top_p;       /* the smallest set of likeliest tokens with this probability; 1: all */
    int64_t top_k;      /* this many likeliest tokens; 0: all */
    uint64_t seed;
} sample_options;

/* A function of logits, options and `position` only: the same seed gives the same text. Temperature first, then top-k, then top-p, as transformers orders them.
 * QLFT_ENUMERIC if no logit is finite. */
qlft_status sample_token(int32_t *out, const float *logits, int64_t vocabulary, const sample_options *o, uint64_t position);

#ifdef __cplusplus
}
#endif
#endif
