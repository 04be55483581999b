#include <stdlib.h>

#include "core/gguf.h"

/* The writer of adapters: GGUF version 3, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md */

enum { VERSION = 3, ALIGNMENT = 32, NAME_LIMIT_BYTES = 63 /* GGML_MAX_NAME with its NUL */ };

static const struct {
    dtype type;
    uint32_t id;
} written_types[] = {{DTYPE_F32, 0}, {DTYPE_F16, 1}, {DTYPE_BF16, 30}};

static bool type_id(uint32_t *out, dtype type)
{
    for (size_t i = 0; i < sizeof written_types / sizeof *written_types; i++) {
        if (written_types[i].type != type) continue;
        *out = written_types[i].id;
        return true;
    }
    return false;
}

static qlft_status check_value(const gguf_out_value *v, const char *path)
{
    bool fits = v->kind == GGUF_U32 && v->number >= 0 && v->number <= UINT32_MAX && v->number == (double)(uint32_t)v->number;
    if (fits || v->kind == GGUF_F32 || (v->kind == GGUF_STRING && v->text)) return QLFT_OK;
    return status_fail(QLFT_EARG, "%s: key %s: only strings, u32 and f32 in their ranges are written", path, v->key);
}

static qlft_status tensor_bytes(size_t *out, const gguf_out_tensor *t, const char *path)
{
    uint32_t id;
    bool bad = t->rank < 1 || t->rank > 4 || !t->data || !type_id(&id, t->type);
    int64_t bytes = bad ? 0 : (int64_t)dtype_bytes(t->type);
    for (int i = 0; !bad && i < t->rank; i++) bad = t->shape[i] <= 0 || __builtin_mul_overflow(bytes, t->shape[i], &bytes);
    if (bad) return status_fail(QLFT_EARG, "%s: tensor %s: cannot be written: bad type or shape, or no data", path, t->name);
    if (strlen(t->name) > NAME_LIMIT_BYTES)
        return status_fail(QLFT_EARG, "%s: tensor %s: names of more than %d bytes cannot be read by llama.cpp", path, t->name, NAME_LIMIT_BYTES);
    *out = (size_t)bytes;
    return QLFT_OK;
}

static void put_u32(file_writer *w, uint32_t value)
{
    file_writer_put(w, &value, sizeof value);
}

static void put_u64(file_writer *w, uint64_t value)
{
    file_writer_put(w, &value, sizeof value);
}

static void put_string(file_writer *w, const char *text)
{
    put_u64(w, strlen(text));
    file_writer_put(w, text, strlen(text));
}

static void put_padding(file_writer *w)
{
    static const unsigned char zeros[ALIGNMENT];
    file_writer_put(w, zeros, (ALIGNMENT - w->written % ALIGNMENT) % ALIGNMENT);
}

static void put_value(file_writer *w, const gguf_out_value *v)
{
    put_string(w, v->key);
    put_u32(w, (uint32_t)v->kind);
    if (v->kind == GGUF_STRING) {
        put_string(w, v->text);
    } else if (v->kind == GGUF_U32) {
        put_u32(w, (uint32_t)v->number);
    } else {
        float number = (float)v->number;
        file_writer_put(w, &number, sizeof number);
    }
}

static void put_tensor_info(file_writer *w, const gguf_out_tensor *t, uint64_t offset)
{
    uint32_t id = 0;
    type_id(&id, t->type);
    put_string(w, t->name);
    put_u32(w, (uint32_t)t->rank);
    for (int i = t->rank - 1; i >= 0; i--) put_u64(w, (uint64_t)t->shape[i]);
    put_u32(w, id);
    put_u64(w, offset);
}

qlft_status gguf_write(const char *path, const gguf_out_value *values, int value_count, const gguf_out_tensor *tensors, int tensor_count)
{
    file_writer w;
    for (int i = 0; i < value_count; i++) QLFT_TRY(check_value(&values[i], path));
    size_t *bytes = calloc((size_t)tensor_count + 1, sizeof *bytes);
    if (!bytes) return status_fail(QLFT_ENOMEM, "%s: out of memory", path);
    qlft_status status = QLFT_OK;
    for (int i = 0; i < tensor_count && status == QLFT_OK; i++) status = tensor_bytes(&bytes[i], &tensors[i], path);
    if (status == QLFT_OK) status = file_writer_open(&w, path);
    if (status != QLFT_OK) goto done;
    file_writer_put(&w, "GGUF", 4);
    put_u32(&w, VERSION);
    put_u64(&w, (uint64_t)tensor_count);
    put_u64(&w, (uint64_t)value_count);
    for (int i = 0; i < value_count; i++) put_value(&w, &values[i]);
    uint64_t offset = 0;
    for (int i = 0; i < tensor_count; i++) {
        put_tensor_info(&w, &tensors[i], offset);
        offset += (bytes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    put_padding(&w);
    for (int i = 0; i < tensor_count; i++) {
        file_writer_put(&w, tensors[i].data, bytes[i]);
        put_padding(&w);
    }
    status = file_writer_commit(&w);
done:
    free(bytes);
    return status;
}
