#include "core/json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"

enum { PARSE_FLAGS = JSON_ALLOW_NUL | JSON_DECODE_ANY };

/* ---- parsing ---- */

/* Copies the text with ".0" behind each integer of more digits than 64 bits hold, which makes it a real. */
static char *widen_integers(const char *text, size_t bytes, size_t *out_bytes)
{
    char *copy = malloc(bytes + bytes / 19 * 2 + 3);
    if (!copy) return NULL;
    size_t used = 0;
    bool inside = false;
    for (size_t at = 0; at < bytes;) {
        char c = text[at];
        if (inside || !isdigit((unsigned char)c)) {
            if (inside && c == '\\' && at + 1 < bytes)
                copy[used++] = text[at++];
            else if (c == '"')
                inside = !inside;
            copy[used++] = text[at++];
            continue;
        }
        size_t end = at;
        while (end < bytes && isdigit((unsigned char)text[end])) end++;
        bool tail = end < bytes && (text[end] == '.' || text[end] == 'e' || text[end] == 'E');
        bool behind_point = at > 0 && strchr(".eE+", text[at - 1]);
        bool exponent = at > 1 && text[at - 1] == '-' && strchr("eE", text[at - 2]);
        memcpy(copy + used, text + at, end - at);
        used += end - at;
        bool wide = end - at > 19 || (end - at == 19 && memcmp(text + at, "9223372036854775807", 19) > 0);
        if (wide && !tail && !behind_point && !exponent) {
            copy[used++] = '.';
            copy[used++] = '0';
        }
        at = end;
    }
    *out_bytes = used;
    return copy;
}

qlft_status json_parse(json_t **out, const char *text, size_t bytes, const char *what)
{
    json_error_t error;
    *out = json_loadb(text, bytes, PARSE_FLAGS, &error);
    if (*out) return QLFT_OK;
    if (json_error_code(&error) == json_error_numeric_overflow) {
        size_t widened_bytes;
        char *widened = widen_integers(text, bytes, &widened_bytes);
        if (!widened) return status_fail(QLFT_ENOMEM, "%s: out of memory", what);
        json_error_t again;
        *out = json_loadb(widened, widened_bytes, PARSE_FLAGS, &again);
        free(widened);
        if (*out) return QLFT_OK;
        /* A real that is too large; else something behind the integer is wrong. */
        if (json_error_code(&again) != json_error_numeric_overflow) error = again;
    }
    if (json_error_code(&error) == json_error_out_of_memory) return status_fail(QLFT_ENOMEM, "%s: out of memory", what);
    return status_fail(QLFT_EFORMAT, "%s: line %d, column %d: not valid JSON: %s", what, error.line, error.column, error.text);
}

qlft_status json_read_file(json_t **out, const char *path, size_t limit_bytes)
{
    char *text = NULL;
    size_t bytes;
    *out = NULL;
    QLFT_TRY(file_read_text(&text, &bytes, path, limit_bytes));
    /* Editors of some systems put a byte order mark first; it says nothing in UTF-8. */
    size_t skip = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    qlft_status status = json_parse(out, text + skip, bytes - skip, path);
    free(text);
    return status;
}

/* ---- printing ---- */

typedef struct printer {
    char *text;
    size_t used, capacity;
    int indent;
    bool failed;
} printer;

static void print_bytes(printer *p, const char *data, size_t bytes)
{
    if (p->failed) return;
    if (bytes >= p->capacity - p->used) {
        size_t capacity = (p->capacity + bytes) * 2 + 256;
        char *grown = realloc(p->text, capacity);
        if (!grown) {
            p->failed = true;
            return;
        }
        p->text = grown;
        p->capacity = capacity;
    }
    memcpy(p->text + p->used, data, bytes);
    p->used += bytes;
    p->text[p->used] = '\0';
}

static void print_break(printer *p, int depth)
{
    if (p->indent == 0) return;
    print_bytes(p, "\n", 1);
    for (int i = 0; i < depth * p->indent; i++) print_bytes(p, " ", 1);
}

static int append(const char *data, size_t bytes, void *payload)
{
    printer *p = payload;
    print_bytes(p, data, bytes);
    return p->failed ? -1 : 0;
}

static void print_scalar(printer *p, const json_t *value, size_t flags)
{
    if (json_dump_callback(value, append, p, JSON_ENCODE_ANY | flags) != 0) p->failed = true;
}

/* jansson prints 17 digits, so that 0.05 becomes 0.050000000000000003. */
static void print_real(printer *p, const json_t *value)
{
    double wanted = json_real_value(value);
    for (size_t digits = 15; digits <= 17 && !p->failed; digits++) {
        size_t start = p->used;
        print_scalar(p, value, JSON_REAL_PRECISION(digits));
        /* The decimal point is '.' whatever the locale, so the text is read back by jansson too. */
        json_t *read = p->failed ? NULL : json_loads(p->text + start, JSON_DECODE_ANY, NULL);
        double got = json_real_value(read);
        json_decref(read);
        if (digits == 17 || got == wanted) return;
        p->used = start;
    }
}

static void print_value(printer *p, const json_t *value, int depth)
{
    bool object = json_is_object(value);
    size_t count = object ? json_object_size(value) : json_array_size(value);
    if (json_is_real(value)) {
        print_real(p, value);
    } else if (!object && !json_is_array(value)) {
        print_scalar(p, value, 0);
    } else if (count == 0) {
        print_bytes(p, object ? "{}" : "[]", 2);
    } else {
        print_bytes(p, object ? "{" : "[", 1);
        /* jansson iterates in insertion order, and does not change the object. */
        void *at = object ? json_object_iter((json_t *)(uintptr_t)value) : NULL;
        for (size_t i = 0; i < count && !p->failed; i++) {
            if (i > 0) print_bytes(p, p->indent ? "," : ", ", p->indent ? 1 : 2);
            print_break(p, depth + 1);
            if (object) {
                json_t *key = json_stringn(json_object_iter_key(at), json_object_iter_key_len(at));
                print_scalar(p, key, 0);
                json_decref(key);
                print_bytes(p, ": ", 2);
                print_value(p, json_object_iter_value(at), depth + 1);
                at = json_object_iter_next((json_t *)(uintptr_t)value, at);
            } else {
                print_value(p, json_array_get(value, i), depth + 1);
            }
        }
        print_break(p, depth);
        print_bytes(p, object ? "}" : "]", 1);
    }
}

qlft_status json_print(char **out, const json_t *value, int indent)
{
    printer p = {.indent = indent};
    print_value(&p, value, 0);
    *out = p.failed ? NULL : p.text;
    if (!p.failed) return QLFT_OK;
    free(p.text);
    return status_fail(QLFT_ENOMEM, "a JSON value cannot be written: out of memory, or not UTF-8");
}

qlft_status json_write_file(const json_t *value, const char *path)
{
    char *text;
    qlft_status status = json_print(&text, value, 1);
    if (status != QLFT_OK) return status_prefix(status, "%s: ", path);
    file_writer w;
    status = file_writer_open(&w, path);
    if (status == QLFT_OK) {
        file_writer_put(&w, text, strlen(text));
        file_writer_put(&w, "\n", 1);
        status = file_writer_commit(&w);
    }
    free(text);
    return status;
}

/* ---- typed members ---- */

static const char *const type_names[] = {
    [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array", [JSON_STRING] = "a string", [JSON_INTEGER] = "an integer",
    [JSON_REAL] = "a real number", [JSON_TRUE] = "true",      [JSON_FALSE] = "false",     [JSON_NULL] = "null",
};

/* The member, or NULL if it is missing or null. */
static qlft_status member(const json_t **out, const json_t *object, const char *key, const char *what)
{
    *out = NULL;
    if (!json_is_object(object)) return status_fail(QLFT_EFORMAT, "%s: must be an object, with the key \"%s\"", what, key);
    const json_t *value = json_object_get(object, key);
    *out = json_is_null(value) ? NULL : value;
    return QLFT_OK;
}

static qlft_status wrong_type(const json_t *value, const char *key, const char *wanted, const char *what)
{
    return status_fail(QLFT_EFORMAT, "%s: \"%s\" must be %s and is %s", what, key, wanted, type_names[json_typeof(value)]);
}

qlft_status json_get_int(int64_t *out, const json_t *object, const char *key, int64_t missing, const char *what)
{
    const json_t *value;
    *out = missing;
    QLFT_TRY(member(&value, object, key, what));
    if (value && !json_is_integer(value)) return wrong_type(value, key, "an integer of at most 64 bits", what);
    if (value) *out = json_integer_value(value);
    return QLFT_OK;
}

qlft_status json_get_double(double *out, const json_t *object, const char *key, double missing, const char *what)
{
    const json_t *value;
    *out = missing;
    QLFT_TRY(member(&value, object, key, what));
    if (value && !json_is_number(value)) return wrong_type(value, key, "a number", what);
    if (value) *out = json_number_value(value);
    return QLFT_OK;
}

qlft_status json_get_bool(bool *out, const json_t *object, const char *key, bool missing, const char *what)
{
    const json_t *value;
    *out = missing;
    QLFT_TRY(member(&value, object, key, what));
    if (value && !json_is_boolean(value)) return wrong_type(value, key, "true or false", what);
    if (value) *out = json_is_true(value);
    return QLFT_OK;
}

qlft_status json_get_string(const char **out, const json_t *object, const char *key, const char *missing, const char *what)
{
    const json_t *value;
    *out = missing;
    QLFT_TRY(member(&value, object, key, what));
    if (value && !json_is_string(value)) return wrong_type(value, key, "a string", what);
    /* A NUL inside would cut the text for every caller that reads it as a C string. */
    if (value && strlen(json_string_value(value)) != json_string_length(value))
        return status_fail(QLFT_EFORMAT, "%s: \"%s\" holds the character U+0000", what, key);
    if (value) *out = json_string_value(value);
    return QLFT_OK;
}

json_t *json_string_or_null(const char *text)
{
    json_t *value = json_string(text);
    return value ? value : json_null();
}

json_t *json_real_or_null(double value)
{
    json_t *real = json_real(value); /* NULL for NaN and infinity */
    return real ? real : json_null();
}
