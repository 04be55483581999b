#include "infer/kv_cache.h"

#include <stdlib.h>
#include <string.h>

qlft_status kv_cache_open(kv_cache *out, const model *m)
{
    memset(out, 0, sizeof *out);
    out->blocks = calloc((size_t)m->dims.layers, sizeof *out->blocks);
    out->layers = m->dims.layers;
    return out->blocks ? QLFT_OK : status_fail(QLFT_ENOMEM, "out of memory");
}

void kv_cache_close(kv_cache *c)
{
    free(c->blocks);
    memset(c, 0, sizeof *c);
}

void kv_cache_bind(kv_cache *c, arena *a, const model *m, int64_t capacity, dtype type)
{
    int64_t width = (int64_t)m->dims.key_heads * m->dims.head_size;
    c->capacity = capacity;
    c->length = 0;
    for (int i = 0; i < c->layers; i++) {
        c->blocks[i].k = arena_tensor(a, TIER_DEVICE, LEDGER_ACTIVATION, "generation", "keys", capacity, width, type);
        c->blocks[i].v = arena_tensor(a, TIER_DEVICE, LEDGER_ACTIVATION, "generation", "values", capacity, width, type);
    }
}
