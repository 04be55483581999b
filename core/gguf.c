#include "core/gguf.h"

#include <limits.h>
#include <stdlib.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "values of GGUF files are little-endian, and are read here as they lie"
#endif

enum { KEY_LIMIT_BYTES = 65535, DEFAULT_ALIGNMENT = 32, VALUE_LEAST_BYTES = 13, TENSOR_LEAST_BYTES = 24 };

static const struct {
    const char *name;
    size_t bytes; /* 0: not of one size */
} kinds[GGUF_KINDS] = {
    [GGUF_U8] = {"u8", 1},   [GGUF_I8] = {"i8", 1},   [GGUF_U16] = {"u16", 2},   [GGUF_I16] = {"i16", 2},       [GGUF_U32] = {"u32", 4},
    [GGUF_I32] = {"i32", 4}, [GGUF_F32] = {"f32", 4}, [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0}, [GGUF_ARRAY] = {"array", 0},
    [GGUF_U64] = {"u64", 8}, [GGUF_I64] = {"i64", 8}, [GGUF_F64] = {"f64", 8},
};

/* Names of types that are not read, for the message. */
static const struct {
    uint32_t id;
    const char *name;
} unread_types[] = {
    {9, "Q8_1"},    {10, "Q2_K"},  {11, "Q3_K"},  {15, "Q8_K"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"}, {23, "IQ4_XS"}, {24, "I8"},      {25, "I16"},    {26, "I32"},     {27, "I64"},
    {28, "F64"},    {29, "IQ1_M"}, {34, "TQ1_0"}, {35, "TQ2_0"},  {39, "MXFP4"},   {40, "NVFP4"},
};

/* ---- a cursor over the map ---- */

typedef struct cursor {
    const unsigned char *data;
    size_t bytes, at;
    const char *path;
} cursor;

static qlft_status fail_short(const cursor *c, uint64_t wanted)
{
    return status_fail(QLFT_EFORMAT, "%s: %llu bytes are wanted at byte %zu, the file has only %zu: was it cut short?", c->path, (unsigned long long)wanted,
                       c->at, c->bytes);
}

static qlft_status take(const unsigned char **out, cursor *c, uint64_t bytes)
{
    if (bytes > c->bytes - c->at) return fail_short(c, bytes);
    *out = c->data + c->at;
    c->at += (size_t)bytes;
    return QLFT_OK;
}

static qlft_status take_u32(uint32_t *out, cursor *c)
{
    const unsigned char *data = NULL;
    QLFT_TRY(take(&data, c, sizeof *out));
    memcpy(out, data, sizeof *out);
    return QLFT_OK;
}

static qlft_status take_u64(uint64_t *out, cursor *c)
{
    const unsigned char *data = NULL;
    QLFT_TRY(take(&data, c, sizeof *out));
    memcpy(out, data, sizeof *out);
    return QLFT_OK;
}

static qlft_status take_string(gguf_string *out, cursor *c)
{
    uint64_t bytes = 0;
    const unsigned char *data = NULL;
    QLFT_TRY(take_u64(&bytes, c));
    QLFT_TRY(take(&data, c, bytes));
    out->text = (const char *)data;
    out->bytes = (size_t)bytes;
    return QLFT_OK;
}

/* A number of things of at least `least_bytes` each: no more than the rest of the file can hold, so that it may be allocated. */
static qlft_status check_count(uint64_t count, size_t least_bytes, const cursor *c, const char *what)
{
    if (count <= (c->bytes - c->at) / least_bytes && count <= INT_MAX) return QLFT_OK;
    return status_fail(QLFT_EFORMAT, "%s: %llu %s are announced at byte %zu, more than a file of %zu bytes can hold", c->path, (unsigned long long)count, what,
                       c->at, c->bytes);
}

/* Keys and names, as C strings. */
static qlft_status take_name(char **out, cursor *c)
{
    gguf_string name = {NULL, 0};
    size_t at = c->at;
    QLFT_TRY(take_string(&name, c));
    if (name.bytes > KEY_LIMIT_BYTES || memchr(name.text, '\0', name.bytes))
        return status_fail(QLFT_EFORMAT, "%s: the name at byte %zu is longer than %d bytes, or holds a NUL", c->path, at, KEY_LIMIT_BYTES);
    *out = strndup(name.text, name.bytes);
    return *out ? QLFT_OK : status_fail(QLFT_ENOMEM, "%s: out of memory", c->path);
}

/* ---- metadata ---- */

static qlft_status take_kind(gguf_kind *out, cursor *c, const char *key)
{
    uint32_t kind = 0;
    QLFT_TRY(take_u32(&kind, c));
    if (kind >= GGUF_KINDS) return status_fail(QLFT_EFORMAT, "%s: key %s: the value type %u is unknown", c->path, key, kind);
    *out = (gguf_kind)kind;
    return QLFT_OK;
}

static qlft_status take_strings(gguf_value *v, cursor *c)
{
    QLFT_TRY(check_count(v->count, sizeof(uint64_t), c, "strings"));
    v->strings = calloc((size_t)v->count + 1, sizeof *v->strings);
    if (!v->strings) return status_fail(QLFT_ENOMEM, "%s: key %s: out of memory", c->path, v->key);
    for (uint64_t i = 0; i < v->count; i++) QLFT_TRY(take_string(&v->strings[i], c));
    return QLFT_OK;
}

static qlft_status take_items(gguf_value *v, cursor *c)
{
    size_t size = kinds[v->item].bytes;
    if (v->count > (c->bytes - c->at) / size)
        return status_fail(QLFT_EFORMAT, "%s: key %s: its array of %llu does not fit into the file", c->path, v->key, (unsigned long long)v->count);
    const unsigned char *data = NULL;
    QLFT_TRY(take(&data, c, v->count * size));
    for (uint64_t i = 0; v->item == GGUF_BOOL && i < v->count; i++)
        if (data[i] > 1) return status_fail(QLFT_EFORMAT, "%s: key %s: holds a bool that is %d", c->path, v->key, data[i]);
    return QLFT_OK;
}

static qlft_status take_value(gguf_value *v, cursor *c)
{
    QLFT_TRY(take_name(&v->key, c));
    QLFT_TRY(take_kind(&v->kind, c, v->key));
    v->count = 1;
    v->item = v->kind;
    if (v->kind == GGUF_ARRAY) {
        QLFT_TRY(take_kind(&v->item, c, v->key));
        QLFT_TRY(take_u64(&v->count, c));
        if (v->item == GGUF_ARRAY) return status_fail(QLFT_EUNSUPPORTED, "%s: key %s: arrays of arrays are not read", c->path, v->key);
    }
    v->data = c->data + c->at;
    gguf_string ignored;
    if (v->kind == GGUF_STRING) return take_string(&ignored, c);
    return v->item == GGUF_STRING ? take_strings(v, c) : take_items(v, c);
}

static int compare_strings(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* `names`: count of them, sorted here. */
static qlft_status refuse_twice(const char **names, int count, const char *path, const char *what)
{
    if (count > 0) qsort(names, (size_t)count, sizeof *names, compare_strings);
    for (int i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0) return status_fail(QLFT_EFORMAT, "%s: %s %s stands twice", path, what, names[i]);
    return QLFT_OK;
}

static qlft_status take_values(gguf *g, cursor *c, uint64_t count)
{
    QLFT_TRY(check_count(count, VALUE_LEAST_BYTES, c, "keys"));
    g->values = calloc((size_t)count + 1, sizeof *g->values);
    const char **names = calloc((size_t)count + 1, sizeof *names);
    qlft_status status = g->values && names ? QLFT_OK : status_fail(QLFT_ENOMEM, "%s: out of memory", c->path);
    for (uint64_t i = 0; i < count && status == QLFT_OK; i++) {
        gguf_value *v = &g->values[g->value_count++];
        status = take_value(v, c);
        names[i] = v->key;
    }
    if (status == QLFT_OK) status = refuse_twice(names, g->value_count, c->path, "key");
    free(names);
    return status;
}

/* ---- tensors ---- */

static qlft_status fail_type(const gguf_tensor *t, uint32_t id, const char *path)
{
    const char *name = "unknown";
    for (size_t i = 0; i < sizeof unread_types / sizeof *unread_types; i++)
        if (unread_types[i].id == id) name = unread_types[i].name;
    return status_fail(QLFT_EUNSUPPORTED, "%s: tensor %s: its type %s (%u) is not read; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K are",
                       path, t->name, name, id);
}

/* Rank, extents (the file has the innermost first) and type. */
static qlft_status take_shape(gguf_tensor *t, cursor *c)
{
    uint32_t rank = 0, id = 0;
    uint64_t extents[4] = {1, 1, 1, 1};
    QLFT_TRY(take_u32(&rank, c));
    if (rank > 4) return status_fail(QLFT_EFORMAT, "%s: tensor %s: has %u dimensions, at most 4 are possible", c->path, t->name, rank);
    t->rank = (int)rank;
    t->count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        QLFT_TRY(take_u64(&extents[i], c));
        if (extents[i] == 0 || __builtin_mul_overflow(t->count, extents[i], &t->count))
            return status_fail(QLFT_EFORMAT, "%s: tensor %s: dimension %u is 0 or too large (%llu)", c->path, t->name, i, (unsigned long long)extents[i]);
        t->shape[rank - 1 - i] = (int64_t)extents[i];
    }
    QLFT_TRY(take_u32(&id, c));
    t->type = id <= INT_MAX ? gguf_type_find((int)id) : NULL;
    if (!t->type) return fail_type(t, id, c->path);
    if (extents[0] % (uint64_t)t->type->block != 0)
        return status_fail(QLFT_EFORMAT, "%s: tensor %s: its rows of %llu are no whole blocks of %d (%s)", c->path, t->name, (unsigned long long)extents[0],
                           t->type->block, t->type->name);
    if (__builtin_mul_overflow((size_t)(t->count / t->type->block), (size_t)t->type->block_bytes, &t->bytes))
        return status_fail(QLFT_EFORMAT, "%s: tensor %s: is larger than any file", c->path, t->name);
    return QLFT_OK;
}

static int compare_places(const void *left, const void *right)
{
    const gguf_tensor *a = *(const gguf_tensor *const *)left, *b = *(const gguf_tensor *const *)right;
    return (a->data > b->data) - (a->data < b->data);
}

/* Places the tensors behind `start` and checks that they lie in the file and apart. */
static qlft_status place_tensors(gguf *g, const uint64_t *offsets, uint64_t start, uint64_t alignment, const gguf_tensor **order)
{
    const char *path = g->map.path;
    for (int i = 0; i < g->tensor_count; i++) {
        gguf_tensor *t = &g->tensors[i];
        if (offsets[i] % alignment != 0)
            return status_fail(QLFT_EFORMAT, "%s: tensor %s: its place %llu is not a multiple of %llu", path, t->name, (unsigned long long)offsets[i],
                               (unsigned long long)alignment);
        uint64_t end, at;
        if (__builtin_add_overflow(offsets[i], start, &at) || __builtin_add_overflow(at, t->bytes, &end) || end > g->map.bytes)
            return status_fail(QLFT_EFORMAT, "%s: tensor %s: its %zu bytes from %llu on are not in the file, which has only %zu bytes: was it cut short?", path,
                               t->name, t->bytes, (unsigned long long)offsets[i] + (unsigned long long)start, g->map.bytes);
        t->data = g->map.data + at;
        order[i] = t;
    }
    if (g->tensor_count > 0) qsort(order, (size_t)g->tensor_count, sizeof *order, compare_places);
    for (int i = 1; i < g->tensor_count; i++)
        if (order[i]->data < order[i - 1]->data + order[i - 1]->bytes)
            return status_fail(QLFT_EFORMAT, "%s: tensor %s: overlaps tensor %s", path, order[i]->name, order[i - 1]->name);
    return QLFT_OK;
}

static qlft_status take_tensors(gguf *g, cursor *c, uint64_t count)
{
    QLFT_TRY(check_count(count, TENSOR_LEAST_BYTES, c, "tensors"));
    int64_t alignment = 0;
    QLFT_TRY(gguf_get_int(&alignment, g, "general.alignment", DEFAULT_ALIGNMENT));
    if (alignment <= 0 || alignment > UINT32_MAX || (alignment & (alignment - 1)) != 0)
        return status_fail(QLFT_EFORMAT, "%s: key general.alignment: %lld is not a power of two", c->path, (long long)alignment);
    g->tensors = calloc((size_t)count + 1, sizeof *g->tensors);
    uint64_t *offsets = calloc((size_t)count + 1, sizeof *offsets);
    const char **names = calloc((size_t)count + 1, sizeof *names);
    const gguf_tensor **order = calloc((size_t)count + 1, sizeof *order);
    qlft_status status = g->tensors && offsets && names && order ? QLFT_OK : status_fail(QLFT_ENOMEM, "%s: out of memory", c->path);
    for (uint64_t i = 0; i < count && status == QLFT_OK; i++) {
        gguf_tensor *t = &g->tensors[g->tensor_count++];
        status = take_name(&t->name, c);
        if (status == QLFT_OK) status = take_shape(t, c);
        if (status == QLFT_OK) status = take_u64(&offsets[i], c);
        names[i] = t->name;
    }
    if (status == QLFT_OK) status = refuse_twice(names, g->tensor_count, c->path, "tensor");
    uint64_t start = ((uint64_t)c->at + (uint64_t)alignment - 1) & ~((uint64_t)alignment - 1);
    if (status == QLFT_OK) status = place_tensors(g, offsets, start, (uint64_t)alignment, order);
    free(offsets);
    free(names);
    free(order);
    return status;
}

/* ---- opening ---- */

static qlft_status take_frame(cursor *c, uint64_t *tensors, uint64_t *values)
{
    const unsigned char *magic = NULL;
    uint32_t version = 0;
    QLFT_TRY(take(&magic, c, 4));
    if (memcmp(magic, "GGUF", 4) != 0) return status_fail(QLFT_EFORMAT, "%s: not a GGUF file: it does not begin with GGUF", c->path);
    QLFT_TRY(take_u32(&version, c));
    if (version >= 1u << 16 && (version & 0xffffu) == 0)
        return status_fail(QLFT_EUNSUPPORTED, "%s: is a big-endian GGUF file; convert it to little-endian", c->path);
    if (version < 2 || version > 3) return status_fail(QLFT_EUNSUPPORTED, "%s: is GGUF version %u; versions 2 and 3 are read", c->path, version);
    QLFT_TRY(take_u64(tensors, c));
    return take_u64(values, c);
}

static qlft_status parse(gguf *g)
{
    cursor c = {g->map.data, g->map.bytes, 0, g->map.path};
    uint64_t tensors = 0, values = 0;
    int64_t parts = 0;
    QLFT_TRY(take_frame(&c, &tensors, &values));
    QLFT_TRY(take_values(g, &c, values));
    QLFT_TRY(gguf_get_int(&parts, g, "split.count", 0));
    if (parts > 1)
        return status_fail(QLFT_EUNSUPPORTED, "%s: is one of %lld parts of a split GGUF file (split.count); join them by llama-gguf-split --merge", c.path,
                           (long long)parts);
    return take_tensors(g, &c, tensors);
}

qlft_status gguf_open(gguf *out, const char *path)
{
    memset(out, 0, sizeof *out);
    qlft_status status = file_map_open(&out->map, path);
    if (status == QLFT_OK) status = parse(out);
    if (status != QLFT_OK) gguf_close(out);
    return status;
}

void gguf_close(gguf *g)
{
    for (int i = 0; i < g->value_count; i++) {
        free(g->values[i].key);
        free(g->values[i].strings);
    }
    for (int i = 0; i < g->tensor_count; i++) free(g->tensors[i].name);
    free(g->values);
    free(g->tensors);
    file_map_close(&g->map);
    memset(g, 0, sizeof *g);
}

void gguf_forget(const gguf *g, const gguf_tensor *t)
{
    file_map_forget(&g->map, (size_t)(t->data - g->map.data), t->bytes);
}

/* ---- looking up ---- */

const gguf_value *gguf_find(const gguf *g, const char *key)
{
    for (int i = 0; i < g->value_count; i++)
        if (strcmp(g->values[i].key, key) == 0) return &g->values[i];
    return NULL;
}

const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name)
{
    for (int i = 0; i < g->tensor_count; i++)
        if (strcmp(g->tensors[i].name, name) == 0) return &g->tensors[i];
    return NULL;
}

static qlft_status fail_kind(const gguf *g, const gguf_value *v, const char *wanted)
{
    return status_fail(QLFT_EFORMAT, "%s: key %s: must be %s and is of type %s", g->map.path, v->key, wanted, kinds[v->kind].name);
}

/* True if v is an integer; *fits is false for a u64 above INT64_MAX. */
static bool integer_of(int64_t *out, bool *fits, const gguf_value *v)
{
    uint64_t bits = 0;
    memcpy(&bits, v->data, kinds[v->kind].bytes);
    *fits = true;
    switch (v->kind) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32: *out = (int64_t)bits; return true;
    case GGUF_I8: *out = (int8_t)bits; return true;
    case GGUF_I16: *out = (int16_t)bits; return true;
    case GGUF_I32: *out = (int32_t)bits; return true;
    case GGUF_I64: *out = (int64_t)bits; return true;
    case GGUF_U64:
        *fits = bits <= INT64_MAX;
        *out = *fits ? (int64_t)bits : INT64_MAX;
        return true;
    default: return false;
    }
}

qlft_status gguf_get_int(int64_t *out, const gguf *g, const char *key, int64_t missing)
{
    const gguf_value *v = gguf_find(g, key);
    *out = missing;
    if (!v) return QLFT_OK;
    int64_t value;
    bool fits;
    if (!integer_of(&value, &fits, v)) return fail_kind(g, v, "an integer");
    if (!fits) return status_fail(QLFT_EFORMAT, "%s: key %s: is above 2^63 - 1", g->map.path, key);
    *out = value;
    return QLFT_OK;
}

qlft_status gguf_get_double(double *out, const gguf *g, const char *key, double missing)
{
    const gguf_value *v = gguf_find(g, key);
    *out = missing;
    if (!v) return QLFT_OK;
    int64_t value;
    bool fits;
    float single;
    if (v->kind == GGUF_F32) {
        memcpy(&single, v->data, sizeof single);
        *out = single;
    } else if (v->kind == GGUF_F64) {
        memcpy(out, v->data, sizeof *out);
    } else if (integer_of(&value, &fits, v) && fits) {
        *out = (double)value;
    } else {
        return fail_kind(g, v, "a number");
    }
    return QLFT_OK;
}

qlft_status gguf_get_bool(bool *out, const gguf *g, const char *key, bool missing)
{
    const gguf_value *v = gguf_find(g, key);
    *out = missing;
    if (v && v->kind != GGUF_BOOL) return fail_kind(g, v, "a bool");
    if (v) *out = v->data[0] != 0;
    return QLFT_OK;
}

qlft_status gguf_get_string(gguf_string *out, const gguf *g, const char *key)
{
    const gguf_value *v = gguf_find(g, key);
    out->text = NULL;
    out->bytes = 0;
    if (!v) return QLFT_OK;
    if (v->kind != GGUF_STRING) return fail_kind(g, v, "a string");
    uint64_t bytes; /* checked when the file was opened */
    memcpy(&bytes, v->data, sizeof bytes);
    out->text = (const char *)v->data + sizeof bytes;
    out->bytes = (size_t)bytes;
    return QLFT_OK;
}
