/* Feeding tokens to a model with a cache, and drawing the next ones. Knows ids only, no text. */
#ifndef INFER_DECODE_H
#define INFER_DECODE_H

#include "infer/kv_cache.h"
#include "infer/sample.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct decoder {
    model *m;
    kv_cache *cache;
    float *logits;              /* F32 [V] of the last token fed; heap */
    int32_t *positions, *first; /* [tokens of a pass]; heap */
} decoder;

qlft_status decoder_open(decoder *out, model *m, kv_cache *cache);
void decoder_close(decoder *d); /* accepts a zeroed one */
/* Runs ids through the model behind what the cache holds, in passes of the planned size; logits are then those behind the last id.
 * QLFT_EARG if the cache is full. */
qlft_status decoder_feed(decoder *d, const int32_t *ids, int64_t count);

typedef enum decode_end { DECODE_STOP, DECODE_LENGTH, DECODE_STOPPED } decode_end;
typedef struct decode_options {
    sample_options sample;
    int64_t max_tokens;
    const int32_t *stops; /* ids that end an answer */
    int stop_count;
    const volatile int *interrupted; /* may be NULL */
} decode_options;

/* Draws tokens until a stop id, the limit, or `token` returns false. Every drawn token but a stop id is given to `token` and fed; the stop id is fed too, so
 * that a conversation goes on from a whole turn. *drawn counts tokens given. */
qlft_status decoder_generate(decoder *d, const decode_options *o, bool (*token)(void *payload, int32_t id), void *payload, int64_t *drawn, decode_end *end);

#ifdef __cplusplus
}
#endif
#endif
