#include "model/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_LIMIT_BYTES = 16 << 20, READ_BYTES = 4 << 20 };

void source_close(source *s)
{
    safetensors_close(&s->weights);
    gguf_close(&s->file);
    free(s->path);
    free(s->folder);
    memset(s, 0, sizeof *s);
}

/* The weights of a folder: an index if there is one, else the one file. */
static qlft_status folder_weights(char **out, const char *folder)
{
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = path_join(folder, names[i]);
        if (!path) return status_fail(QLFT_ENOMEM, "out of memory");
        if (file_exists(path)) {
            *out = path;
            return QLFT_OK;
        }
        free(path);
    }
    return status_fail(QLFT_EIO,
                       "%s: no model.safetensors and no model.safetensors.index.json in this folder; give a model folder as the hub lays it out, a "
                       ".safetensors file or a .gguf",
                       folder);
}

static qlft_status open_safetensors(source *s)
{
    json_t *config = NULL;
    char *weights = NULL, *config_path = NULL;
    qlft_status status = QLFT_OK;
    bool folder = file_is_folder(s->path);
    if (!folder && !name_ends_with(s->path, ".safetensors") && !name_ends_with(s->path, ".json"))
        return status_fail(QLFT_EFORMAT, "--base %s: not a model: give a folder as the hub lays it out, a .safetensors file or its index, or a .gguf", s->path);
    s->folder = folder ? strdup(s->path) : path_folder(s->path);
    if (!s->folder || !(config_path = path_join(s->folder, "config.json"))) {
        status = status_fail(QLFT_ENOMEM, "out of memory");
        goto done;
    }
    if (folder) {
        if ((status = folder_weights(&weights, s->path)) != QLFT_OK) goto done;
    } else if (!(weights = strdup(s->path))) {
        status = status_fail(QLFT_ENOMEM, "out of memory");
        goto done;
    }
    if ((status = json_read_file(&config, config_path, CONFIG_LIMIT_BYTES)) != QLFT_OK) goto done;
    if ((status = shape_from_config(&s->dims, config, config_path)) != QLFT_OK) goto done;
    status = safetensors_open(&s->weights, weights);
done:
    json_decref(config);
    free(weights);
    free(config_path);
    return status;
}

qlft_status source_open(source *out, const char *path)
{
    qlft_status status;
    memset(out, 0, sizeof *out);
    if (!file_exists(path) && !file_is_folder(path)) return status_fail(QLFT_EIO, "--base %s: no such file or folder", path);
    out->path = strdup(path);
    if (!out->path) return status_fail(QLFT_ENOMEM, "out of memory");
    out->is_gguf = name_ends_with(path, ".gguf");
    if (out->is_gguf) {
        out->folder = strdup(path);
        status = out->folder ? gguf_open(&out->file, path) : status_fail(QLFT_ENOMEM, "out of memory");
        if (status == QLFT_OK) status = shape_from_gguf(&out->dims, &out->file, path);
    } else {
        status = open_safetensors(out);
    }
    if (status != QLFT_OK) source_close(out);
    return status;
}

/* ---- tensors ---- */

static void tensor_source_name(char *out, size_t bytes, const source *s, tensor_role role, int layer, bool bias)
{
    const tensor_name *name = &s->dims.kind->names[role];
    const char *pattern = s->is_gguf ? name->gguf : name->hf, *hole = strstr(pattern, "%d");
    const char *suffix = bias ? ".bias" : ".weight";
    if (hole)
        snprintf(out, bytes, "%.*s%d%s%s", (int)(hole - pattern), pattern, layer, hole + 2, suffix);
    else
        snprintf(out, bytes, "%s%s", pattern, suffix);
}

static qlft_status check_shape(const source *s, const source_tensor *t, int rank, const int64_t *have, int64_t rows, int64_t cols)
{
    bool vector = rows == 1;
    if (vector ? rank == 1 && have[0] == cols : rank == 2 && have[0] == rows && have[1] == cols) return QLFT_OK;
    char text[128] = "";
    for (int i = 0; i < rank; i++) snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", i ? ", " : "", (long long)have[i]);
    if (vector) return status_fail(QLFT_EFORMAT, "%s: tensor %s has shape [%s], the model's sizes ask for [%lld]", s->path, t->name, text, (long long)cols);
    return status_fail(QLFT_EFORMAT, "%s: tensor %s has shape [%s], the model's sizes ask for [%lld, %lld]", s->path, t->name, text, (long long)rows,
                       (long long)cols);
}

static qlft_status safetensors_dtype(dtype *out, const source *s, const safetensors_entry *e)
{
    switch (e->type) {
    case ST_F32: *out = DTYPE_F32; return QLFT_OK;
    case ST_F16: *out = DTYPE_F16; return QLFT_OK;
    case ST_BF16: *out = DTYPE_BF16; return QLFT_OK;
    default:
        return status_fail(QLFT_EUNSUPPORTED, "%s: tensor %s has type %s; this version takes F32, F16 and BF16 weights", s->path, e->name,
                           safetensors_type_name(e->type));
    }
}

static dtype gguf_dtype(const gguf_type *type)
{
    if (strcmp(type->name, "F32") == 0) return DTYPE_F32;
    if (strcmp(type->name, "F16") == 0) return DTYPE_F16;
    return DTYPE_BF16;
}

qlft_status source_find(source_tensor *out, const source *s, tensor_role role, int layer, bool bias, int64_t rows, int64_t cols, bool optional)
{
    memset(out, 0, sizeof *out);
    tensor_source_name(out->name, sizeof out->name, s, role, layer, bias);
    int rank = 0;
    const int64_t *have = NULL;
    if (s->is_gguf && (out->packed = gguf_find_tensor(&s->file, out->name)) != NULL) {
        rank = out->packed->rank;
        have = out->packed->shape;
        out->type = gguf_dtype(out->packed->type);
        if (s->dims.kind->gguf_permuted && (role == TENSOR_Q || role == TENSOR_K)) out->permuted_heads = role == TENSOR_Q ? s->dims.heads : s->dims.key_heads;
    } else if (!s->is_gguf && (out->entry = safetensors_find(&s->weights, out->name)) != NULL) {
        rank = out->entry->rank;
        have = out->entry->shape;
        QLFT_TRY(safetensors_dtype(&out->type, s, out->entry));
    }
    if (!have) {
        if (optional) return QLFT_OK;
        return status_fail(QLFT_EFORMAT, "%s: tensor %s is missing", s->path, out->name);
    }
    out->rows = rows;
    out->cols = cols;
    out->count = rows * cols;
    return check_shape(s, out, rank, have, rows, cols);
}

static qlft_status read_gguf_row(void *out, dtype type, float *wide, const source_tensor *t, int64_t from, int64_t count)
{
    if (type == DTYPE_F32) return gguf_to_f32(out, t->packed, from, count);
    QLFT_TRY(gguf_to_f32(wide, t->packed, from, count));
    uint16_t *narrow = out;
    if (type == DTYPE_BF16)
        for (int64_t i = 0; i < count; i++) narrow[i] = f32_to_bf16(wide[i]);
    else
        for (int64_t i = 0; i < count; i++) narrow[i] = f32_to_f16(wide[i]);
    return QLFT_OK;
}

static qlft_status read_gguf(void *out, const source *s, const source_tensor *t)
{
    /* A vector of a permuted matrix (a bias) has one element a row. */
    int64_t rows = t->rows == 1 ? t->cols : t->rows, cols = t->rows == 1 ? 1 : t->cols;
    bool whole = t->permuted_heads == 0;
    qlft_status status = QLFT_OK;
    int64_t run = whole ? 65536 : cols;
    float *wide = malloc((size_t)run * sizeof *wide);
    if (!wide) return status_fail(QLFT_ENOMEM, "out of memory while reading %s", t->name);
    if (whole) {
        for (int64_t at = 0; at < t->count && status == QLFT_OK; at += run) {
            status = read_gguf_row((char *)out + (size_t)at * dtype_bytes(t->type), t->type, wide, t, at, run < t->count - at ? run : t->count - at);
            if (at / run % 32 == 31) gguf_forget(&s->file, t->packed); /* so that the file's pages are never a second copy of a large tensor */
        }
    } else {
        for (int64_t row = 0; row < rows && status == QLFT_OK; row++)
            status = read_gguf_row((char *)out + (size_t)(row * cols) * dtype_bytes(t->type), t->type, wide, t,
                                   gguf_pair_row(row, rows / t->permuted_heads) * cols, cols);
    }
    free(wide);
    gguf_forget(&s->file, t->packed);
    return status;
}

qlft_status source_read(void *out, const source *s, const source_tensor *t)
{
    if (t->packed) return read_gguf(out, s, t);
    /* Piece by piece, so that the file's pages are never a second copy of a large tensor. */
    const file_map *map = &s->weights.files[t->entry->file];
    size_t at = (size_t)((const unsigned char *)t->entry->data - map->data);
    for (size_t done = 0; done < t->entry->bytes; done += READ_BYTES) {
        size_t piece = t->entry->bytes - done < READ_BYTES ? t->entry->bytes - done : READ_BYTES;
        memcpy((char *)out + done, map->data + at + done, piece);
        file_map_forget(map, at + done, piece);
    }
    safetensors_forget(&s->weights, t->entry);
    return QLFT_OK;
}

qlft_status source_rope_factors(float *out, const source *s, int64_t count)
{
    const gguf_tensor *t = gguf_find_tensor(&s->file, "rope_freqs.weight");
    if (!t || t->count != count)
        return status_fail(QLFT_EFORMAT, "%s: tensor rope_freqs.weight holds %lld factors, head_dim asks for %lld", s->path, t ? (long long)t->count : 0LL,
                           (long long)count);
    return gguf_to_f32(out, t, 0, count);
}

/* ---- identity ---- */

qlft_status source_sha256(char hex[SHA256_HEX_BYTES], const source *s)
{
    if (s->is_gguf) return file_sha256(hex, s->path);
    if (s->weights.file_count == 1) return file_sha256(hex, s->weights.files[0].path);
    file_hash *hash = NULL;
    QLFT_TRY(file_hash_open(&hash));
    qlft_status status = QLFT_OK;
    for (int i = 0; i < s->weights.file_count && status == QLFT_OK; i++) {
        char one[SHA256_HEX_BYTES];
        const char *path = s->weights.files[i].path, *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        status = file_sha256(one, path);
        file_hash_put(hash, one, SHA256_HEX_BYTES - 1);
        file_hash_put(hash, "  ", 2);
        file_hash_put(hash, name, strlen(name));
        file_hash_put(hash, "\n", 1);
    }
    file_hash_end(hash, hex);
    return status;
}

static void put_tensor(file_hash *hash, const char *name, const char *type, int rank, const int64_t *extents, const void *data, size_t bytes)
{
    enum { SAMPLE_BYTES = 4096 };
    file_hash_put(hash, name, strlen(name) + 1);
    file_hash_put(hash, type, strlen(type) + 1);
    file_hash_put(hash, extents, (size_t)rank * sizeof *extents);
    if (bytes <= 3 * SAMPLE_BYTES) {
        if (bytes) file_hash_put(hash, data, bytes);
        return;
    }
    const size_t places[3] = {0, bytes / 2, bytes - SAMPLE_BYTES};
    for (int i = 0; i < 3; i++) file_hash_put(hash, (const char *)data + places[i], SAMPLE_BYTES);
}

qlft_status source_fingerprint(char hex[SHA256_HEX_BYTES], const source *s)
{
    file_hash *hash = NULL;
    QLFT_TRY(file_hash_open(&hash));
    for (int i = 0; i < s->file.tensor_count; i++) {
        const gguf_tensor *t = &s->file.tensors[i];
        put_tensor(hash, t->name, t->type->name, t->rank, t->shape, t->data, t->bytes);
        gguf_forget(&s->file, t);
    }
    for (int i = 0; i < s->weights.count; i++) {
        const safetensors_entry *e = &s->weights.entries[i];
        put_tensor(hash, e->name, safetensors_type_name(e->type), e->rank, e->shape, e->data, e->bytes);
        safetensors_forget(&s->weights, e);
    }
    file_hash_end(hash, hex);
    return QLFT_OK;
}

/* Does `name` fit the pattern of a role ("model.layers.%d.mlp.up_proj" + ".weight", or ".bias" if it has one) in a layer that the model has? */
static bool name_of_role(const char *name, const char *pattern, int layers, bool biased)
{
    const char *hole = strstr(pattern, "%d");
    size_t head = hole ? (size_t)(hole - pattern) : strlen(pattern);
    if (strncmp(name, pattern, head) != 0) return false;
    name += head;
    if (hole) {
        size_t digits = strspn(name, "0123456789"), tail = strlen(hole + 2);
        if (!digits || digits > 4 || atoi(name) >= layers || strncmp(name + digits, hole + 2, tail) != 0) return false;
        name += digits + tail;
    }
    return strcmp(name, ".weight") == 0 || (biased && strcmp(name, ".bias") == 0);
}

static bool name_is_known(const source *s, const char *name)
{
    for (int role = 0; role < TENSOR_ROLES; role++) {
        const tensor_name *pattern = &s->dims.kind->names[role];
        if (name_of_role(name, s->is_gguf ? pattern->gguf : pattern->hf, s->dims.layers, shape_has_bias(&s->dims, (tensor_role)role))) return true;
    }
    return strcmp(name, "rope_freqs.weight") == 0 || name_ends_with(name, ".rotary_emb.inv_freq");
}

const char *source_stray(const source *s, int *at)
{
    int count = s->is_gguf ? s->file.tensor_count : s->weights.count;
    while (*at < count) {
        int i = (*at)++;
        const char *name = s->is_gguf ? s->file.tensors[i].name : s->weights.entries[i].name;
        if (!name_is_known(s, name)) return name;
    }
    return NULL;
}
