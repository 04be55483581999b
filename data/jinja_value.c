/* The machine's arena and limits; values and what Python does with any two of them. */
#include "data/jinja_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the machine ---- */
struct jinja_chunk {
    struct jinja_chunk *next;
    size_t bytes, used;
    max_align_t data[];
};
enum { CHUNK_BYTES = 16384 };

void *jinja_take(jinja_machine *m, size_t bytes)
{
    if (bytes > m->taken_limit - m->taken) {
        jinja_fail(m, QLFT_EFORMAT, "the template needs more than %zu MiB of working memory", m->taken_limit >> 20);
    }
    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct jinja_chunk *chunk = m->chunks;
    if (!chunk || bytes > chunk->bytes - chunk->used) {
        size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        chunk = calloc(1, sizeof *chunk + room);
        if (!chunk) jinja_fail(m, QLFT_ENOMEM, "no memory for %zu bytes", room);
        chunk->bytes = room;
        if (m->chunks && bytes > CHUNK_BYTES) { /* a large block does not end the use of the chunk at hand */
            chunk->next = m->chunks->next;
            m->chunks->next = chunk;
        } else {
            chunk->next = m->chunks;
            m->chunks = chunk;
        }
    }
    void *at = (char *)chunk->data + chunk->used;
    chunk->used += bytes;
    m->taken += bytes < m->taken_limit - m->taken ? bytes : m->taken_limit - m->taken;
    return at;
}

void jinja_release(jinja_machine *m)
{
    while (m->chunks) {
        struct jinja_chunk *next = m->chunks->next;
        free(m->chunks);
        m->chunks = next;
    }
}

/* The text of the line at hand, cut to what is readable in a message. */
static int line_text(const jinja_machine *m, const char **out)
{
    enum { LINE_SHOWN = 160 };
    const char *at = m->source, *end = m->source + m->source_bytes;
    for (int line = 1; line < m->line && at < end; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    size_t bytes = (size_t)((newline ? newline : end) - at);
    if (bytes > LINE_SHOWN) {
        bytes = LINE_SHOWN;
        while (bytes > 0 && ((unsigned char)at[bytes] & 0xc0) == 0x80) bytes--;
    }
    *out = at;
    return (int)bytes;
}

static void fail_list(jinja_machine *m, qlft_status code, const char *before, const char *format, va_list args)
{
    char message[1024];
    vsnprintf(message, sizeof message, format, args);
    const char *text;
    int bytes = line_text(m, &text);
    m->status = status_fail(code, "%s line %d: %s%s, in: %.*s", m->what, m->line, before, message, bytes, text);
}

void jinja_fail(jinja_machine *m, qlft_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_list(m, code, "", format, args);
    va_end(args);
    longjmp(m->leave, 1);
}

void jinja_unsupported(jinja_machine *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_list(m, QLFT_EUNSUPPORTED, "this template engine does not support ", format, args);
    va_end(args);
    longjmp(m->leave, 1);
}

void jinja_spend(jinja_machine *m, size_t work)
{
    if (work > m->step_limit - m->steps) jinja_fail(m, QLFT_EFORMAT, "the template takes more than %zu steps", m->step_limit);
    m->steps += work;
}

void jinja_enter(jinja_machine *m)
{
    if (m->nested >= m->nest_limit) jinja_fail(m, QLFT_EFORMAT, "nested more than %d deep", m->nest_limit);
    m->nested++;
}

void jinja_leave(jinja_machine *m)
{
    m->nested--;
}

/* ---- text ---- */
const jinja_text *jinja_text_of(jinja_machine *m, const char *data, size_t bytes, uint16_t mark)
{
    jinja_text *t = jinja_take(m, sizeof *t);
    char *copy = jinja_take(m, bytes + 1);
    if (bytes) memcpy(copy, data, bytes);
    t->data = copy;
    t->bytes = bytes;
    if (mark) {
        jinja_run *run = jinja_take(m, sizeof *run);
        run->end = bytes;
        run->mark = mark;
        t->runs = run;
        t->run_count = 1;
    }
    return t;
}

bool jinja_text_is(const jinja_text *t, const char *word)
{
    return t->bytes == strlen(word) && memcmp(t->data, word, t->bytes) == 0;
}

bool jinja_text_equal(const jinja_text *a, const jinja_text *b)
{
    return a == b || (a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0);
}

/* The order of UTF-8 bytes is the order of code points, which is Python's. */
int jinja_text_compare(const jinja_text *a, const jinja_text *b)
{
    int order = memcmp(a->data, b->data, a->bytes < b->bytes ? a->bytes : b->bytes);
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

uint16_t jinja_mark_at(const jinja_text *t, size_t byte)
{
    size_t low = 0, high = t->run_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->runs[middle].end > byte) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low < t->run_count ? t->runs[low].mark : 0;
}

/* ---- making values ---- */
jinja_value jinja_undefined(jinja_machine *m, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    jinja_value v = {.type = JINJA_UNDEFINED, .as = {.text = jinja_text_of(m, message, strlen(message), 0)}};
    return v;
}

jinja_value jinja_none(void)
{
    return (jinja_value){.type = JINJA_NONE};
}

jinja_value jinja_bool(bool truth)
{
    return (jinja_value){.type = JINJA_BOOL, .as = {.truth = truth}};
}

jinja_value jinja_int(int64_t integer)
{
    return (jinja_value){.type = JINJA_INT, .as = {.integer = integer}};
}

jinja_value jinja_float(double number)
{
    return (jinja_value){.type = JINJA_FLOAT, .as = {.number = number}};
}

jinja_value jinja_string(const jinja_text *text)
{
    return (jinja_value){.type = JINJA_STRING, .as = {.text = text}};
}

jinja_value jinja_words(jinja_machine *m, const char *text)
{
    return jinja_string(jinja_text_of(m, text, strlen(text), 0));
}

jinja_value jinja_list_new(jinja_machine *m, jinja_type type, const char *name)
{
    jinja_value v = {.type = type, .as = {.list = jinja_take(m, sizeof(jinja_list))}};
    v.as.list->name = name;
    return v;
}

/* Grows an array of the arena: the old one stays until the arena goes. */
static void *grown(jinja_machine *m, const void *old, size_t count, size_t capacity, size_t item_bytes)
{
    void *now = jinja_take(m, capacity * item_bytes);
    if (count) memcpy(now, old, count * item_bytes);
    return now;
}

void jinja_list_add(jinja_machine *m, jinja_value list, jinja_value item)
{
    jinja_list *l = list.as.list;
    if (l->count == l->capacity) {
        l->capacity = l->capacity ? 2 * l->capacity : 4;
        l->items = grown(m, l->items, l->count, l->capacity, sizeof *l->items);
    }
    l->items[l->count++] = item;
}

jinja_value jinja_pair(jinja_machine *m, jinja_value a, jinja_value b)
{
    jinja_value pair = jinja_list_new(m, JINJA_TUPLE, NULL);
    jinja_list_add(m, pair, a);
    jinja_list_add(m, pair, b);
    return pair;
}

jinja_value jinja_dict_new(jinja_machine *m)
{
    return (jinja_value){.type = JINJA_DICT, .as = {.dict = jinja_take(m, sizeof(jinja_dict))}};
}

void jinja_dict_add(jinja_machine *m, jinja_dict *d, jinja_value key, jinja_value value)
{
    if (d->count == d->capacity) {
        d->capacity = d->capacity ? 2 * d->capacity : 4;
        d->keys = grown(m, d->keys, d->count, d->capacity, sizeof *d->keys);
        d->values = grown(m, d->values, d->count, d->capacity, sizeof *d->values);
    }
    d->keys[d->count] = key;
    d->values[d->count++] = value;
}

const jinja_value *jinja_dict_find(jinja_machine *m, const jinja_dict *d, jinja_value key)
{
    if (key.type == JINJA_LIST || key.type == JINJA_DICT) jinja_fail(m, QLFT_EFORMAT, "unhashable type: '%s'", jinja_type_name(key));
    jinja_spend(m, d->count / 64);
    for (size_t i = 0; i < d->count; i++) {
        if (key.type == JINJA_STRING ? d->keys[i].type == JINJA_STRING && jinja_text_equal(d->keys[i].as.text, key.as.text) : jinja_equal(m, d->keys[i], key)) {
            return &d->values[i];
        }
    }
    return NULL;
}

void jinja_dict_set(jinja_machine *m, jinja_dict *d, jinja_value key, jinja_value value)
{
    const jinja_value *found = jinja_dict_find(m, d, key);
    if (found) {
        d->values[found - d->values] = value;
    } else {
        jinja_dict_add(m, d, key, value);
    }
}

/* ---- what values are ---- */
static const char *const type_names[JINJA_TYPES] = {"missing", "Undefined", "NoneType",  "bool", "int",       "float",       "str",   "list",   "tuple",
                                                    "range",   "dict_view", "generator", "dict", "Namespace", "LoopContext", "Macro", "method", "function"};

const char *jinja_type_name(jinja_value v)
{
    if ((v.type == JINJA_VIEW || v.type == JINJA_ITERATOR) && v.as.list->name) return v.as.list->name;
    return type_names[v.type];
}

const char *jinja_object_name(jinja_machine *m, jinja_value v)
{
    if (v.type == JINJA_NONE) return "None";
    if (v.type == JINJA_NAMESPACE) return "jinja2.utils.Namespace object";
    if (v.type == JINJA_LOOP) return "jinja2.runtime.LoopContext object";
    if (v.type == JINJA_MACRO) return "jinja2.runtime.Macro object";
    const char *name = jinja_type_name(v);
    size_t bytes = strlen(name) + sizeof " object";
    char *text = jinja_take(m, bytes);
    snprintf(text, bytes, "%s object", name);
    return text;
}

bool jinja_is_list(jinja_value v)
{
    return v.type >= JINJA_LIST && v.type <= JINJA_ITERATOR;
}

bool jinja_is_number(jinja_value v)
{
    return v.type == JINJA_BOOL || v.type == JINJA_INT || v.type == JINJA_FLOAT;
}

double jinja_number(jinja_value v)
{
    return v.type == JINJA_FLOAT ? v.as.number : v.type == JINJA_INT ? (double)v.as.integer : v.as.truth;
}

static int64_t whole(jinja_value v)
{
    return v.type == JINJA_BOOL ? v.as.truth : v.as.integer;
}

bool jinja_truth(jinja_machine *m, jinja_value v)
{
    (void)m;
    switch (v.type) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE: return false;
    case JINJA_BOOL: return v.as.truth;
    case JINJA_INT: return v.as.integer != 0;
    case JINJA_FLOAT: return v.as.number != 0;
    case JINJA_STRING: return v.as.text->bytes > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_VIEW: return v.as.list->count > 0;
    case JINJA_DICT: return v.as.dict->count > 0;
    default: return true;
    }
}

static bool equal_lists(jinja_machine *m, const jinja_list *a, const jinja_list *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        if (!jinja_equal(m, a->items[i], b->items[i])) return false;
    }
    return true;
}

static bool equal_dicts(jinja_machine *m, const jinja_dict *a, const jinja_dict *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        const jinja_value *other = jinja_dict_find(m, b, a->keys[i]);
        if (!other || !jinja_equal(m, a->values[i], *other)) return false;
    }
    return true;
}

/* An integer against a double, exactly: the double of a large integer may be another number. */
static int order_mixed(int64_t a, double b)
{
    if (b != b) return 2;
    if (b >= 9223372036854775808.0) return -1;
    if (b < -9223372036854775808.0) return 1;
    int64_t floor_b = (int64_t)b;
    if (a != floor_b) return a < floor_b ? -1 : 1;
    double rest = b - (double)floor_b;
    return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

static int order_numbers(jinja_value a, jinja_value b)
{
    if (a.type == JINJA_FLOAT && b.type == JINJA_FLOAT) {
        double x = a.as.number, y = b.as.number;
        return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
    }
    if (b.type == JINJA_FLOAT) return order_mixed(whole(a), b.as.number);
    if (a.type == JINJA_FLOAT) {
        int order = order_mixed(whole(b), a.as.number);
        return order == 2 ? 2 : -order;
    }
    int64_t x = whole(a), y = whole(b);
    return (x > y) - (x < y);
}

bool jinja_equal(jinja_machine *m, jinja_value a, jinja_value b)
{
    jinja_spend(m, 1);
    if (jinja_is_number(a) && jinja_is_number(b)) return order_numbers(a, b) == 0;
    if (a.type != b.type) return false;
    bool same = false;
    jinja_enter(m);
    switch (a.type) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE: same = true; break;
    case JINJA_STRING:
        jinja_spend(m, a.as.text->bytes == b.as.text->bytes ? a.as.text->bytes / 64 : 0);
        same = jinja_text_equal(a.as.text, b.as.text);
        break;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE: same = equal_lists(m, a.as.list, b.as.list); break;
    case JINJA_DICT: same = a.as.dict == b.as.dict || equal_dicts(m, a.as.dict, b.as.dict); break;
    case JINJA_VIEW: jinja_unsupported(m, "comparing a %s", jinja_type_name(a));
    case JINJA_METHOD: same = a.as.bound == b.as.bound; break;
    default: same = a.as.list == b.as.list; break; /* identity: one pointer of the union is like another */
    }
    jinja_leave(m);
    return same;
}

int jinja_order(jinja_machine *m, jinja_value a, jinja_value b, const char *operation)
{
    jinja_spend(m, 1);
    if (jinja_is_number(a) && jinja_is_number(b)) return order_numbers(a, b);
    if (a.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "%s", a.as.text->data);
    if (b.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "%s", b.as.text->data);
    if (a.type == JINJA_STRING && b.type == JINJA_STRING) {
        int order = jinja_text_compare(a.as.text, b.as.text);
        return (order > 0) - (order < 0);
    }
    if (a.type == b.type && (a.type == JINJA_LIST || a.type == JINJA_TUPLE)) {
        const jinja_list *x = a.as.list, *y = b.as.list;
        jinja_enter(m);
        int order = (x->count > y->count) - (x->count < y->count);
        for (size_t i = 0; i < x->count && i < y->count; i++) {
            if (jinja_equal(m, x->items[i], y->items[i])) continue;
            order = jinja_order(m, x->items[i], y->items[i], operation);
            break;
        }
        jinja_leave(m);
        return order;
    }
    jinja_fail(m, QLFT_EFORMAT, "'%s' not supported between instances of '%s' and '%s'", operation, jinja_type_name(a), jinja_type_name(b));
}

bool jinja_contains(jinja_machine *m, jinja_value container, jinja_value item)
{
    if (container.type == JINJA_STRING) {
        if (item.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "'in <string>' requires string as left operand, not Undefined");
        if (item.type != JINJA_STRING) jinja_fail(m, QLFT_EFORMAT, "'in <string>' requires string as left operand, not %s", jinja_type_name(item));
        return jinja_search(container.as.text, 0, item.as.text) != NULL;
    }
    if (container.type == JINJA_DICT) return jinja_dict_find(m, container.as.dict, item) != NULL;
    if (container.type == JINJA_UNDEFINED) return false;
    if (!jinja_is_list(container)) jinja_fail(m, QLFT_EFORMAT, "argument of type '%s' is not iterable", jinja_type_name(container));
    const jinja_list *l = jinja_walk(m, container);
    for (size_t i = 0; i < l->count; i++) {
        if (jinja_equal(m, l->items[i], item)) return true;
    }
    return false;
}

size_t jinja_length(jinja_machine *m, jinja_value v)
{
    switch (v.type) {
    case JINJA_UNDEFINED: return 0;
    case JINJA_STRING: jinja_spend(m, v.as.text->bytes / 64); return jinja_code_count(v.as.text);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_VIEW: return v.as.list->count;
    case JINJA_DICT: return v.as.dict->count;
    default: jinja_fail(m, QLFT_EFORMAT, "object of type '%s' has no len()", jinja_type_name(v));
    }
}

jinja_list *jinja_walk(jinja_machine *m, jinja_value v)
{
    if (jinja_is_list(v)) {
        jinja_list *l = v.as.list;
        if (v.type != JINJA_ITERATOR) return l;
        jinja_list *rest = jinja_take(m, sizeof *rest);
        if (l->pending) {
            const jinja_pending *p = l->pending;
            l->pending = NULL;
            l->spent = true;
            jinja_enter(m);
            *rest = *p->filter->call(m, p->self, p->given, &p->raw).as.list;
            jinja_leave(m);
        } else if (!l->spent) {
            rest->items = l->items;
            rest->count = l->count;
        }
        l->spent = true;
        return rest;
    }
    jinja_value list = jinja_list_new(m, JINJA_LIST, NULL);
    if (v.type == JINJA_UNDEFINED) return list.as.list;
    if (v.type == JINJA_DICT) {
        for (size_t i = 0; i < v.as.dict->count; i++) jinja_list_add(m, list, v.as.dict->keys[i]);
        return list.as.list;
    }
    if (v.type != JINJA_STRING) jinja_fail(m, QLFT_EFORMAT, "'%s' object is not iterable", jinja_type_name(v));
    const jinja_text *t = v.as.text;
    jinja_spend(m, t->bytes);
    for (size_t at = 0, next; at < t->bytes; at = next) {
        jinja_code_at(t, at, &next);
        jinja_list_add(m, list, jinja_string(jinja_part(m, t, at, next)));
    }
    return list.as.list;
}
