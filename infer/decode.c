#include "infer/decode.h"

#include <stdlib.h>
#include <string.h>

qlft_status decoder_open(decoder *out, model *m, kv_cache *cache)
{
    memset(out, 0, sizeof *out);
    out->m = m;
    out->cache = cache;
    out->logits = malloc((size_t)m->dims.vocabulary * sizeof *out->logits);
    out->positions = malloc((size_t)m->options.tokens * sizeof *out->positions);
    out->first = calloc((size_t)m->options.tokens, sizeof *out->first);
    if (out->logits && out->positions && out->first) return QLFT_OK;
    decoder_close(out);
    return status_fail(QLFT_ENOMEM, "out of memory for %lld logits", (long long)m->dims.vocabulary);
}

void decoder_close(decoder *d)
{
    free(d->logits);
    free(d->positions);
    free(d->first);
    memset(d, 0, sizeof *d);
}

qlft_status decoder_feed(decoder *d, const int32_t *ids, int64_t count)
{
    kv_cache *cache = d->cache;
    if (count < 1) return status_fail(QLFT_EARG, "there is nothing to read: the prompt has no tokens");
    if (count > cache->capacity - cache->length)
        return status_fail(QLFT_EARG, "the text is longer than the %lld tokens that were planned for", (long long)cache->capacity);
    for (int64_t at = 0; at < count;) {
        int64_t n = count - at < d->m->options.tokens ? count - at : d->m->options.tokens;
        for (int64_t i = 0; i < n; i++) d->positions[i] = (int32_t)(cache->length + i);
        model_batch b = {ids + at, NULL, d->positions, d->first, n, 0};
        QLFT_TRY(model_forward(d->m, &b, false, cache->blocks, cache->length));
        cache->length += n;
        at += n;
        if (at == count) model_logits(d->m, n - 1, 1, d->logits);
    }
    return QLFT_OK;
}

static bool is_stop(const decode_options *o, int32_t id)
{
    for (int i = 0; i < o->stop_count; i++)
        if (o->stops[i] == id) return true;
    return false;
}

qlft_status decoder_generate(decoder *d, const decode_options *o, bool (*token)(void *payload, int32_t id), void *payload, int64_t *drawn, decode_end *end)
{
    *drawn = 0;
    *end = DECODE_LENGTH;
    while (*drawn < o->max_tokens && d->cache->length < d->cache->capacity) {
        if (o->interrupted && *o->interrupted) {
            *end = DECODE_STOPPED;
            return QLFT_OK;
        }
        int32_t id = -1;
        QLFT_TRY(sample_token(&id, d->logits, d->m->dims.vocabulary, &o->sample, (uint64_t)d->cache->length));
        bool stop = is_stop(o, id);
        if (!stop) {
            (*drawn)++;
            if (!token(payload, id)) {
                *end = DECODE_STOPPED;
                return QLFT_OK;
            }
        }
        QLFT_TRY(decoder_feed(d, &id, 1));
        if (stop) {
            *end = DECODE_STOP;
            return QLFT_OK;
        }
    }
    return QLFT_OK;
}
