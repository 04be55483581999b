#include "core/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "core/json.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "values of safetensors files are little-endian, and are read here as they lie"
#endif

enum { LENGTH_BYTES = 8 };
/* The limit of the reference, so that what we write or take others can read. */
static const size_t header_limit_bytes = 100 * 1000 * 1000;

/* ---- one tensor of a header ---- */

static qlft_status fail_tensor(const char *path, const char *name, const char *what)
{
    return status_fail(QLFT_EFORMAT, "%s: tensor %s: %s", path, name, what);
}

static qlft_status read_type(safetensors_entry *e, const json_t *value, const char *path)
{
    const char *text = json_string_value(value);
    if (!text) return fail_tensor(path, e->name, "has no \"dtype\"");
    for (int type = 0; type < ST_TYPES; type++) {
        if (strcmp(text, safetensors_type_name((safetensors_type)type)) == 0) {
            e->type = (safetensors_type)type;
            return QLFT_OK;
        }
    }
    return status_fail(QLFT_EFORMAT, "%s: tensor %s: the type \"%s\" is unknown", path, e->name, text);
}

static qlft_status read_shape(safetensors_entry *e, const json_t *shape, const char *path)
{
    if (!json_is_array(shape)) return fail_tensor(path, e->name, "has no \"shape\"");
    size_t rank = json_array_size(shape);
    if (rank > SAFETENSORS_MAX_RANK)
        return status_fail(QLFT_EFORMAT, "%s: tensor %s: has %zu dimensions, at most %d are read", path, e->name, rank, SAFETENSORS_MAX_RANK);
    e->rank = (int)rank;
    e->count = 1;
    /* Dimensions beside a 0 are checked like others, since callers multiply some of them. */
    int64_t bytes = (int64_t)safetensors_type_bytes(e->type);
    for (size_t i = 0; i < rank; i++) {
        const json_t *value = json_array_get(shape, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return status_fail(QLFT_EFORMAT, "%s: tensor %s: dimension %zu of its shape is not a whole number from 0", path, e->name, i);
        int64_t size = json_integer_value(value);
        if (__builtin_mul_overflow(bytes, size ? size : 1, &bytes)) return fail_tensor(path, e->name, "its shape is larger than any file");
        e->shape[i] = size;
        e->count *= size;
    }
    e->bytes = (size_t)e->count * safetensors_type_bytes(e->type);
    return QLFT_OK;
}

/* Where in the data a tensor lies; kept beside the entries until holes and overlaps are excluded. */
typedef struct range {
    uint64_t from, to;
    const char *name;
} range;

static qlft_status read_range(safetensors_entry *e, range *out, const json_t *offsets, const file_map *file, size_t start)
{
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return fail_tensor(file->path, e->name, "\"data_offsets\" must be two whole numbers");
    int64_t first = json_integer_value(from), end = json_integer_value(to);
    if (first < 0 || end < first)
        return status_fail(QLFT_EFORMAT, "%s: tensor %s: data_offsets [%lld, %lld] are no range", file->path, e->name, (long long)first, (long long)end);
    if ((uint64_t)(end - first) != e->bytes)
        return status_fail(QLFT_EFORMAT, "%s: tensor %s: its shape and type need %zu bytes, its data_offsets give %lld", file->path, e->name, e->bytes,
                           (long long)(end - first));
    size_t data_bytes = file->bytes - start;
    if ((uint64_t)end > data_bytes)
        return status_fail(QLFT_EFORMAT, "%s: tensor %s: ends at byte %llu of the file, which has only %zu bytes: was it cut short?", file->path, e->name,
                           (unsigned long long)end + start, file->bytes);
    e->data = file->data + start + (size_t)first;
    out->from = (uint64_t)first;
    out->to = (uint64_t)end;
    out->name = e->name;
    return QLFT_OK;
}

static qlft_status read_entry(safetensors_entry *e, range *out, const char *name, const json_t *info, const file_map *file, size_t start)
{
    e->name = strdup(name);
    if (!e->name) return status_fail(QLFT_ENOMEM, "%s: out of memory", file->path);
    if (!json_is_object(info)) return fail_tensor(file->path, name, "its description is not an object");
    QLFT_TRY(read_type(e, json_object_get(info, "dtype"), file->path));
    QLFT_TRY(read_shape(e, json_object_get(info, "shape"), file->path));
    return read_range(e, out, json_object_get(info, "data_offsets"), file, start);
}

/* ---- a header ---- */

static int compare_ranges(const void *left, const void *right)
{
    const range *a = left, *b = right;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    return (a->to > b->to) - (a->to < b->to);
}

/* The tensors must cover the data: no byte twice, none unused. */
static qlft_status check_cover(range *ranges, size_t count, const file_map *file, size_t start)
{
    if (count > 0) qsort(ranges, count, sizeof *ranges, compare_ranges);
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].from < at) return status_fail(QLFT_EFORMAT, "%s: tensor %s: overlaps tensor %s", file->path, ranges[i].name, ranges[i - 1].name);
        if (ranges[i].from > at)
            return status_fail(QLFT_EFORMAT, "%s: tensor %s: %llu unused bytes lie before it", file->path, ranges[i].name,
                               (unsigned long long)(ranges[i].from - at));
        at = ranges[i].to;
    }
    if (at != file->bytes - start)
        return status_fail(QLFT_EFORMAT, "%s: %llu bytes expected, the file has %zu: bytes lie behind the last tensor", file->path,
                           (unsigned long long)at + start, file->bytes);
    return QLFT_OK;
}

static qlft_status read_metadata(char ***out, const json_t *object, const char *path)
{
    if (!object || json_is_null(object)) return QLFT_OK;
    if (!json_is_object(object)) return status_fail(QLFT_EFORMAT, "%s: the header's __metadata__ is not an object", path);
    *out = calloc(json_object_size(object) * 2 + 1, sizeof **out);
    if (!*out) return status_fail(QLFT_ENOMEM, "%s: out of memory", path);
    size_t used = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (!json_is_string(value)) return status_fail(QLFT_EFORMAT, "%s: the header's __metadata__: \"%s\" is not a string", path, key);
        if (!((*out)[used++] = strdup(key)) || !((*out)[used++] = strdup(json_string_value(value)))) return status_fail(QLFT_ENOMEM, "%s: out of memory", path);
    }
    return QLFT_OK;
}

/* Parses an object in which a key that stands twice is an error. */
static qlft_status parse_strict(json_t **out, const char *text, size_t bytes, const char *what)
{
    json_error_t error;
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!*out && json_error_code(&error) == json_error_out_of_memory) return status_fail(QLFT_ENOMEM, "%s: out of memory", what);
    if (!*out) return status_fail(QLFT_EFORMAT, "%s: line %d, column %d: %s", what, error.line, error.column, error.text);
    if (!json_is_object(*out)) return status_fail(QLFT_EFORMAT, "%s: not a JSON object", what);
    return QLFT_OK;
}

/* Checks the frame of the file and parses its header; *start is where the data begins. */
static qlft_status read_header(json_t **out, size_t *start, const file_map *file)
{
    static const char pointer[] = "version https://git-lfs";
    if (file->bytes >= sizeof pointer - 1 && memcmp(file->data, pointer, sizeof pointer - 1) == 0)
        return status_fail(QLFT_EFORMAT, "%s: is a pointer of Git LFS, not the file itself: fetch it by `git lfs pull`", file->path);
    if (file->bytes < LENGTH_BYTES)
        return status_fail(QLFT_EFORMAT, "%s: a safetensors file has at least %d bytes, this one has %zu", file->path, LENGTH_BYTES, file->bytes);
    uint64_t length;
    memcpy(&length, file->data, sizeof length);
    if (length > file->bytes - LENGTH_BYTES)
        return status_fail(QLFT_EFORMAT, "%s: its header is said to have %llu bytes, the file has %zu: cut short, or not a safetensors file", file->path,
                           (unsigned long long)length, file->bytes);
    if (length > header_limit_bytes)
        return status_fail(QLFT_EFORMAT, "%s: its header has %llu bytes, more than the %zu that the format allows", file->path, (unsigned long long)length,
                           header_limit_bytes);
    const char *text = (const char *)file->data + LENGTH_BYTES;
    if (length == 0 || text[0] != '{') return status_fail(QLFT_EFORMAT, "%s: its header is not a JSON object", file->path);
    *start = LENGTH_BYTES + (size_t)length;
    qlft_status status = parse_strict(out, text, (size_t)length, "header");
    return status == QLFT_OK ? status : status_prefix(status, "%s: ", file->path);
}

/* ---- opening ---- */

/* Appends the tensors of files[index] to the entries. */
static qlft_status add_file(safetensors *s, int index)
{
    const file_map *file = &s->files[index];
    json_t *header = NULL;
    range *ranges = NULL;
    size_t start = 0, used = 0;
    qlft_status status = read_header(&header, &start, file);
    if (status != QLFT_OK) goto done;
    size_t tensors = json_object_size(header) - (json_object_get(header, "__metadata__") ? 1 : 0);
    safetensors_entry *grown = realloc(s->entries, ((size_t)s->count + tensors + 1) * sizeof *grown);
    if (grown) s->entries = grown;
    ranges = calloc(tensors + 1, sizeof *ranges);
    if (!grown || !ranges) {
        status = status_fail(QLFT_ENOMEM, "%s: out of memory", file->path);
        goto done;
    }
    if (index == 0) status = read_metadata(&s->metadata, json_object_get(header, "__metadata__"), file->path);
    const char *name;
    json_t *info;
    json_object_foreach(header, name, info)
    {
        if (status != QLFT_OK) goto done;
        if (strcmp(name, "__metadata__") == 0) continue;
        safetensors_entry *e = &s->entries[s->count++];
        memset(e, 0, sizeof *e);
        e->file = index;
        status = read_entry(e, &ranges[used++], name, info, file, start);
    }
    if (status == QLFT_OK) status = check_cover(ranges, used, file, start);
done:
    json_decref(header);
    free(ranges);
    return status;
}

static int compare_entries(const void *left, const void *right)
{
    return strcmp(((const safetensors_entry *)left)->name, ((const safetensors_entry *)right)->name);
}

static int compare_strings(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The distinct values of the weight map, sorted; borrowed from it. */
static qlft_status list_shards(const char ***out, int *count, const json_t *map, const char *path)
{
    if (!json_is_object(map) || json_object_size(map) == 0) return status_fail(QLFT_EFORMAT, "%s: has no \"weight_map\"", path);
    const char **names = calloc(json_object_size(map), sizeof *names);
    *out = names;
    if (!names) return status_fail(QLFT_ENOMEM, "%s: out of memory", path);
    size_t used = 0, distinct = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, key, value)
    {
        const char *name = json_string_value(value);
        if (!name || name[0] == '\0') return status_fail(QLFT_EFORMAT, "%s: tensor %s: is given no file name", path, key);
        if (strpbrk(name, "/\\") || strstr(name, ".."))
            return status_fail(QLFT_EFORMAT, "%s: tensor %s: \"%s\" is refused: a shard must lie beside the index", path, key, name);
        names[used++] = name;
    }
    qsort(names, used, sizeof *names, compare_strings);
    for (size_t i = 0; i < used; i++)
        if (i == 0 || strcmp(names[i], names[distinct - 1]) != 0) names[distinct++] = names[i];
    *count = (int)distinct;
    return QLFT_OK;
}

static qlft_status add_shards(safetensors *s, const char *const *names, int count, const char *path)
{
    char *folder = path_folder(path);
    s->files = calloc((size_t)count, sizeof *s->files);
    qlft_status status = folder && s->files ? QLFT_OK : status_fail(QLFT_ENOMEM, "%s: out of memory", path);
    for (int i = 0; i < count && status == QLFT_OK; i++) {
        char *shard = path_join(folder, names[i]);
        if (!shard)
            status = status_fail(QLFT_ENOMEM, "%s: out of memory", path);
        else if (!file_exists(shard))
            status = status_fail(QLFT_EIO, "%s: the shard %s that it names is missing", path, names[i]);
        else
            status = file_map_open(&s->files[i], shard);
        if (status == QLFT_OK) s->file_count++;
        free(shard);
    }
    for (int i = 0; i < count && status == QLFT_OK; i++) status = add_file(s, i);
    free(folder);
    return status;
}

/* Keeps the tensors that lie where the index says, and finds those that don't. */
static qlft_status keep_mapped(safetensors *s, const json_t *map, const char *const *names, const char *path)
{
    int kept = 0;
    for (int i = 0; i < s->count; i++) {
        const char *shard = json_string_value(json_object_get(map, s->entries[i].name));
        if (shard && strcmp(shard, names[s->entries[i].file]) == 0)
            s->entries[kept++] = s->entries[i];
        else
            free(s->entries[i].name);
    }
    s->count = kept;
    if (kept > 0) qsort(s->entries, (size_t)kept, sizeof *s->entries, compare_entries);
    const char *name;
    json_t *shard;
    json_object_foreach((json_t *)(uintptr_t)map, name, shard)
    {
        if (!safetensors_find(s, name))
            return status_fail(QLFT_EFORMAT, "%s: tensor %s: is not in the shard %s, where it should be", path, name, json_string_value(shard));
    }
    return QLFT_OK;
}

static qlft_status open_index(safetensors *s, const char *path)
{
    char *text = NULL;
    size_t bytes;
    json_t *index = NULL;
    const char **names = NULL;
    int count = 0;
    QLFT_TRY(file_read_text(&text, &bytes, path, header_limit_bytes));
    qlft_status status = parse_strict(&index, text, bytes, path);
    const json_t *map = json_object_get(index, "weight_map");
    if (status == QLFT_OK) status = list_shards(&names, &count, map, path);
    if (status == QLFT_OK) status = add_shards(s, names, count, path);
    if (status == QLFT_OK) status = keep_mapped(s, map, names, path);
    free(names);
    json_decref(index);
    free(text);
    return status;
}

static qlft_status open_single(safetensors *s, const char *path)
{
    s->files = calloc(1, sizeof *s->files);
    if (!s->files) return status_fail(QLFT_ENOMEM, "%s: out of memory", path);
    QLFT_TRY(file_map_open(&s->files[0], path));
    s->file_count = 1;
    QLFT_TRY(add_file(s, 0));
    if (s->count > 0) qsort(s->entries, (size_t)s->count, sizeof *s->entries, compare_entries);
    return QLFT_OK;
}

qlft_status safetensors_open(safetensors *out, const char *path)
{
    static const char index_end[] = ".json";
    memset(out, 0, sizeof *out);
    size_t length = strlen(path);
    bool index = length >= sizeof index_end - 1 && strcmp(path + length - (sizeof index_end - 1), index_end) == 0;
    qlft_status status = index ? open_index(out, path) : open_single(out, path);
    if (status != QLFT_OK) safetensors_close(out);
    return status;
}

void safetensors_close(safetensors *s)
{
    for (int i = 0; i < s->count; i++) free(s->entries[i].name);
    free(s->entries);
    for (int i = 0; i < s->file_count; i++) file_map_close(&s->files[i]);
    free(s->files);
    for (char **text = s->metadata; text && *text; text++) free(*text);
    free(s->metadata);
    memset(s, 0, sizeof *s);
}

const safetensors_entry *safetensors_find(const safetensors *s, const char *name)
{
    safetensors_entry key = {.name = (char *)(uintptr_t)name};
    return s->count > 0 ? bsearch(&key, s->entries, (size_t)s->count, sizeof key, compare_entries) : NULL;
}

const char *safetensors_metadata(const safetensors *s, const char *key)
{
    for (char **at = s->metadata; at && at[0]; at += 2)
        if (strcmp(at[0], key) == 0) return at[1];
    return NULL;
}

void safetensors_forget(const safetensors *s, const safetensors_entry *entry)
{
    const file_map *file = &s->files[entry->file];
    file_map_forget(file, (size_t)((const unsigned char *)entry->data - file->data), entry->bytes);
}

/* ---- writing ---- */

static int compare_outputs(const void *left, const void *right)
{
    const safetensors_out *a = *(const safetensors_out *const *)left, *b = *(const safetensors_out *const *)right;
    /* The types are listed in the reference's order, which is by size. */
    if (a->type != b->type) return a->type > b->type ? -1 : 1;
    return strcmp(a->name, b->name);
}

static qlft_status output_bytes(size_t *out, const safetensors_out *t, const char *path)
{
    int64_t bytes = (int64_t)safetensors_type_bytes(t->type);
    bool bad = t->rank < 0 || t->rank > SAFETENSORS_MAX_RANK;
    for (int i = 0; i < t->rank && !bad; i++) bad = t->shape[i] < 0 || __builtin_mul_overflow(bytes, t->shape[i], &bytes);
    if (bad || (bytes > 0 && !t->data)) return status_fail(QLFT_EARG, "%s: tensor %s: cannot be written: bad shape or no data", path, t->name);
    *out = (size_t)bytes;
    return QLFT_OK;
}

/* {"dtype": ..., "shape": [...], "data_offsets": [from, to]} */
static json_t *describe(const safetensors_out *t, size_t from, size_t to)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->rank; i++) json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", safetensors_type_name(t->type), "shape", shape, "data_offsets", (json_int_t)from, (json_int_t)to);
}

/* The header with its spaces; *bytes is a multiple of 8. */
static qlft_status make_header(char **out, size_t *bytes, const safetensors_out *const *order, int count, const char *const *metadata, const char *path)
{
    *out = NULL;
    char *text = NULL;
    json_t *header = json_object();
    qlft_status status = QLFT_OK;
    size_t at = 0, size = 0;
    if (metadata) {
        json_t *pairs = json_object();
        bool failed = false;
        for (const char *const *pair = metadata; pair[0]; pair += 2) failed |= json_object_set_new(pairs, pair[0], json_string(pair[1])) != 0;
        if (json_object_set_new(header, "__metadata__", pairs) != 0 || failed) {
            status = status_fail(QLFT_ENOMEM, "%s: out of memory for its metadata, or it is not UTF-8", path);
            goto done;
        }
    }
    for (int i = 0; i < count; i++) {
        const char *name = order[i]->name;
        if (json_object_get(header, name) || strcmp(name, "__metadata__") == 0) {
            status = status_fail(QLFT_EARG, "%s: tensor %s: the name stands twice, or is reserved", path, name);
            goto done;
        }
        status = output_bytes(&size, order[i], path);
        if (status != QLFT_OK) goto done;
        if (json_object_set_new(header, name, describe(order[i], at, at + size)) != 0) {
            status = status_fail(QLFT_ENOMEM, "%s: tensor %s: out of memory, or the name is not UTF-8", path, name);
            goto done;
        }
        at += size;
    }
    text = json_dumps(header, JSON_COMPACT);
    size_t length = text ? strlen(text) : 0, padded = (length + 7) / 8 * 8;
    *out = text ? malloc(padded + 1) : NULL;
    if (!*out) {
        status = status_fail(QLFT_ENOMEM, "%s: out of memory", path);
        goto done;
    }
    memset(*out, ' ', padded);
    memcpy(*out, text, length);
    *bytes = padded;
done:
    free(text);
    json_decref(header);
    return status;
}

static void put_hashed(file_writer *w, file_hash *hash, const void *data, size_t bytes)
{
    file_writer_put(w, data, bytes);
    if (hash) file_hash_put(hash, data, bytes);
}

qlft_status safetensors_write(const char *path, const safetensors_out *tensors, int count, const char *const *metadata, char sha256[SHA256_HEX_BYTES])
{
    char *header = NULL;
    size_t header_bytes = 0;
    file_hash *hash = NULL;
    file_writer w = {.handle = -1};
    if (sha256) sha256[0] = '\0';
    const safetensors_out **order = calloc((size_t)count + 1, sizeof *order);
    if (!order) return status_fail(QLFT_ENOMEM, "%s: out of memory", path);
    for (int i = 0; i < count; i++) order[i] = &tensors[i];
    qsort(order, (size_t)count, sizeof *order, compare_outputs);
    qlft_status status = make_header(&header, &header_bytes, order, count, metadata, path);
    if (status == QLFT_OK && sha256) status = file_hash_open(&hash);
    if (status == QLFT_OK) status = file_writer_open(&w, path);
    if (status != QLFT_OK) goto done;
    uint64_t length = header_bytes;
    put_hashed(&w, hash, &length, sizeof length);
    put_hashed(&w, hash, header, header_bytes);
    for (int i = 0; i < count; i++) {
        size_t bytes = 0;
        output_bytes(&bytes, order[i], path); /* did not fail above */
        put_hashed(&w, hash, order[i]->data, bytes);
    }
    status = file_writer_commit(&w);
done:
    if (hash) {
        char hex[SHA256_HEX_BYTES];
        file_hash_end(hash, hex);
        if (status == QLFT_OK) memcpy(sha256, hex, sizeof hex);
    }
    file_writer_abandon(&w);
    free(header);
    free(order);
    return status;
}
