/* Values as text: Python's str and repr, and JSON both ways. */
#include "data/jinja_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

/* ---- numbers ---- */
/* The shortest digits that read back as the same double, laid out as Python's repr does. */
void jinja_format_double(char out[40], double number)
{
    if (isnan(number) || isinf(number)) {
        strcpy(out, isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
        return;
    }
    char text[40];
    for (int digits = 0; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    char digits[24];
    int count = 0;
    const char *at = text, *e = strchr(text, 'e');
    for (; at < e; at++) {
        if (*at >= '0' && *at <= '9' && count < 20) digits[count++] = *at;
    }
    while (count > 1 && digits[count - 1] == '0') count--;
    int exponent = atoi(e + 1);
    char *to = out;
    if (text[0] == '-') *to++ = '-';
    if (exponent < -4 || exponent >= 16) {
        *to++ = digits[0];
        if (count > 1) *to++ = '.';
        for (int i = 1; i < count; i++) *to++ = digits[i];
        sprintf(to, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0) {
        *to++ = '0';
        *to++ = '.';
        for (int i = -1; i > exponent; i--) *to++ = '0';
        for (int i = 0; i < count; i++) *to++ = digits[i];
        *to = 0;
        return;
    }
    for (int i = 0; i <= exponent; i++) *to++ = i < count ? digits[i] : '0';
    *to++ = '.';
    if (count <= exponent + 1) *to++ = '0';
    for (int i = exponent + 1; i < count; i++) *to++ = digits[i];
    *to = 0;
}

static void put_number(jinja_writer *w, jinja_value v)
{
    char text[40];
    if (v.type == JINJA_INT) {
        snprintf(text, sizeof text, "%lld", (long long)v.as.integer);
    } else {
        jinja_format_double(text, v.as.number);
    }
    jinja_put_words(w, text);
}

/* ---- repr ---- */
static bool is_printable(int32_t code)
{
    if (code == ' ') return true;
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
    }
}

static void put_quoted(jinja_writer *w, const jinja_text *t)
{
    bool single = memchr(t->data, '\'', t->bytes), twofold = memchr(t->data, '"', t->bytes);
    int32_t quote = single && !twofold ? '"' : '\'';
    jinja_put_code(w, quote, 0);
    if (t->bytes == 0) jinja_put_text(w, t, 0, 0);
    for (size_t at = 0, next; at < t->bytes; at = next) {
        int32_t code = jinja_code_at(t, at, &next);
        uint16_t mark = jinja_mark_at(t, at);
        char text[16] = "";
        if (code == quote || code == '\\') {
            snprintf(text, sizeof text, "\\%c", (char)code);
        } else if (code == '\n' || code == '\r' || code == '\t') {
            snprintf(text, sizeof text, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
        } else if (!is_printable(code)) {
            snprintf(text, sizeof text, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
        }
        if (text[0]) {
            jinja_put(w, text, strlen(text), mark);
        } else {
            jinja_put_text(w, t, at, next);
        }
    }
    jinja_put_code(w, quote, 0);
}

static void put_items(jinja_writer *w, const jinja_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        if (i) jinja_put_words(w, ", ");
        jinja_put_repr(w, l->items[i]);
    }
}

static void put_dict(jinja_writer *w, const jinja_dict *d)
{
    jinja_put_words(w, "{");
    for (size_t i = 0; i < d->count; i++) {
        if (i) jinja_put_words(w, ", ");
        jinja_put_repr(w, d->keys[i]);
        jinja_put_words(w, ": ");
        jinja_put_repr(w, d->values[i]);
    }
    jinja_put_words(w, "}");
}

static void put_range(jinja_writer *w, const jinja_list *l)
{
    char text[80];
    int length = snprintf(text, sizeof text, "range(%lld, %lld", (long long)l->from, (long long)l->to);
    if (l->step != 1) length += snprintf(text + length, sizeof text - (size_t)length, ", %lld", (long long)l->step);
    snprintf(text + length, sizeof text - (size_t)length, ")");
    jinja_put_words(w, text);
}

void jinja_put_repr(jinja_writer *w, jinja_value v)
{
    jinja_machine *m = w->m;
    jinja_spend(m, 1);
    jinja_enter(m);
    switch (v.type) {
    case JINJA_ABSENT: break;
    case JINJA_UNDEFINED: jinja_put_words(w, "Undefined"); break;
    case JINJA_NONE: jinja_put_words(w, "None"); break;
    case JINJA_BOOL: jinja_put_words(w, v.as.truth ? "True" : "False"); break;
    case JINJA_INT:
    case JINJA_FLOAT: put_number(w, v); break;
    case JINJA_STRING:
        if (v.as.text->safe) jinja_unsupported(m, "the repr of a string marked safe");
        put_quoted(w, v.as.text);
        break;
    case JINJA_LIST:
        jinja_put_words(w, "[");
        put_items(w, v.as.list);
        jinja_put_words(w, "]");
        break;
    case JINJA_TUPLE:
        jinja_put_words(w, "(");
        put_items(w, v.as.list);
        jinja_put_words(w, v.as.list->count == 1 ? ",)" : ")");
        break;
    case JINJA_VIEW:
        jinja_put_words(w, v.as.list->name);
        jinja_put_words(w, "([");
        put_items(w, v.as.list);
        jinja_put_words(w, "])");
        break;
    case JINJA_RANGE: put_range(w, v.as.list); break;
    case JINJA_DICT: put_dict(w, v.as.dict); break;
    case JINJA_NAMESPACE:
        jinja_put_words(w, "<Namespace ");
        put_dict(w, v.as.dict);
        jinja_put_words(w, ">");
        break;
    case JINJA_MACRO:
        jinja_put_words(w, "<Macro ");
        put_quoted(w, jinja_macro_name(v.as.macro));
        jinja_put_words(w, ">");
        break;
    default: jinja_unsupported(m, "printing a %s", jinja_type_name(v));
    }
    jinja_leave(m);
}

void jinja_put_str(jinja_writer *w, jinja_value v)
{
    if (v.type == JINJA_STRING) {
        jinja_put_text(w, v.as.text, 0, v.as.text->bytes);
    } else if (v.type != JINJA_UNDEFINED) {
        jinja_put_repr(w, v);
    }
}

const jinja_text *jinja_str(jinja_machine *m, jinja_value v)
{
    if (v.type == JINJA_STRING) return v.as.text;
    jinja_writer w = {.m = m};
    jinja_put_str(&w, v);
    return jinja_written(&w);
}

const char *jinja_repr(jinja_machine *m, jinja_value v)
{
    jinja_writer w = {.m = m};
    jinja_put_repr(&w, v);
    return jinja_written(&w)->data;
}

/* ---- to JSON, as json.dumps ---- */
typedef struct json_style {
    bool ascii, sort_keys;
    const jinja_text *indent; /* NULL: one line */
    const jinja_text *item, *key;
} json_style;

static void put_json_string(jinja_writer *w, const jinja_text *t, bool ascii)
{
    static const char short_names[128] = {['"'] = '"', ['\\'] = '\\', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't', ['\f'] = 'f', ['\b'] = 'b'};
    jinja_put_words(w, "\"");
    if (t->bytes == 0) jinja_put_text(w, t, 0, 0);
    for (size_t at = 0, next; at < t->bytes; at = next) {
        int32_t code = jinja_code_at(t, at, &next);
        char text[16] = "";
        if (code < 128 && short_names[code]) {
            snprintf(text, sizeof text, "\\%c", short_names[code]);
        } else if (code < 0x20 || (ascii && code > 0x7e && code < 0x10000)) {
            snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
        } else if (ascii && code >= 0x10000) {
            unsigned rest = (unsigned)code - 0x10000;
            snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
        }
        if (text[0]) {
            jinja_put(w, text, strlen(text), jinja_mark_at(t, at));
        } else {
            jinja_put_text(w, t, at, next);
        }
    }
    jinja_put_words(w, "\"");
}

static void put_json_scalar(jinja_writer *w, jinja_value v)
{
    if (v.type == JINJA_NONE) {
        jinja_put_words(w, "null");
    } else if (v.type == JINJA_BOOL) {
        jinja_put_words(w, v.as.truth ? "true" : "false");
    } else if (v.type == JINJA_FLOAT && !isfinite(v.as.number)) {
        jinja_put_words(w, isnan(v.as.number) ? "NaN" : v.as.number < 0 ? "-Infinity" : "Infinity");
    } else if (v.type == JINJA_INT || v.type == JINJA_FLOAT) {
        put_number(w, v);
    } else {
        jinja_fail(w->m, QLFT_EFORMAT, "Object of type %s is not JSON serializable", jinja_type_name(v));
    }
}

static void put_json_break(jinja_writer *w, const json_style *style, int level)
{
    if (!style->indent) return;
    jinja_put_words(w, "\n");
    for (int i = 0; i < level; i++) jinja_put_text(w, style->indent, 0, style->indent->bytes);
}

static void put_json(jinja_writer *w, jinja_value v, const json_style *style, int level);

static void put_json_dict(jinja_writer *w, const jinja_dict *d, const json_style *style, int level)
{
    jinja_machine *m = w->m;
    size_t *order = jinja_take(m, (d->count + 1) * sizeof *order);
    for (size_t i = 0; i < d->count; i++) {
        size_t at = i;
        for (; style->sort_keys && at > 0 && jinja_order(m, d->keys[i], d->keys[order[at - 1]], "<") == -1; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    for (size_t i = 0; i < d->count; i++) {
        jinja_value key = d->keys[order[i]];
        if (i) jinja_put_text(w, style->item, 0, style->item->bytes);
        put_json_break(w, style, level + 1);
        if (key.type == JINJA_STRING) {
            put_json_string(w, key.as.text, style->ascii);
        } else {
            if (jinja_is_list(key) || key.type > JINJA_ITERATOR) {
                jinja_fail(m, QLFT_EFORMAT, "keys must be str, int, float, bool or None, not %s", jinja_type_name(key));
            }
            jinja_put_words(w, "\"");
            put_json_scalar(w, key);
            jinja_put_words(w, "\"");
        }
        jinja_put_text(w, style->key, 0, style->key->bytes);
        put_json(w, d->values[order[i]], style, level + 1);
    }
}

static void put_json(jinja_writer *w, jinja_value v, const json_style *style, int level)
{
    jinja_spend(w->m, 1);
    jinja_enter(w->m);
    if (v.type == JINJA_STRING) {
        put_json_string(w, v.as.text, style->ascii);
    } else if (v.type == JINJA_LIST || v.type == JINJA_TUPLE) {
        jinja_put_words(w, "[");
        for (size_t i = 0; i < v.as.list->count; i++) {
            if (i) jinja_put_text(w, style->item, 0, style->item->bytes);
            put_json_break(w, style, level + 1);
            put_json(w, v.as.list->items[i], style, level + 1);
        }
        if (v.as.list->count) put_json_break(w, style, level);
        jinja_put_words(w, "]");
    } else if (v.type == JINJA_DICT) {
        jinja_put_words(w, "{");
        put_json_dict(w, v.as.dict, style, level);
        if (v.as.dict->count) put_json_break(w, style, level);
        jinja_put_words(w, "}");
    } else {
        put_json_scalar(w, v);
    }
    jinja_leave(w->m);
}

jinja_value jinja_to_json(jinja_machine *m, jinja_value v, bool ascii, jinja_value indent, jinja_value separators, bool sort_keys)
{
    json_style style = {.ascii = ascii, .sort_keys = sort_keys};
    if (indent.type == JINJA_INT || indent.type == JINJA_BOOL) {
        int64_t count = indent.type == JINJA_INT ? indent.as.integer : indent.as.truth;
        if (count > 1000) jinja_fail(m, QLFT_EFORMAT, "an indent of %lld is too large", (long long)count);
        jinja_writer blank = {.m = m};
        for (int64_t i = 0; i < count; i++) jinja_put_words(&blank, " ");
        style.indent = jinja_written(&blank);
    } else if (indent.type == JINJA_STRING) {
        style.indent = indent.as.text;
    } else if (indent.type != JINJA_NONE && indent.type != JINJA_ABSENT) {
        jinja_fail(m, QLFT_EFORMAT, "tojson: indent must be a number or a string, not %s", jinja_type_name(indent));
    }
    style.item = jinja_words(m, style.indent ? "," : ", ").as.text;
    style.key = jinja_words(m, ": ").as.text;
    if (separators.type != JINJA_NONE && separators.type != JINJA_ABSENT) {
        const jinja_list *pair = separators.type == JINJA_LIST || separators.type == JINJA_TUPLE ? separators.as.list : NULL;
        if (!pair || pair->count != 2 || pair->items[0].type != JINJA_STRING || pair->items[1].type != JINJA_STRING) {
            jinja_fail(m, QLFT_EFORMAT, "tojson: separators must be two strings");
        }
        style.item = pair->items[0].as.text;
        style.key = pair->items[1].as.text;
    }
    jinja_writer w = {.m = m};
    put_json(&w, v, &style, 0);
    return jinja_written_value(&w);
}

/* ---- from JSON ---- */
static uint16_t mark_of(const jinja_machine *m, const json_t *string)
{
    for (size_t i = 0; i < m->origin_count; i++) {
        if (m->origins[i].string == string) return m->origins[i].mark;
    }
    return 0;
}

jinja_value jinja_from_json(jinja_machine *m, const json_t *j)
{
    jinja_value v = jinja_none();
    jinja_enter(m);
    if (json_is_object(j)) {
        v = jinja_dict_new(m);
        const char *key;
        size_t key_bytes;
        json_t *item, *object = (json_t *)j; /* jansson's iteration takes no const */
        json_object_keylen_foreach(object, key, key_bytes, item)
        {
            jinja_dict_add(m, v.as.dict, jinja_string(jinja_text_of(m, key, key_bytes, 0)), jinja_from_json(m, item));
        }
    } else if (json_is_array(j)) {
        v = jinja_list_new(m, JINJA_LIST, NULL);
        for (size_t i = 0; i < json_array_size(j); i++) jinja_list_add(m, v, jinja_from_json(m, json_array_get(j, i)));
    } else if (json_is_string(j)) {
        v = jinja_string(jinja_text_of(m, json_string_value(j), json_string_length(j), mark_of(m, j)));
    } else if (json_is_integer(j)) {
        v = jinja_int(json_integer_value(j));
    } else if (json_is_real(j)) {
        v = jinja_float(json_real_value(j));
    } else if (json_is_boolean(j)) {
        v = jinja_bool(json_is_true(j));
    }
    jinja_leave(m);
    return v;
}
