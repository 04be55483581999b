#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

/* "model.layers.12.mlp.up_proj.weight" becomes "model.layers.*.mlp.up_proj.weight": one line for all layers. */
static void pattern_of(char *out, size_t bytes, const char *name)
{
    size_t at = 0;
    for (const char *p = name; *p && at + 2 < bytes;) {
        bool number = isdigit((unsigned char)*p) && (p == name || p[-1] == '.');
        size_t digits = number ? strspn(p, "0123456789") : 0;
        if (digits && (p[digits] == '.' || !p[digits])) {
            out[at++] = '*';
            p += digits;
        } else {
            out[at++] = *p++;
        }
    }
    out[at] = 0;
}

static void shape_text(char *out, size_t bytes, const json_t *shape)
{
    size_t at = (size_t)snprintf(out, bytes, "[");
    for (size_t i = 0; i < json_array_size(shape) && at + 1 < bytes; i++)
        at += (size_t)snprintf(out + at, bytes - at, "%s%lld", i ? ", " : "", (long long)json_integer_value(json_array_get(shape, i)));
    if (at + 1 < bytes) snprintf(out + at, bytes - at, "]");
}

/* Tensors that differ only in their layer, by pattern, type and shape, in the order of the file. */
static json_t *grouped(const json_t *tensors)
{
    json_t *groups = json_object(), *tensor;
    size_t i;
    json_array_foreach((json_t *)tensors, i, tensor)
    {
        char name[256], shape[128], key[512];
        const char *type = json_string_value(json_object_get(tensor, "type"));
        const char *own = json_string_value(json_object_get(tensor, "name"));
        pattern_of(name, sizeof name, own ? own : "");
        shape_text(shape, sizeof shape, json_object_get(tensor, "shape"));
        snprintf(key, sizeof key, "%s %s %s", name, type ? type : "?", shape);
        json_t *group = json_object_get(groups, key);
        if (!group) {
            group = json_pack("{s:s,s:s,s:s,s:i,s:I}", "name", name, "type", type ? type : "?", "shape", shape, "count", 0, "bytes", (json_int_t)0);
            if (!group || json_object_set_new(groups, key, group) != 0) continue;
        }
        json_object_set_new(group, "count", json_integer(json_integer_value(json_object_get(group, "count")) + 1));
        json_int_t bytes = json_integer_value(json_object_get(group, "bytes")) + json_integer_value(json_object_get(tensor, "bytes"));
        json_object_set_new(group, "bytes", json_integer(bytes));
    }
    return groups;
}

static void show_tensors(const json_t *tensors)
{
    json_t *groups = grouped(tensors), *group;
    const char *key;
    int wide = 10, shape_wide = 5;
    json_int_t total = 0;
    json_object_foreach(groups, key, group)
    {
        int length = (int)strlen(json_string_value(json_object_get(group, "name")));
        int shape = (int)strlen(json_string_value(json_object_get(group, "shape")));
        if (length > wide) wide = length;
        if (shape > shape_wide) shape_wide = shape;
        total += json_integer_value(json_object_get(group, "bytes"));
    }
    char bytes[SHOWN_BYTES];
    printf("\n%zu tensors, %s\n", json_array_size(tensors), show_bytes(bytes, (double)total));
    json_object_foreach(groups, key, group)
    {
        const char *name = json_string_value(json_object_get(group, "name"));
        int count = (int)json_integer_value(json_object_get(group, "count"));
        char times[24] = "";
        if (count > 1) snprintf(times, sizeof times, "x %d", count);
        printf("  ");
        show_text(stdout, name, strlen(name), false);
        printf("%*s  %-6s %-*s  %-6s %11s\n", wide - (int)strlen(name), "", json_string_value(json_object_get(group, "type")), shape_wide,
               json_string_value(json_object_get(group, "shape")), times, show_bytes(bytes, (double)json_integer_value(json_object_get(group, "bytes"))));
    }
    json_decref(groups);
}

/* Long values of metadata (templates, vocabularies) are cut: --json has them whole. */
static void show_metadata(const json_t *metadata)
{
    enum { SHOWN = 100, WIDEST = 40 };
    const char *key;
    json_t *value;
    int wide = 0;
    if (json_object_size(metadata)) printf("\nmetadata\n");
    json_object_foreach((json_t *)metadata, key, value)
    {
        int length = (int)strlen(key);
        if (length > wide && length <= WIDEST) wide = length;
    }
    json_object_foreach((json_t *)metadata, key, value)
    {
        char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        const char *shown = text ? text : json_string_value(value);
        size_t bytes = text ? strlen(text) : json_string_length(value);
        printf("  ");
        show_text(stdout, key, strlen(key), false);
        printf("%*s", wide > (int)strlen(key) ? wide - (int)strlen(key) + 2 : 2, "");
        size_t cut = bytes > SHOWN ? SHOWN : bytes;
        while (cut > 0 && cut < bytes && ((unsigned char)shown[cut] & 0xC0) == 0x80) cut--;
        if (shown) show_text(stdout, shown, cut, false);
        if (cut < bytes) printf("... (%zu bytes)", bytes);
        putchar('\n');
        free(text);
    }
}

qlft_status cmd_inspect(call *c)
{
    char *text = NULL;
    json_t *object = NULL;
    if (!c->operand) return say_error(QLFT_EARG, "qlft inspect takes a PATH: a model folder, an adapter folder, a .safetensors or a .gguf file");
    qlft_status status = qlft_inspect(&text, c->operand);
    if (status == QLFT_OK && c->json)
        puts(text);
    else if (status == QLFT_OK && (status = json_of_text(&object, text)) == QLFT_OK) {
        json_t *tensors = json_incref(json_object_get(object, "tensors")), *metadata = json_incref(json_object_get(object, "metadata"));
        json_object_del(object, "tensors");
        json_object_del(object, "metadata");
        show_facts(stdout, object, 0);
        show_metadata(metadata);
        show_tensors(tensors);
        json_decref(tensors);
        json_decref(metadata);
    }
    json_decref(object);
    qlft_free(text);
    return status;
}
