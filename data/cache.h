/* The file of tokenised samples that a dataset maps: written as a stream, validated whole before a byte of it is used.
 *
 * Layout, little-endian: per sample int32 ids [length], then a bit per token (target or not), padded to 4 bytes; cache_entry [samples], aligned to 8;
 * cache_trailer. What is known last stands last, so that writing needs no second pass. Ids and bits: 4.125 bytes a token; writing holds 32 bytes a sample in
 * memory. */
#ifndef DATA_CACHE_H
#define DATA_CACHE_H

#include "data/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CACHE_VERSION = 2 }; /* to be raised when the layout or the making of samples from rows changes: it is part of a file's name */

typedef struct cache_entry {
    uint64_t at; /* bytes from the start of the file */
    int64_t line;
    uint32_t length, supervised;
    int32_t file, reserved;
} cache_entry;

typedef struct cache_writer {
    file_writer file;
    file_hash *content; /* of lengths, ids and bits */
    cache_entry *entries;
    size_t count, capacity;
    uint8_t *bits;
    size_t bits_capacity;
} cache_writer;

qlft_status cache_writer_open(cache_writer *w, const char *path);
/* labels[i] is a target unless it is negative. Counts of tokens, supervised targets, samples and the longest go to `counts`. */
qlft_status cache_writer_add(cache_writer *w, data_counts *counts, const int32_t *ids, const int32_t *labels, size_t length, int64_t line, int32_t file);
qlft_status cache_writer_commit(cache_writer *w, const data_counts *counts);
void cache_writer_abandon(cache_writer *w); /* accepts a zeroed or committed one */

typedef struct cache {
    file_map map;
    const cache_entry *entries; /* [count] in the map */
    int64_t count;
    data_counts counts;
    char content[SHA256_HEX_BYTES];
} cache;

/* Maps and checks the file: sizes, offsets, hashes, ids below `vocabulary` (0: any). QLFT_EFORMAT says what is wrong with it. */
qlft_status cache_open(cache *out, const char *path, int64_t vocabulary);
void cache_close(cache *c); /* accepts a zeroed one */

#ifdef __cplusplus
}
#endif
#endif
