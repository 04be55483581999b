/* safetensors files: 8-byte little-endian header length, JSON header, data. Everything in a header is untrusted. */
#ifndef CORE_SAFETENSORS_H
#define CORE_SAFETENSORS_H

#include "core/file.h"
#include "core/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SAFETENSORS_MAX_RANK = 8 };

/* The types that the format knows; those that dtype cannot say are listed so that they are named when refused. */
typedef enum safetensors_type {
    ST_BOOL,
    ST_U8,
    ST_I8,
    ST_F8_E5M2,
    ST_F8_E4M3,
    ST_I16,
    ST_U16,
    ST_F16,
    ST_BF16,
    ST_I32,
    ST_U32,
    ST_F32,
    ST_F64,
    ST_I64,
    ST_U64,
    ST_TYPES
} safetensors_type;
const char *safetensors_type_name(safetensors_type type);
size_t safetensors_type_bytes(safetensors_type type);

typedef struct safetensors_entry {
    char *name;
    safetensors_type type;
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    int64_t count;    /* product of shape, checked */
    const void *data; /* inside the map; may be unaligned for the type */
    size_t bytes;
    int file; /* index into files of the set */
} safetensors_entry;

/* One file, or the shards of an index, behind one list of entries sorted by name. */
typedef struct safetensors {
    file_map *files;
    int file_count;
    safetensors_entry *entries;
    int count;
    char **metadata; /* key, value, key, value, ..., NULL; of the first file */
} safetensors;

/* PATH is a .safetensors file or a model.safetensors.index.json. Every header is checked before anything is used: offsets,
 * overlaps, holes, sizes, duplicate names, trailing bytes; of an index: names with '/' or '..', missing shards (named),
 * tensors that are not where the index says (named). Strays beside an index are not read. */
qlft_status safetensors_open(safetensors *out, const char *path);
void safetensors_close(safetensors *s); /* accepts a zeroed one */

const safetensors_entry *safetensors_find(const safetensors *s, const char *name); /* NULL if absent */
const char *safetensors_metadata(const safetensors *s, const char *key);           /* NULL if absent */
/* Elements [from, from + count) widened to float: F32, F16, BF16, F64, F8 (E4M3, E5M2), I8, U8, I32, I64. Exact but for F64, I32 and I64. */
qlft_status safetensors_to_f32(float *out, const safetensors_entry *entry, int64_t from, int64_t count);
/* Integer types widened to int64 (U64 above INT64_MAX is an error). */
qlft_status safetensors_to_i64(int64_t *out, const safetensors_entry *entry, int64_t from, int64_t count);
/* Gives the entry's pages back to the system. */
void safetensors_forget(const safetensors *s, const safetensors_entry *entry);

/* ---- writing ---- */
typedef struct safetensors_out {
    const char *name;
    safetensors_type type;
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    const void *data;
} safetensors_out;
/* Written like the reference: by type size descending, then by name; header padded with spaces to a multiple of 8.
 * metadata: key, value, ..., NULL, or NULL. Whole or not at all. `sha256` may be NULL. */
qlft_status safetensors_write(const char *path, const safetensors_out *tensors, int count, const char *const *metadata, char sha256[SHA256_HEX_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
