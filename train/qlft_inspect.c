/* qlft inspect: what a model, adapter, GGUF or safetensors file holds. */
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "lora/peft.h"
#include "model/source.h"

enum { CONFIG_LIMIT_BYTES = 1 << 20 };

static json_t *shape_json(int rank, const int64_t *extents)
{
    json_t *list = json_array();
    for (int i = 0; list && i < rank; i++) json_array_append_new(list, json_integer((json_int_t)extents[i]));
    return list;
}

static void add_tensor(json_t *tensors, const char *name, const char *type, int rank, const int64_t *extents, size_t bytes)
{
    json_array_append_new(tensors,
                          json_pack("{s:s, s:s, s:o, s:I}", "name", name, "type", type, "shape", shape_json(rank, extents), "bytes", (json_int_t)bytes));
}

static void add_safetensors(json_t *out, const safetensors *s)
{
    json_t *tensors = json_array(), *metadata = json_object();
    int64_t parameters = 0;
    for (int i = 0; i < s->count; i++) {
        const safetensors_entry *e = &s->entries[i];
        add_tensor(tensors, e->name, safetensors_type_name(e->type), e->rank, e->shape, e->bytes);
        parameters += e->count;
    }
    for (int i = 0; s->metadata && s->metadata[i]; i += 2) json_object_set_new(metadata, s->metadata[i], json_string(s->metadata[i + 1]));
    json_object_set_new(out, "files", json_integer(s->file_count));
    json_object_set_new(out, "parameters", json_integer((json_int_t)parameters));
    json_object_set_new(out, "metadata", metadata);
    json_object_set_new(out, "tensors", tensors);
}

/* ---- GGUF metadata values ---- */

static json_t *gguf_scalar(const gguf *g, const gguf_value *v)
{
    gguf_string text = {NULL, 0};
    int64_t whole = 0;
    double real = 0.0;
    bool flag = false;
    switch (v->kind) {
    case GGUF_STRING: return gguf_get_string(&text, g, v->key) == QLFT_OK && text.text ? json_stringn(text.text, text.bytes) : NULL;
    case GGUF_F32:
    case GGUF_F64: return gguf_get_double(&real, g, v->key, 0.0) == QLFT_OK ? json_real(real) : NULL;
    case GGUF_BOOL: return gguf_get_bool(&flag, g, v->key, false) == QLFT_OK ? json_boolean(flag) : NULL;
    case GGUF_ARRAY: return json_sprintf("%llu items", (unsigned long long)v->count);
    default: return gguf_get_int(&whole, g, v->key, 0) == QLFT_OK ? json_integer((json_int_t)whole) : NULL;
    }
}

static void add_gguf(json_t *out, const gguf *g)
{
    json_t *tensors = json_array(), *metadata = json_object();
    int64_t parameters = 0;
    for (int i = 0; i < g->tensor_count; i++) {
        const gguf_tensor *t = &g->tensors[i];
        add_tensor(tensors, t->name, t->type->name, t->rank, t->shape, t->bytes);
        parameters += t->count;
    }
    for (int i = 0; i < g->value_count; i++) {
        json_t *value = gguf_scalar(g, &g->values[i]);
        json_object_set_new(metadata, g->values[i].key, value ? value : json_null());
    }
    json_object_set_new(out, "parameters", json_integer((json_int_t)parameters));
    json_object_set_new(out, "metadata", metadata);
    json_object_set_new(out, "tensors", tensors);
}

static json_t *dims_json(const shape *s)
{
    return json_pack("{s:s, s:i, s:I, s:I, s:i, s:i, s:i, s:I, s:b, s:f, s:f}", "architecture", s->kind->hf_class, "layers", s->layers, "width",
                     (json_int_t)s->width, "inner", (json_int_t)s->inner, "heads", s->heads, "key_heads", s->key_heads, "head_size", s->head_size, "vocabulary",
                     (json_int_t)s->vocabulary, "tied", (int)s->tied, "norm_eps", s->norm_eps, "rope_theta", s->rope.theta);
}

/* ---- kinds ---- */

/* What the adapter says of itself in words: the base it was made for, and the layers it is in. */
static qlft_status add_origin(json_t *adapter, const char *folder)
{
    static const char *const keys[] = {"base_model_name_or_path", "target_modules"};
    char *path = path_join(folder, "adapter_config.json");
    json_t *config = NULL;
    qlft_status status = path ? json_read_file(&config, path, CONFIG_LIMIT_BYTES) : status_fail(QLFT_ENOMEM, "out of memory");
    for (size_t i = 0; status == QLFT_OK && i < sizeof keys / sizeof keys[0]; i++) {
        json_t *value = json_object_get(config, keys[i]);
        if (value && !json_is_null(value)) json_object_set(adapter, keys[i], value);
    }
    json_decref(config);
    free(path);
    return status;
}

static qlft_status inspect_adapter(json_t *out, const char *path)
{
    peft_adapter p;
    QLFT_TRY(peft_open(&p, path));
    json_t *adapter = json_pack("{s:i, s:f, s:f, s:b, s:f, s:i}", "r", p.config.rank, "alpha", p.config.alpha, "dropout", p.config.dropout, "rslora",
                                (int)p.config.rslora, "scale", peft_scale(&p.config), "modules", p.count);
    qlft_status status = add_origin(adapter, path);
    json_object_set_new(out, "kind", json_string("adapter"));
    json_object_set_new(out, "adapter", adapter);
    add_safetensors(out, &p.file);
    peft_close(&p);
    return status;
}

static qlft_status inspect_model(json_t *out, const char *path)
{
    source s;
    QLFT_TRY(source_open(&s, path));
    json_object_set_new(out, "kind", json_string(s.is_gguf ? "gguf" : "model"));
    json_object_set_new(out, "model", dims_json(&s.dims));
    if (s.is_gguf)
        add_gguf(out, &s.file);
    else
        add_safetensors(out, &s.weights);
    source_close(&s);
    return QLFT_OK;
}

static qlft_status inspect_file(json_t *out, const char *path)
{
    gguf g;
    safetensors s;
    if (name_ends_with(path, ".gguf")) {
        QLFT_TRY(gguf_open(&g, path));
        json_object_set_new(out, "kind", json_string("gguf"));
        add_gguf(out, &g);
        gguf_close(&g);
        return QLFT_OK;
    }
    QLFT_TRY(safetensors_open(&s, path));
    json_object_set_new(out, "kind", json_string("safetensors"));
    add_safetensors(out, &s);
    safetensors_close(&s);
    return QLFT_OK;
}

/* A folder with adapter_config.json is an adapter, one with config.json a model; a file is a model if it reads as one, else just a file. */
static qlft_status inspect_any(json_t *out, const char *path)
{
    if (!file_exists(path) && !file_is_folder(path)) return status_fail(QLFT_EIO, "%s: no such file or folder", path);
    if (file_is_folder(path)) {
        char *adapter = path_join(path, "adapter_config.json");
        bool is_adapter = adapter && file_exists(adapter);
        free(adapter);
        return is_adapter ? inspect_adapter(out, path) : inspect_model(out, path);
    }
    if (inspect_model(out, path) == QLFT_OK) return QLFT_OK;
    json_object_clear(out);
    json_object_set_new(out, "path", json_string(path));
    return inspect_file(out, path);
}

qlft_status qlft_inspect(char **json_text, const char *path)
{
    json_t *out = json_pack("{s:s}", "path", path);
    *json_text = NULL;
    qlft_status status = out ? inspect_any(out, path) : status_fail(QLFT_EARG, "the path is not UTF-8, or out of memory");
    if (status == QLFT_OK && !(*json_text = json_dumps(out, JSON_INDENT(1)))) status = status_fail(QLFT_ENOMEM, "out of memory");
    json_decref(out);
    return status;
}
