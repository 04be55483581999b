/* The vocabulary: texts by id in one pool, ids by text in an open-addressed table. */
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"

qlft_status tokenizer_grow(void *items, size_t *capacity, size_t used, size_t count, size_t item_bytes)
{
    if (count <= *capacity - used) return QLFT_OK;
    size_t wanted = *capacity ? *capacity : 16;
    if (count > SIZE_MAX / 4 / item_bytes - used) return status_fail(QLFT_ENOMEM, "out of memory: the text is too long for the tokenizer");
    while (wanted - used < count) wanted *= 2;
    void *grown = NULL;
    memcpy(&grown, items, sizeof grown);
    grown = realloc(grown, wanted * item_bytes);
    if (!grown) return status_fail(QLFT_ENOMEM, "out of memory in the tokenizer (%zu bytes)", wanted * item_bytes);
    memcpy(items, &grown, sizeof grown);
    *capacity = wanted;
    return QLFT_OK;
}

static uint32_t hash_text(const char *text, size_t bytes)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ bytes;
    while (bytes >= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
        text += 8;
        bytes -= 8;
    }
    uint64_t word = 0;
    memcpy(&word, text, bytes);
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    h ^= h >> 29;
    h *= 0xc4ceb9fe1a85ec53u;
    return (uint32_t)(h >> 32);
}

static bool same_text(const vocabulary *v, int32_t id, const char *text, size_t bytes)
{
    return v->bytes[id] == bytes && memcmp(v->pool + v->at[id], text, bytes) == 0;
}

static void put_slot(vocabulary *v, int32_t id)
{
    uint32_t slot = hash_text(v->pool + v->at[id], v->bytes[id]) & v->slot_mask;
    while (v->slots[slot] >= 0) slot = (slot + 1) & v->slot_mask;
    v->slots[slot] = id;
}

static qlft_status grow_slots(vocabulary *v)
{
    if (v->slots && (uint32_t)v->count < v->slot_mask / 2) return QLFT_OK;
    uint32_t mask = v->slots ? v->slot_mask * 2 + 1 : 1023;
    int32_t *slots = malloc(((size_t)mask + 1) * sizeof *slots);
    if (!slots) return status_fail(QLFT_ENOMEM, "out of memory for the vocabulary");
    memset(slots, 0xff, ((size_t)mask + 1) * sizeof *slots);
    free(v->slots);
    v->slots = slots;
    v->slot_mask = mask;
    for (int32_t id = 0; id < v->size; id++)
        if (v->at[id] != VOCABULARY_NONE) put_slot(v, id);
    return QLFT_OK;
}

/* Makes ids below `size` exist, without a text. */
static qlft_status grow_ids(vocabulary *v, int32_t size)
{
    size_t wanted = (size_t)(size - v->size), capacity = v->capacity;
    QLFT_TRY(tokenizer_grow(&v->at, &capacity, (size_t)v->size, wanted, sizeof *v->at));
    capacity = v->capacity;
    QLFT_TRY(tokenizer_grow(&v->bytes, &capacity, (size_t)v->size, wanted, sizeof *v->bytes));
    v->capacity = capacity;
    for (int32_t id = v->size; id < size; id++) {
        v->at[id] = VOCABULARY_NONE;
        v->bytes[id] = 0;
    }
    v->size = size;
    return QLFT_OK;
}

qlft_status vocabulary_add(vocabulary *v, int64_t id, const char *text, size_t bytes, const char *what)
{
    int shown = bytes < 80 ? (int)bytes : 80; /* the text may lie in a mapped file, where no NUL ends it */
    if (id < 0 || id >= TOKENIZER_ID_LIMIT)
        return status_fail(QLFT_EFORMAT, "%s: token \"%.*s\" has id %lld; ids are 0 to %d", what, shown, text, (long long)id, TOKENIZER_ID_LIMIT - 1);
    int32_t known = vocabulary_find(v, text, bytes);
    if (known == id) return QLFT_OK;
    if (known >= 0) return status_fail(QLFT_EFORMAT, "%s: token \"%.*s\" has two ids, %d and %lld", what, shown, text, known, (long long)id);
    if (id < v->size && v->at[id] != VOCABULARY_NONE)
        return status_fail(QLFT_EFORMAT, "%s: id %lld has two tokens, \"%.80s\" and \"%.*s\"", what, (long long)id, v->pool + v->at[id], shown, text);
    if (bytes >= VOCABULARY_NONE - 1 - v->pool_used) return status_fail(QLFT_EFORMAT, "%s: the texts of the vocabulary take more than 4 GiB", what);
    if (id >= v->size) QLFT_TRY(grow_ids(v, (int32_t)id + 1));
    QLFT_TRY(grow_slots(v));
    QLFT_TRY(tokenizer_grow(&v->pool, &v->pool_capacity, v->pool_used, bytes + 1, 1));
    v->at[id] = (uint32_t)v->pool_used;
    v->bytes[id] = (uint32_t)bytes;
    memcpy(v->pool + v->pool_used, text, bytes);
    v->pool[v->pool_used + bytes] = '\0';
    v->pool_used += bytes + 1;
    v->count++;
    put_slot(v, (int32_t)id);
    return QLFT_OK;
}

int32_t vocabulary_find(const vocabulary *v, const char *text, size_t bytes)
{
    if (!v->slots) return -1;
    uint32_t slot = hash_text(text, bytes) & v->slot_mask;
    while (v->slots[slot] >= 0) {
        if (same_text(v, v->slots[slot], text, bytes)) return v->slots[slot];
        slot = (slot + 1) & v->slot_mask;
    }
    return -1;
}

const char *vocabulary_text(const vocabulary *v, int32_t id, size_t *bytes)
{
    if (id < 0 || id >= v->size || v->at[id] == VOCABULARY_NONE) return NULL;
    if (bytes) *bytes = v->bytes[id];
    return v->pool + v->at[id];
}

void vocabulary_free(vocabulary *v)
{
    free(v->pool);
    free(v->at);
    free(v->bytes);
    free(v->slots);
    memset(v, 0, sizeof *v);
}
