/* Keys and values of the tokens so far, for every block. */
#ifndef INFER_KV_CACHE_H
#define INFER_KV_CACHE_H

#include "model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kv_cache {
    block_cache *blocks; /* [L] heap */
    int layers;
    int64_t capacity, length;
} kv_cache;

qlft_status kv_cache_open(kv_cache *out, const model *m);
void kv_cache_close(kv_cache *c); /* accepts a zeroed one */
/* Takes memory for `capacity` tokens, dry or real, in the compute type. */
void kv_cache_bind(kv_cache *c, arena *a, const model *m, int64_t capacity, dtype type);

#ifdef __cplusplus
}
#endif
#endif
