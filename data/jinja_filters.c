/* Filters on strings and single values; those on sequences are in jinja_sequence.c. */
#include "data/jinja_impl.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FILTER(name) static jinja_value name(jinja_machine *m, jinja_value self, const jinja_value *given, const jinja_arguments *raw)
#define UNUSED_ARGUMENTS (void)given, (void)raw

static bool is_given(jinja_value v)
{
    return v.type != JINJA_ABSENT && v.type != JINJA_NONE;
}

/* ---- strings ---- */
FILTER(filter_trim)
{
    (void)raw;
    return jinja_string(jinja_strip(m, jinja_str(m, self), is_given(given[0]) ? jinja_str(m, given[0]) : NULL, STRIP_LEFT | STRIP_RIGHT));
}

FILTER(filter_upper)
{
    UNUSED_ARGUMENTS;
    return jinja_string(jinja_cased(m, jinja_str(m, self), CASE_UPPER));
}

FILTER(filter_lower)
{
    UNUSED_ARGUMENTS;
    return jinja_string(jinja_cased(m, jinja_str(m, self), CASE_LOWER));
}

FILTER(filter_capitalize)
{
    UNUSED_ARGUMENTS;
    const jinja_text *t = jinja_str(m, self);
    if (t->bytes == 0) return jinja_string(t);
    size_t first;
    jinja_writer w = {.m = m};
    jinja_code_at(t, 0, &first);
    jinja_put_case(&w, t, 0, first, CASE_TITLE);
    jinja_put_case(&w, t, first, t->bytes, CASE_LOWER);
    return jinja_written_value(&w);
}

static bool splits_title(int32_t code)
{
    return jinja_is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
}

/* jinja2's own: words begin behind white space and - ( { [ <, other signs do not part them. */
FILTER(filter_title)
{
    UNUSED_ARGUMENTS;
    const jinja_text *t = jinja_str(m, self);
    jinja_writer w = {.m = m};
    for (size_t at = 0, next; at < t->bytes; at = next) {
        bool separates = splits_title(jinja_code_at(t, at, &next));
        size_t first = next;
        for (size_t after; next < t->bytes && splits_title(jinja_code_at(t, next, &after)) == separates; next = after) {}
        jinja_put_case(&w, t, at, first, CASE_UPPER);
        const jinja_text *rest = jinja_part(m, t, first, next);
        jinja_put_case(&w, rest, 0, rest->bytes, CASE_LOWER);
    }
    return t->bytes ? jinja_written_value(&w) : jinja_string(t);
}

FILTER(filter_replace)
{
    (void)raw;
    if (is_given(given[2]) && given[2].type != JINJA_INT) jinja_fail(m, QLFT_EFORMAT, "replace: the count must be an integer");
    return jinja_string(jinja_replace(m, jinja_str(m, self), jinja_str(m, given[0]), jinja_str(m, given[1]), is_given(given[2]) ? given[2].as.integer : -1));
}

FILTER(filter_string)
{
    UNUSED_ARGUMENTS;
    return jinja_string(jinja_str(m, self));
}

FILTER(filter_safe)
{
    UNUSED_ARGUMENTS;
    jinja_text *safe = jinja_take(m, sizeof *safe);
    *safe = *jinja_str(m, self);
    safe->safe = true;
    return jinja_string(safe);
}

FILTER(filter_escape)
{
    UNUSED_ARGUMENTS;
    if (self.type == JINJA_STRING && self.as.text->safe) return self;
    return jinja_string(jinja_escape(m, jinja_str(m, self)));
}

FILTER(filter_indent)
{
    (void)raw;
    if (self.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "%s", self.as.text->data);
    if (self.type != JINJA_STRING) jinja_fail(m, QLFT_EFORMAT, "indent takes a string, not %s", jinja_type_name(self));
    jinja_writer blank = {.m = m}, w = {.m = m};
    if (given[0].type == JINJA_STRING) {
        jinja_put_str(&blank, given[0]);
    } else {
        if (is_given(given[0]) && given[0].type != JINJA_INT) jinja_fail(m, QLFT_EFORMAT, "indent: the width must be an integer or a string");
        for (int64_t i = is_given(given[0]) ? given[0].as.integer : 4; i > 0; i--) jinja_put_words(&blank, " ");
    }
    const jinja_text *indent = jinja_written(&blank), *newline = jinja_words(m, "\n").as.text;
    const jinja_list *lines = jinja_lines(m, jinja_concat(m, self.as.text, newline), false).as.list;
    bool first = jinja_truth(m, given[1]), blanks = jinja_truth(m, given[2]);
    for (size_t i = 0; i < lines->count; i++) {
        if (i) jinja_put_words(&w, "\n");
        if (i ? blanks || lines->items[i].as.text->bytes > 0 : first) jinja_put_text(&w, indent, 0, indent->bytes);
        jinja_put_str(&w, lines->items[i]);
    }
    return jinja_written_value(&w);
}

FILTER(filter_format)
{
    (void)given;
    if (raw->named_count) jinja_unsupported(m, "format with named arguments");
    return jinja_printf(m, jinja_str(m, self), raw->given, raw->count);
}

FILTER(filter_tojson)
{
    (void)raw;
    return jinja_to_json(m, self, jinja_truth(m, given[0]), given[1], given[2], jinja_truth(m, given[3]));
}

/* ---- numbers ---- */
/* Digits for strtod and strtoll: white space around and single underscores between digits gone. False if it cannot be a number of Python. */
static bool number_text(const jinja_text *t, char out[128])
{
    size_t used = 0, from = 0, to = t->bytes;
    while (from < to && strchr(" \t\n\r\f\v", t->data[from])) from++;
    while (to > from && strchr(" \t\n\r\f\v", t->data[to - 1])) to--;
    for (size_t i = from; i < to; i++) {
        char c = t->data[i];
        bool between = c == '_' && i > from && i + 1 < to && t->data[i - 1] >= '0' && t->data[i - 1] <= '9' && t->data[i + 1] >= '0' && t->data[i + 1] <= '9';
        if (between) continue;
        if (!c || c == '_' || (unsigned char)c >= 0x80 || used + 1 >= 128) return false;
        out[used++] = c;
    }
    out[used] = 0;
    return used > 0 && !strchr(" \t\n\r\f\v", out[0]);
}

static bool text_to_double(const jinja_text *t, double *out)
{
    char text[128], *end;
    if (!number_text(t, text) || strpbrk(text, "xX(")) return false;
    *out = strtod(text, &end);
    return *end == 0;
}

FILTER(filter_int)
{
    (void)raw;
    jinja_value missing = given[0].type == JINJA_ABSENT ? jinja_int(0) : given[0];
    int64_t base = given[1].type == JINJA_INT ? given[1].as.integer : 10;
    double number;
    if (self.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "%s", self.as.text->data);
    if (self.type == JINJA_INT) return self;
    if (self.type == JINJA_BOOL) return jinja_int(self.as.truth);
    if (self.type == JINJA_STRING) {
        char text[128], *end;
        if (base != 10) jinja_unsupported(m, "the filter int with a base");
        errno = 0;
        if (number_text(self.as.text, text)) {
            int64_t integer = strtoll(text, &end, 10);
            if (*end == 0 && errno == ERANGE) jinja_unsupported(m, "integers beyond 64 bits");
            if (*end == 0) return jinja_int(integer);
        }
        if (!text_to_double(self.as.text, &number)) return missing;
    } else if (self.type == JINJA_FLOAT) {
        number = self.as.number;
    } else {
        return missing;
    }
    if (isnan(number)) return missing;
    if (isinf(number)) return missing;
    if (!(fabs(number) < 9.2e18)) jinja_unsupported(m, "integers beyond 64 bits");
    return jinja_int((int64_t)number);
}

FILTER(filter_float)
{
    (void)raw;
    double number;
    if (self.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "%s", self.as.text->data);
    if (jinja_is_number(self)) return jinja_float(jinja_number(self));
    if (self.type == JINJA_STRING && text_to_double(self.as.text, &number)) return jinja_float(number);
    return given[0].type == JINJA_ABSENT ? jinja_float(0) : given[0];
}

FILTER(filter_abs)
{
    UNUSED_ARGUMENTS;
    if (self.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "%s", self.as.text->data);
    if (!jinja_is_number(self)) jinja_fail(m, QLFT_EFORMAT, "bad operand type for abs(): '%s'", jinja_type_name(self));
    if (self.type == JINJA_FLOAT) return jinja_float(fabs(self.as.number));
    jinja_value whole = self.type == JINJA_BOOL ? jinja_int(self.as.truth) : self;
    return whole.as.integer < 0 ? jinja_binary(m, '-', jinja_int(0), whole) : whole;
}

FILTER(filter_round)
{
    (void)raw;
    int64_t digits = given[0].type == JINJA_INT ? given[0].as.integer : 0;
    const char *method = given[1].type == JINJA_STRING ? given[1].as.text->data : "common";
    if (self.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "%s", self.as.text->data);
    if (!jinja_is_number(self)) jinja_fail(m, QLFT_EFORMAT, "type %s doesn't define __round__ method", jinja_type_name(self));
    if (digits < 0 || digits > 300) jinja_unsupported(m, "round to %lld digits", (long long)digits);
    if (strcmp(method, "common") != 0) {
        if (strcmp(method, "ceil") != 0 && strcmp(method, "floor") != 0) jinja_fail(m, QLFT_EFORMAT, "method must be common, ceil or floor");
        double scale = pow(10, (double)digits), scaled = jinja_number(self) * scale;
        return jinja_float((method[0] == 'c' ? ceil(scaled) : floor(scaled)) / scale);
    }
    if (self.type != JINJA_FLOAT) return self.type == JINJA_BOOL ? jinja_int(self.as.truth) : self;
    if (!isfinite(self.as.number)) return self;
    char text[700]; /* 309 digits before the point at most, 300 behind it; the decimal value is exact and its rounding to even is Python's */
    snprintf(text, sizeof text, "%.*f", (int)digits, self.as.number);
    return jinja_float(strtod(text, NULL));
}

/* ---- any value ---- */
FILTER(filter_length)
{
    UNUSED_ARGUMENTS;
    return jinja_int((int64_t)jinja_length(m, self));
}

FILTER(filter_default)
{
    (void)raw;
    bool missing = self.type == JINJA_UNDEFINED || (jinja_truth(m, given[1]) && !jinja_truth(m, self));
    return !missing ? self : given[0].type == JINJA_ABSENT ? jinja_words(m, "") : given[0];
}

FILTER(filter_attr)
{
    (void)raw;
    jinja_value found;
    if (self.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "%s", self.as.text->data);
    if (given[0].type != JINJA_STRING) jinja_fail(m, QLFT_EFORMAT, "attr takes a string");
    if (self.type == JINJA_NAMESPACE || self.type == JINJA_LOOP) return jinja_attribute(m, self, given[0].as.text);
    if (jinja_find_method(m, self, given[0].as.text, &found)) return found; /* never an item, unlike the dot */
    return jinja_undefined(m, "'%s' has no attribute %s", jinja_object_name(m, self), jinja_repr(m, given[0]));
}

static const jinja_function filters[] = {
    {"trim", filter_trim, "chars", 0, false},
    {"upper", filter_upper, "", 0, false},
    {"lower", filter_lower, "", 0, false},
    {"capitalize", filter_capitalize, "", 0, false},
    {"title", filter_title, "", 0, false},
    {"replace", filter_replace, "old new count", 2, false},
    {"string", filter_string, "", 0, false},
    {"safe", filter_safe, "", 0, false},
    {"escape", filter_escape, "", 0, false},
    {"e", filter_escape, "", 0, false},
    {"indent", filter_indent, "width first blank", 0, false},
    {"format", filter_format, NULL, 0, false},
    {"tojson", filter_tojson, "ensure_ascii indent separators sort_keys", 0, false},
    {"int", filter_int, "default base", 0, false},
    {"float", filter_float, "default", 0, false},
    {"abs", filter_abs, "", 0, false},
    {"round", filter_round, "precision method", 0, false},
    {"length", filter_length, "", 0, false},
    {"count", filter_length, "", 0, false},
    {"default", filter_default, "default_value boolean", 0, false},
    {"d", filter_default, "default_value boolean", 0, false},
    {"attr", filter_attr, "name", 1, false},
    {NULL, NULL, NULL, 0, false},
};

const jinja_function *jinja_find_filter(const jinja_text *name)
{
    const jinja_function *row = jinja_row(filters, name);
    return row ? row : jinja_row(jinja_list_filters, name);
}

jinja_value jinja_filter(jinja_machine *m, jinja_value self, const jinja_text *name, const jinja_arguments *args)
{
    static const char *const others[] = {"center",   "filesizeformat", "forceescape", "groupby",   "pprint",   "random",  "slice", "striptags",
                                         "truncate", "urlencode",      "urlize",      "wordcount", "wordwrap", "xmlattr", NULL};
    static const char *const safe_filters[] = {"safe", "escape", "e", "string", "length", "count", "default", "d", "tojson", NULL};
    const jinja_function *row = jinja_find_filter(name);
    jinja_spend(m, 1);
    for (int i = 0; !row && others[i]; i++) {
        if (jinja_text_is(name, others[i])) jinja_unsupported(m, "the filter '%s'", others[i]);
    }
    if (!row) jinja_fail(m, QLFT_EFORMAT, "No filter named '%s'.", name->data);
    if (self.type == JINJA_STRING && self.as.text->safe) {
        bool allowed = false;
        for (int i = 0; safe_filters[i]; i++) allowed |= strcmp(row->name, safe_filters[i]) == 0;
        if (!allowed) jinja_unsupported(m, "the filter '%s' on a string marked safe", row->name);
    }
    return jinja_invoke(m, row, self, args);
}
