#include "data/cache.h"

#include <stdlib.h>
#include <string.h>

enum {
    COUNTS = sizeof(data_counts) / sizeof(int64_t),
    BYTE_ORDER_MARK = 0x01020304,
    HASH_BYTES = 72,         /* of a hash in the file, filled with zeros */
    FORGET_BYTES = 16 << 20, /* checked bytes that stay in memory at most: a run's memory must not grow with its data */
};

static const char magic[8] = "QLFTTOK";

typedef struct cache_trailer {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t samples, entries_at;
    int64_t counts[COUNTS];
    char content[HASH_BYTES]; /* of the samples */
    char own[HASH_BYTES];     /* of the entries and of this trailer up to here */
} cache_trailer;

_Static_assert(sizeof(cache_entry) == 32, "an entry of the file has 32 bytes");
_Static_assert(sizeof(cache_trailer) == 32 + 8 * COUNTS + 2 * HASH_BYTES, "no bytes that nothing checks");
_Static_assert(sizeof(data_counts) % sizeof(int64_t) == 0, "the counts are written as int64");

static size_t bit_bytes(size_t length)
{
    return (length + 31) / 32 * 4;
}

/* ---- writing ---- */

qlft_status cache_writer_open(cache_writer *w, const char *path)
{
    memset(w, 0, sizeof *w);
    QLFT_TRY(file_writer_open(&w->file, path));
    qlft_status status = file_hash_open(&w->content);
    if (status != QLFT_OK) cache_writer_abandon(w);
    return status;
}

static qlft_status reserve(cache_writer *w, size_t length)
{
    if (w->count == w->capacity) {
        size_t capacity = w->capacity ? w->capacity * 2 : 1024;
        cache_entry *grown = realloc(w->entries, capacity * sizeof *grown);
        if (!grown) return status_fail(QLFT_ENOMEM, "out of memory for the index of %zu samples", w->count);
        w->entries = grown;
        w->capacity = capacity;
    }
    if (bit_bytes(length) > w->bits_capacity) {
        uint8_t *grown = realloc(w->bits, bit_bytes(length) * 2);
        if (!grown) return status_fail(QLFT_ENOMEM, "out of memory for a sample of %zu tokens", length);
        w->bits = grown;
        w->bits_capacity = bit_bytes(length) * 2;
    }
    return QLFT_OK;
}

qlft_status cache_writer_add(cache_writer *w, data_counts *counts, const int32_t *ids, const int32_t *labels, size_t length, int64_t line, int32_t file)
{
    if (length < 1 || length > INT32_MAX) return status_fail(QLFT_EFORMAT, "a sample of %zu tokens; 1 to %d can be used", length, INT32_MAX);
    QLFT_TRY(reserve(w, length));
    uint32_t supervised = 0, size = (uint32_t)length;
    memset(w->bits, 0, bit_bytes(length));
    for (size_t i = 0; i < length; i++) {
        if (labels[i] < 0) continue;
        w->bits[i / 8] |= (uint8_t)(1u << (i % 8));
        supervised += i > 0;
    }
    w->entries[w->count++] = (cache_entry){.at = w->file.written, .line = line, .length = size, .supervised = supervised, .file = file};
    file_writer_put(&w->file, ids, length * sizeof *ids);
    file_writer_put(&w->file, w->bits, bit_bytes(length));
    file_hash_put(w->content, &size, sizeof size);
    file_hash_put(w->content, ids, length * sizeof *ids);
    file_hash_put(w->content, w->bits, bit_bytes(length));
    counts->samples++;
    counts->tokens += (int64_t)length;
    counts->supervised += supervised;
    if ((int64_t)length > counts->longest) counts->longest = (int64_t)length;
    return QLFT_OK;
}

static qlft_status hash_own(char hex[HASH_BYTES], const cache_entry *entries, const cache_trailer *t)
{
    file_hash *h = NULL;
    memset(hex, 0, HASH_BYTES);
    QLFT_TRY(file_hash_open(&h));
    file_hash_put(h, entries, (size_t)t->samples * sizeof *entries);
    file_hash_put(h, t, offsetof(cache_trailer, own));
    file_hash_end(h, hex);
    return QLFT_OK;
}

qlft_status cache_writer_commit(cache_writer *w, const data_counts *counts)
{
    static const char zeros[8] = {0};
    cache_trailer t;
    memset(&t, 0, sizeof t);
    memcpy(t.magic, magic, sizeof t.magic);
    t.version = CACHE_VERSION;
    t.byte_order = BYTE_ORDER_MARK;
    t.samples = w->count;
    memcpy(t.counts, counts, sizeof t.counts);
    file_hash_end(w->content, t.content);
    w->content = NULL;
    file_writer_put(&w->file, zeros, (8 - w->file.written % 8) % 8);
    t.entries_at = w->file.written;
    qlft_status status = hash_own(t.own, w->entries, &t);
    if (status == QLFT_OK) {
        file_writer_put(&w->file, w->entries, w->count * sizeof *w->entries);
        file_writer_put(&w->file, &t, sizeof t);
        status = file_writer_commit(&w->file);
    }
    cache_writer_abandon(w);
    return status;
}

void cache_writer_abandon(cache_writer *w)
{
    char hex[SHA256_HEX_BYTES];
    file_writer_abandon(&w->file);
    if (w->content) file_hash_end(w->content, hex);
    free(w->entries);
    free(w->bits);
    memset(w, 0, sizeof *w);
}

/* ---- reading ---- */

static qlft_status damaged(const cache *c, const char *what)
{
    return status_fail(QLFT_EFORMAT, "%s: not a usable token cache (%s); remove it", c->map.path, what);
}

/* Each entry lies behind the one before it and in front of the index, and counts what its bits say. */
static qlft_status check_samples(cache *c, uint64_t entries_at, int64_t vocabulary)
{
    file_hash *h = NULL;
    char hex[SHA256_HEX_BYTES];
    uint64_t at = 0, kept = 0;
    const char *wrong = NULL;
    QLFT_TRY(file_hash_open(&h));
    for (int64_t i = 0; i < c->count && !wrong; i++) {
        const cache_entry *e = &c->entries[i];
        uint64_t bytes = (uint64_t)e->length * sizeof(int32_t) + bit_bytes(e->length);
        if (e->at != at || e->length < 1 || e->length > INT32_MAX || bytes > entries_at - at) {
            wrong = "a sample is out of place";
            break;
        }
        const int32_t *ids = (const void *)(c->map.data + at);
        const uint8_t *bits = (const uint8_t *)(ids + e->length);
        uint32_t supervised = 0;
        for (uint32_t k = 0; k < e->length; k++) {
            if (ids[k] < 0 || (vocabulary > 0 && ids[k] >= vocabulary)) wrong = "an id is outside the vocabulary";
            supervised += k > 0 && (bits[k / 8] >> (k % 8) & 1);
        }
        if (supervised != e->supervised) wrong = "a sample counts other targets than it has";
        file_hash_put(h, &e->length, sizeof e->length);
        file_hash_put(h, ids, (size_t)bytes);
        at += bytes;
        if (at - kept < FORGET_BYTES) continue;
        file_map_forget(&c->map, (size_t)kept, (size_t)(at - kept));
        kept = at;
    }
    file_hash_end(h, hex);
    for (; at < entries_at && !wrong; at++)
        if (c->map.data[at] != 0) wrong = "something stands behind the samples";
    if (!wrong && strcmp(hex, c->content) != 0) wrong = "the samples have another hash";
    return wrong ? damaged(c, wrong) : QLFT_OK;
}

static qlft_status check_file(cache *c, int64_t vocabulary)
{
    cache_trailer t;
    char hex[HASH_BYTES];
    if (c->map.bytes < sizeof t) return damaged(c, "too short");
    size_t trailer_at = c->map.bytes - sizeof t;
    memcpy(&t, c->map.data + trailer_at, sizeof t);
    if (memcmp(t.magic, magic, sizeof t.magic) != 0) return damaged(c, "it ends in something else");
    if (t.version != CACHE_VERSION || t.byte_order != BYTE_ORDER_MARK) return damaged(c, "of another version or byte order");
    if (t.entries_at > trailer_at || t.entries_at % 8 != 0 || (trailer_at - t.entries_at) / sizeof(cache_entry) != t.samples ||
        (trailer_at - t.entries_at) % sizeof(cache_entry) != 0)
        return damaged(c, "sizes do not fit together");
    c->entries = (const void *)(c->map.data + t.entries_at);
    QLFT_TRY(hash_own(hex, c->entries, &t));
    if (memcmp(hex, t.own, sizeof t.own) != 0) return damaged(c, "the index has another hash");
    c->count = (int64_t)t.samples;
    memcpy(&c->counts, t.counts, sizeof t.counts);
    memcpy(c->content, t.content, sizeof c->content);
    c->content[sizeof c->content - 1] = '\0';
    return check_samples(c, t.entries_at, vocabulary);
}

qlft_status cache_open(cache *out, const char *path, int64_t vocabulary)
{
    memset(out, 0, sizeof *out);
    QLFT_TRY(file_map_open(&out->map, path));
    qlft_status status = check_file(out, vocabulary);
    if (status != QLFT_OK) cache_close(out);
    return status;
}

void cache_close(cache *c)
{
    file_map_close(&c->map);
    memset(c, 0, sizeof *c);
}
