/* GGUF files (versions 2 and 3, little-endian): metadata, tensors of the types below, and a writer for adapters. Untrusted. */
#ifndef CORE_GGUF_H
#define CORE_GGUF_H

#include "core/file.h"
#include "core/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gguf_kind { /* numbers of the format */
                         GGUF_U8,
                         GGUF_I8,
                         GGUF_U16,
                         GGUF_I16,
                         GGUF_U32,
                         GGUF_I32,
                         GGUF_F32,
                         GGUF_BOOL,
                         GGUF_STRING,
                         GGUF_ARRAY,
                         GGUF_U64,
                         GGUF_I64,
                         GGUF_F64,
                         GGUF_KINDS
} gguf_kind;

typedef struct gguf_string {
    const char *text;
    size_t bytes;
} gguf_string; /* in the map; not NUL-terminated */

typedef struct gguf_value {
    char *key;
    gguf_kind kind, item;      /* item: of an array */
    uint64_t count;            /* of an array; else 1 */
    const unsigned char *data; /* the value in the file; arrays: the first item */
    gguf_string *strings;      /* of an array of strings: count of them; else NULL */
} gguf_value;

typedef struct gguf_type {
    int id;
    const char *name;
    int block, block_bytes;
    void (*to_f32)(float *out, const unsigned char *block, int64_t blocks);
} gguf_type;
const gguf_type *gguf_type_find(int id); /* F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K; NULL otherwise */

typedef struct gguf_tensor {
    char *name;
    const gguf_type *type;
    int rank;
    int64_t shape[4]; /* as in PyTorch: rows first (the file has the innermost first) */
    int64_t count;
    const unsigned char *data;
    size_t bytes;
} gguf_tensor;

typedef struct gguf {
    file_map map;
    gguf_value *values;
    int value_count;
    gguf_tensor *tensors;
    int tensor_count;
} gguf;

/* Checks magic, version, counts, lengths, types, alignment, ranges and overlaps. An unknown tensor type is an error that names tensor and type. */
qlft_status gguf_open(gguf *out, const char *path);
void gguf_close(gguf *g);
const gguf_value *gguf_find(const gguf *g, const char *key);
const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name);
/* Scalars by key; a missing key gives `missing`, another kind is an error that names the key. Integers of any width are taken. */
qlft_status gguf_get_int(int64_t *out, const gguf *g, const char *key, int64_t missing);
qlft_status gguf_get_double(double *out, const gguf *g, const char *key, double missing);
qlft_status gguf_get_bool(bool *out, const gguf *g, const char *key, bool missing);
qlft_status gguf_get_string(gguf_string *out, const gguf *g, const char *key); /* missing: text NULL */
/* Elements [from, from + count) as float, exactly as ggml dequantizes; from and count need not be block multiples. */
qlft_status gguf_to_f32(float *out, const gguf_tensor *t, int64_t from, int64_t count);
void gguf_forget(const gguf *g, const gguf_tensor *t);
/* Row of a q or k matrix as on the hub -> its row in a llama file: the converter lets the two halves of each head's rows alternate (rotary pairs). */
static inline int64_t gguf_pair_row(int64_t row, int64_t head_size)
{
    int64_t half = head_size / 2, inside = row % head_size;
    return row - inside + (inside < half ? 2 * inside : 2 * (inside - half) + 1);
}

/* ---- writing (adapters): F32, F16 and BF16 tensors; strings, u32 and f32 values ---- */
typedef struct gguf_out_value {
    const char *key;
    gguf_kind kind;
    const char *text;
    double number;
} gguf_out_value;
typedef struct gguf_out_tensor {
    const char *name;
    dtype type;
    int rank;
    int64_t shape[4];
    const void *data;
} gguf_out_tensor; /* shape rows first */
qlft_status gguf_write(const char *path, const gguf_out_value *values, int value_count, const gguf_out_tensor *tensors, int tensor_count);

#ifdef __cplusplus
}
#endif
#endif
