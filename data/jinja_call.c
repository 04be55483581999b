/* Calls of built-in functions, the global functions, and Python's two ways to format. */
#include "data/jinja_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_RANGE = 100000 }; /* of jinja2's sandbox */

/* ---- arguments ---- */
/* The index of a word in a list of words, -1 if it is not there; *count: how many words there are. */
static int word_index(const char *words, const jinja_text *word, int *count)
{
    int index = 0, found = -1;
    for (const char *at = words; *at;) {
        size_t bytes = strcspn(at, " ");
        if (word && bytes == word->bytes && memcmp(at, word->data, bytes) == 0) found = index;
        index++;
        at += bytes + (at[bytes] == ' ');
    }
    *count = index;
    return found;
}

static jinja_value call_or_wait(jinja_machine *m, const jinja_function *f, jinja_value self, const jinja_value *given, const jinja_arguments *raw)
{
    if (!f->lazy) return f->call(m, self, given, raw);
    jinja_pending *pending = jinja_take(m, sizeof *pending);
    pending->filter = f;
    pending->self = self;
    memcpy(pending->given, given, sizeof pending->given);
    pending->raw = *raw;
    jinja_value out = jinja_list_new(m, JINJA_ITERATOR, "generator");
    out.as.list->pending = pending;
    return out;
}

jinja_value jinja_invoke(jinja_machine *m, const jinja_function *f, jinja_value self, const jinja_arguments *args)
{
    jinja_value given[JINJA_PARAMETERS];
    int count;
    memset(given, 0, sizeof given); /* ABSENT */
    if (!f->parameters) return call_or_wait(m, f, self, given, args);
    word_index(f->parameters, NULL, &count);
    if (args->count > (size_t)count) jinja_fail(m, QLFT_EFORMAT, "%s takes at most %d argument(s), %zu given", f->name, count, args->count);
    for (size_t i = 0; i < args->count; i++) given[i] = args->given[i];
    for (size_t i = 0; i < args->named_count; i++) {
        int index = word_index(f->parameters, args->names[i], &count);
        if (index < 0) jinja_fail(m, QLFT_EFORMAT, "%s has no argument '%s'", f->name, args->names[i]->data);
        if (given[index].type != JINJA_ABSENT) jinja_fail(m, QLFT_EFORMAT, "%s got two values for '%s'", f->name, args->names[i]->data);
        given[index] = args->named[i];
    }
    for (int i = 0; i < f->required; i++) {
        if (given[i].type == JINJA_ABSENT) jinja_fail(m, QLFT_EFORMAT, "%s misses an argument (it takes: %s)", f->name, f->parameters);
    }
    return call_or_wait(m, f, self, given, args);
}

const jinja_function *jinja_row(const jinja_function *table, const jinja_text *name)
{
    for (; table->name; table++) {
        if (jinja_text_is(name, table->name)) return table;
    }
    return NULL;
}

/* ---- global functions ---- */
static jinja_value call_raise(jinja_machine *m, jinja_value self, const jinja_value *given, const jinja_arguments *raw)
{
    (void)self;
    (void)raw;
    jinja_fail(m, QLFT_EFORMAT, "the template raises: %s", jinja_str(m, given[0])->data);
}

static jinja_value call_strftime(jinja_machine *m, jinja_value self, const jinja_value *given, const jinja_arguments *raw)
{
    (void)self;
    (void)raw;
    if (given[0].type != JINJA_STRING) jinja_fail(m, QLFT_EFORMAT, "strftime_now takes a string");
    const jinja_text *format = given[0].as.text;
    if (strstr(format->data, "%z") || strstr(format->data, "%Z") || strstr(format->data, "%f")) jinja_unsupported(m, "%%f, %%z and %%Z in strftime_now");
    if (format->bytes == 0) return given[0];
    struct tm now;
    char text[512];
    if (!localtime_r(&m->now, &now)) jinja_fail(m, QLFT_EFORMAT, "strftime_now: the present time is out of range");
    size_t bytes = strftime(text, sizeof text, format->data, &now);
    if (bytes == 0) jinja_unsupported(m, "a strftime_now of more than %zu bytes, or of none", sizeof text);
    return jinja_string(jinja_text_of(m, text, bytes, 0));
}

static jinja_value call_range(jinja_machine *m, jinja_value self, const jinja_value *given, const jinja_arguments *raw)
{
    (void)self;
    int64_t bounds[3] = {0, 0, 1};
    for (size_t i = 0; i < raw->count; i++) {
        if (given[i].type != JINJA_INT) jinja_fail(m, QLFT_EFORMAT, "'%s' object cannot be interpreted as an integer", jinja_type_name(given[i]));
        bounds[raw->count == 1 ? 1 : i] = given[i].as.integer;
    }
    if (bounds[2] == 0) jinja_fail(m, QLFT_EFORMAT, "range() arg 3 must not be zero");
    jinja_value out = jinja_list_new(m, JINJA_RANGE, NULL);
    out.as.list->from = bounds[0];
    out.as.list->to = bounds[1];
    out.as.list->step = bounds[2];
    for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
        if (out.as.list->count >= MAX_RANGE) jinja_fail(m, QLFT_EFORMAT, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", MAX_RANGE);
        jinja_list_add(m, out, jinja_int(i));
        if (__builtin_add_overflow(i, bounds[2], &i)) break;
    }
    jinja_spend(m, out.as.list->count);
    return out;
}

static jinja_value new_dict(jinja_machine *m, const char *what, const jinja_arguments *raw)
{
    jinja_value out = jinja_dict_new(m);
    if (raw->count > 1 || (raw->count == 1 && raw->given[0].type != JINJA_DICT)) {
        jinja_unsupported(m, "%s() of anything but one dict and arguments with names", what);
    }
    const jinja_dict *from = raw->count ? raw->given[0].as.dict : NULL;
    for (size_t i = 0; from && i < from->count; i++) jinja_dict_add(m, out.as.dict, from->keys[i], from->values[i]);
    for (size_t i = 0; i < raw->named_count; i++) jinja_dict_set(m, out.as.dict, jinja_string(raw->names[i]), raw->named[i]);
    return out;
}

static jinja_value call_dict(jinja_machine *m, jinja_value self, const jinja_value *given, const jinja_arguments *raw)
{
    (void)self;
    (void)given;
    return new_dict(m, "dict", raw);
}

static jinja_value call_namespace(jinja_machine *m, jinja_value self, const jinja_value *given, const jinja_arguments *raw)
{
    (void)self;
    (void)given;
    jinja_value space = new_dict(m, "namespace", raw);
    space.type = JINJA_NAMESPACE;
    return space;
}

static jinja_value call_other(jinja_machine *m, jinja_value self, const jinja_value *given, const jinja_arguments *raw)
{
    (void)self;
    (void)given;
    (void)raw;
    jinja_unsupported(m, "the functions lipsum, cycler and joiner");
}

static const jinja_function globals[] = {
    {"raise_exception", call_raise, "message", 1, false},
    {"strftime_now", call_strftime, "format", 1, false},
    {"range", call_range, "start stop step", 1, false},
    {"namespace", call_namespace, NULL, 0, false},
    {"dict", call_dict, NULL, 0, false},
    {"lipsum", call_other, NULL, 0, false},
    {"cycler", call_other, NULL, 0, false},
    {"joiner", call_other, NULL, 0, false},
    {NULL, NULL, NULL, 0, false},
};

const jinja_function *jinja_find_global(const jinja_text *name)
{
    return jinja_row(globals, name);
}

/* ---- "..." % items ---- */
typedef struct directive {
    bool left, zero, plus, space, other;
    int width, precision; /* precision -1: not given */
    char conversion;
} directive;

static size_t parse_directive(jinja_machine *m, const jinja_text *f, size_t at, directive *d)
{
    memset(d, 0, sizeof *d);
    d->precision = -1;
    for (;; at++) {
        char c = at < f->bytes ? f->data[at] : 0;
        if (c == '-') {
            d->left = true;
        } else if (c == '0') {
            d->zero = true;
        } else if (c == '+') {
            d->plus = true;
        } else if (c == ' ') {
            d->space = true;
        } else {
            break;
        }
    }
    for (; at < f->bytes && f->data[at] >= '0' && f->data[at] <= '9' && d->width < 10000; at++) d->width = d->width * 10 + (f->data[at] - '0');
    if (at < f->bytes && f->data[at] == '.') {
        d->precision = 0;
        for (at++; at < f->bytes && f->data[at] >= '0' && f->data[at] <= '9' && d->precision < 100; at++) {
            d->precision = d->precision * 10 + (f->data[at] - '0');
        }
    }
    if (at >= f->bytes) jinja_fail(m, QLFT_EFORMAT, "incomplete format");
    d->conversion = f->data[at];
    if (!strchr("srdifFeEgGxXo", d->conversion) || d->width >= 10000 || d->precision >= 100) {
        jinja_unsupported(m, "this format: %.*s", (int)f->bytes, f->data);
    }
    return at + 1;
}

static const jinja_text *format_number(jinja_machine *m, const directive *d, jinja_value v)
{
    char format[16], text[512];
    bool whole = strchr("dixXo", d->conversion) != NULL;
    if (!jinja_is_number(v) || (whole && v.type == JINJA_FLOAT && strchr("xXo", d->conversion))) {
        jinja_fail(m, QLFT_EFORMAT, "%%%c format: a real number is required, not %s", d->conversion, jinja_type_name(v));
    }
    if (whole) {
        if (v.type == JINJA_FLOAT && !(fabs(v.as.number) < 9e18)) jinja_unsupported(m, "integers beyond 64 bits");
        long long number = v.type == JINJA_FLOAT ? (long long)v.as.number : v.type == JINJA_INT ? v.as.integer : v.as.truth;
        bool negative_hex = number < 0 && strchr("xXo", d->conversion);
        if (negative_hex) jinja_unsupported(m, "%%%c of a negative number", d->conversion);
        if (d->precision >= 0) jinja_unsupported(m, "a precision in %%%c", d->conversion);
        snprintf(format, sizeof format, "%%%s%sll%c", d->plus ? "+" : "", d->space ? " " : "", d->conversion == 'i' ? 'd' : d->conversion);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, format, number);
    } else {
        snprintf(format, sizeof format, "%%%s%s.*%c", d->plus ? "+" : "", d->space ? " " : "", d->conversion);
        snprintf(text, sizeof text, format, d->precision < 0 ? 6 : d->precision, jinja_number(v));
#pragma GCC diagnostic pop
    }
    return jinja_text_of(m, text, strlen(text), 0);
}

static void put_padded(jinja_writer *w, const directive *d, const jinja_text *text, bool is_number)
{
    size_t count = jinja_code_count(text), blanks = (size_t)d->width > count ? (size_t)d->width - count : 0, from = 0;
    bool zeros = d->zero && is_number && !d->left;
    if (zeros && text->bytes && strchr("+- ", text->data[0])) {
        jinja_put(w, text->data, 1, 0);
        from = 1;
    }
    for (size_t i = 0; !d->left && i < blanks; i++) jinja_put_words(w, zeros ? "0" : " ");
    jinja_put_text(w, text, from, text->bytes);
    for (size_t i = 0; d->left && i < blanks; i++) jinja_put_words(w, " ");
}

jinja_value jinja_printf(jinja_machine *m, const jinja_text *f, const jinja_value *items, size_t count)
{
    jinja_writer w = {.m = m};
    size_t used = 0;
    if (f->safe) jinja_unsupported(m, "formatting a string marked safe");
    for (size_t at = 0; at < f->bytes;) {
        const char *percent = memchr(f->data + at, '%', f->bytes - at);
        size_t stop = percent ? (size_t)(percent - f->data) : f->bytes;
        jinja_put_text(&w, f, at, stop);
        at = stop + 1;
        if (!percent) break;
        if (at < f->bytes && f->data[at] == '%') {
            jinja_put_words(&w, "%");
            at++;
            continue;
        }
        directive d;
        at = parse_directive(m, f, at, &d);
        if (used == count) jinja_fail(m, QLFT_EFORMAT, "not enough arguments for format string");
        jinja_value v = items[used++];
        if (d.conversion != 's' && d.conversion != 'r') {
            if (v.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "%s", v.as.text->data);
            put_padded(&w, &d, format_number(m, &d, v), true);
            continue;
        }
        jinja_writer text = {.m = m};
        (d.conversion == 's' ? jinja_put_str : jinja_put_repr)(&text, v);
        const jinja_text *shown = jinja_written(&text);
        if (d.precision >= 0) shown = jinja_part(m, shown, 0, jinja_code_offset(shown, (size_t)d.precision));
        put_padded(&w, &d, shown, false);
    }
    if (used < count) jinja_fail(m, QLFT_EFORMAT, "not all arguments converted during string formatting");
    return jinja_written_value(&w);
}
