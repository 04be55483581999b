/* Methods of strings, dicts and lists. A method that Python has and this engine has not is refused by name, never taken for undefined. */
#include "data/jinja_impl.h"

#include <stdlib.h>
#include <utf8proc.h>

#define METHOD(name) static jinja_value name(jinja_machine *m, jinja_value self, const jinja_value *given, const jinja_arguments *raw)
#define UNUSED_ARGUMENTS (void)given, (void)raw

static bool is_given(jinja_value v)
{
    return v.type != JINJA_ABSENT && v.type != JINJA_NONE;
}

static const jinja_text *text_argument(jinja_machine *m, jinja_value v, const char *what)
{
    if (v.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "%s: %s", what, v.as.text->data);
    if (v.type != JINJA_STRING) jinja_fail(m, QLFT_EFORMAT, "%s: an argument must be str, not %s", what, jinja_type_name(v));
    return v.as.text;
}

static int64_t count_argument(jinja_machine *m, jinja_value v, const char *what)
{
    if (v.type == JINJA_ABSENT) return -1;
    if (v.type != JINJA_INT) jinja_fail(m, QLFT_EFORMAT, "%s: '%s' object cannot be interpreted as an integer", what, jinja_type_name(v));
    return v.as.integer;
}

/* ---- strings: parts ---- */
static jinja_value strip(jinja_machine *m, jinja_value self, jinja_value set, int sides)
{
    return jinja_string(jinja_strip(m, self.as.text, is_given(set) ? text_argument(m, set, "strip") : NULL, sides));
}

METHOD(str_strip)
{
    (void)raw;
    return strip(m, self, given[0], STRIP_LEFT | STRIP_RIGHT);
}

METHOD(str_lstrip)
{
    (void)raw;
    return strip(m, self, given[0], STRIP_LEFT);
}

METHOD(str_rstrip)
{
    (void)raw;
    return strip(m, self, given[0], STRIP_RIGHT);
}

static jinja_value split(jinja_machine *m, jinja_value self, const jinja_value *given, bool from_right)
{
    const jinja_text *separator = is_given(given[0]) ? text_argument(m, given[0], "split") : NULL;
    return jinja_split(m, self.as.text, separator, count_argument(m, given[1], "split"), from_right);
}

METHOD(str_split)
{
    (void)raw;
    return split(m, self, given, false);
}

METHOD(str_rsplit)
{
    (void)raw;
    return split(m, self, given, true);
}

METHOD(str_splitlines)
{
    (void)raw;
    return jinja_lines(m, self.as.text, jinja_truth(m, given[0]));
}

static jinja_value partition(jinja_machine *m, jinja_value self, jinja_value separator, bool from_right)
{
    const jinja_text *between = text_argument(m, separator, "partition"), *empty = jinja_words(m, "").as.text;
    const jinja_list *parts = jinja_split(m, self.as.text, between, 1, from_right).as.list;
    jinja_value out = jinja_list_new(m, JINJA_TUPLE, NULL);
    if (parts->count == 2) {
        jinja_list_add(m, out, parts->items[0]);
        jinja_list_add(m, out, separator);
        jinja_list_add(m, out, parts->items[1]);
        return out;
    }
    jinja_list_add(m, out, from_right ? jinja_string(empty) : self);
    jinja_list_add(m, out, jinja_string(empty));
    jinja_list_add(m, out, from_right ? self : jinja_string(empty));
    return out;
}

METHOD(str_partition)
{
    (void)raw;
    return partition(m, self, given[0], false);
}

METHOD(str_rpartition)
{
    (void)raw;
    return partition(m, self, given[0], true);
}

static bool has_affix(const jinja_text *t, const jinja_text *affix, bool at_end)
{
    if (affix->bytes > t->bytes) return false;
    return memcmp(at_end ? t->data + t->bytes - affix->bytes : t->data, affix->data, affix->bytes) == 0;
}

static jinja_value part_given(jinja_machine *m, jinja_value self, const jinja_value *bounds)
{
    return is_given(bounds[0]) || is_given(bounds[1]) ? jinja_slice(m, self, bounds[0], bounds[1], jinja_none()) : self;
}

static jinja_value affixed(jinja_machine *m, jinja_value self, const jinja_value *given, bool at_end)
{
    jinja_value part = part_given(m, self, given + 1);
    if (given[0].type != JINJA_TUPLE) return jinja_bool(has_affix(part.as.text, text_argument(m, given[0], at_end ? "endswith" : "startswith"), at_end));
    const jinja_list *choices = given[0].as.list;
    for (size_t i = 0; i < choices->count; i++) {
        if (has_affix(part.as.text, text_argument(m, choices->items[i], "startswith"), at_end)) return jinja_bool(true);
    }
    return jinja_bool(false);
}

METHOD(str_startswith)
{
    (void)raw;
    return affixed(m, self, given, false);
}

METHOD(str_endswith)
{
    (void)raw;
    return affixed(m, self, given, true);
}

METHOD(str_removeprefix)
{
    (void)raw;
    const jinja_text *affix = text_argument(m, given[0], "removeprefix"), *t = self.as.text;
    return has_affix(t, affix, false) ? jinja_string(jinja_part(m, t, affix->bytes, t->bytes)) : self;
}

METHOD(str_removesuffix)
{
    (void)raw;
    const jinja_text *affix = text_argument(m, given[0], "removesuffix"), *t = self.as.text;
    return has_affix(t, affix, true) ? jinja_string(jinja_part(m, t, 0, t->bytes - affix->bytes)) : self;
}

/* ---- strings: search ---- */
static int64_t find(jinja_machine *m, jinja_value self, const jinja_value *given, bool last)
{
    if (is_given(given[1]) || is_given(given[2])) jinja_unsupported(m, "find with a start or end");
    const jinja_text *t = self.as.text, *part = text_argument(m, given[0], "find");
    const char *found = NULL;
    jinja_spend(m, t->bytes / 16);
    for (const char *at = jinja_search(t, 0, part); at; at = (size_t)(at - t->data) < t->bytes ? jinja_search(t, (size_t)(at - t->data) + 1, part) : NULL) {
        found = at;
        if (!last) break;
        jinja_spend(m, 1);
    }
    if (!found) return -1;
    jinja_text before = {.data = t->data, .bytes = (size_t)(found - t->data)};
    return (int64_t)jinja_code_count(&before);
}

METHOD(str_find)
{
    (void)raw;
    return jinja_int(find(m, self, given, false));
}

METHOD(str_rfind)
{
    (void)raw;
    return jinja_int(find(m, self, given, true));
}

METHOD(str_index)
{
    (void)raw;
    int64_t at = find(m, self, given, false);
    if (at < 0) jinja_fail(m, QLFT_EFORMAT, "substring not found");
    return jinja_int(at);
}

METHOD(str_count)
{
    (void)raw;
    const jinja_text *t = part_given(m, self, given + 1).as.text, *part = text_argument(m, given[0], "count");
    if (part->bytes == 0) return jinja_int((int64_t)jinja_code_count(t) + 1);
    int64_t count = 0;
    size_t at = 0;
    for (const char *found; (found = jinja_search(t, at, part)); count++) at = (size_t)(found - t->data) + part->bytes;
    jinja_spend(m, t->bytes / 64);
    return jinja_int(count);
}

/* ---- strings: changed ---- */
METHOD(str_replace)
{
    (void)raw;
    return jinja_string(
        jinja_replace(m, self.as.text, text_argument(m, given[0], "replace"), text_argument(m, given[1], "replace"), count_argument(m, given[2], "replace")));
}

METHOD(str_upper)
{
    UNUSED_ARGUMENTS;
    return jinja_string(jinja_cased(m, self.as.text, CASE_UPPER));
}

METHOD(str_lower)
{
    UNUSED_ARGUMENTS;
    return jinja_string(jinja_cased(m, self.as.text, CASE_LOWER));
}

METHOD(str_title)
{
    UNUSED_ARGUMENTS;
    return jinja_string(jinja_cased(m, self.as.text, CASE_TITLE));
}

METHOD(str_capitalize)
{
    (void)given;
    return jinja_invoke(m, jinja_find_filter(jinja_words(m, "capitalize").as.text), self, raw);
}

METHOD(str_join)
{
    (void)raw;
    const jinja_list *l = jinja_walk(m, given[0]);
    jinja_writer w = {.m = m};
    for (size_t i = 0; i < l->count; i++) {
        if (l->items[i].type != JINJA_STRING)
            jinja_fail(m, QLFT_EFORMAT, "sequence item %zu: expected str instance, %s found", i, jinja_type_name(l->items[i]));
        if (i) jinja_put_str(&w, self);
        jinja_put_str(&w, l->items[i]);
        jinja_spend(m, 1);
    }
    return jinja_written_value(&w);
}

/* The value of a field of str.format: "", "0" or "name". */
static jinja_value format_field(jinja_machine *m, const jinja_text *name, const jinja_arguments *raw, size_t *next)
{
    bool digits = name->bytes > 0 && name->bytes < 6;
    for (size_t i = 0; i < name->bytes; i++) {
        char c = name->data[i];
        digits &= c >= '0' && c <= '9';
        if (strchr("!:.[]", c)) jinja_unsupported(m, "the field {%s} of str.format", name->data);
    }
    if (name->bytes == 0 || digits) {
        size_t index = digits ? (size_t)atoi(name->data) : (*next)++;
        if (index >= raw->count) jinja_fail(m, QLFT_EFORMAT, "Replacement index %zu out of range for positional args tuple", index);
        return raw->given[index];
    }
    for (size_t i = 0; i < raw->named_count; i++) {
        if (jinja_text_equal(raw->names[i], name)) return raw->named[i];
    }
    jinja_fail(m, QLFT_EFORMAT, "str.format: no argument '%s'", name->data);
}

METHOD(str_format)
{
    (void)given;
    const jinja_text *t = self.as.text;
    jinja_writer w = {.m = m};
    size_t next = 0;
    for (size_t at = 0; at < t->bytes;) {
        size_t stop = at;
        while (stop < t->bytes && t->data[stop] != '{' && t->data[stop] != '}') stop++;
        jinja_put_text(&w, t, at, stop);
        if (stop == t->bytes) break;
        if (stop + 1 < t->bytes && t->data[stop + 1] == t->data[stop]) {
            jinja_put_text(&w, t, stop, stop + 1);
            at = stop + 2;
            continue;
        }
        const char *end = t->data[stop] == '{' ? memchr(t->data + stop, '}', t->bytes - stop) : NULL;
        if (!end) jinja_fail(m, QLFT_EFORMAT, "Single '%c' encountered in format string", t->data[stop]);
        size_t close = (size_t)(end - t->data);
        jinja_put_str(&w, format_field(m, jinja_part(m, t, stop + 1, close), raw, &next));
        at = close + 1;
    }
    return jinja_written_value(&w);
}

/* All characters of a kind, and at least one. */
static jinja_value all_of(jinja_value self, bool (*is_kind)(int32_t code))
{
    const jinja_text *t = self.as.text;
    for (size_t at = 0; at < t->bytes;) {
        if (!is_kind(jinja_code_at(t, at, &at))) return jinja_bool(false);
    }
    return jinja_bool(t->bytes > 0);
}

static bool is_letter(int32_t code)
{
    utf8proc_category_t kind = utf8proc_category(code);
    return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(int32_t code)
{
    return utf8proc_category(code) == UTF8PROC_CATEGORY_ND;
}

METHOD(str_isspace)
{
    UNUSED_ARGUMENTS;
    (void)m;
    return all_of(self, jinja_is_space);
}

METHOD(str_isalpha)
{
    UNUSED_ARGUMENTS;
    (void)m;
    return all_of(self, is_letter);
}

METHOD(str_isdecimal)
{
    UNUSED_ARGUMENTS;
    (void)m;
    return all_of(self, is_decimal);
}

/* isdigit also takes superscripts and the like; they are refused so that no answer is wrong. */
METHOD(str_isdigit)
{
    UNUSED_ARGUMENTS;
    const jinja_text *t = self.as.text;
    for (size_t at = 0; at < t->bytes;) {
        if (utf8proc_category(jinja_code_at(t, at, &at)) == UTF8PROC_CATEGORY_NO) jinja_unsupported(m, "isdigit of numerals that are no decimal digits");
    }
    return all_of(self, is_decimal);
}

/* ---- dicts ---- */
static jinja_value dict_view(jinja_machine *m, const jinja_dict *d, const char *name, bool keys, bool values)
{
    jinja_value view = jinja_list_new(m, JINJA_VIEW, name);
    for (size_t i = 0; i < d->count; i++) jinja_list_add(m, view, keys && values ? jinja_pair(m, d->keys[i], d->values[i]) : keys ? d->keys[i] : d->values[i]);
    jinja_spend(m, d->count / 16);
    return view;
}

METHOD(dict_items)
{
    UNUSED_ARGUMENTS;
    return dict_view(m, self.as.dict, "dict_items", true, true);
}

METHOD(dict_keys)
{
    UNUSED_ARGUMENTS;
    return dict_view(m, self.as.dict, "dict_keys", true, false);
}

METHOD(dict_values)
{
    UNUSED_ARGUMENTS;
    return dict_view(m, self.as.dict, "dict_values", false, true);
}

METHOD(dict_get)
{
    (void)raw;
    const jinja_value *found = jinja_dict_find(m, self.as.dict, given[0]);
    return found ? *found : given[1].type == JINJA_ABSENT ? jinja_none() : given[1];
}

/* ---- lists ---- */
METHOD(list_count)
{
    (void)raw;
    int64_t count = 0;
    for (size_t i = 0; i < self.as.list->count; i++) count += jinja_equal(m, self.as.list->items[i], given[0]);
    return jinja_int(count);
}

METHOD(list_index)
{
    (void)raw;
    for (size_t i = 0; i < self.as.list->count; i++) {
        if (jinja_equal(m, self.as.list->items[i], given[0])) return jinja_int((int64_t)i);
    }
    jinja_fail(m, QLFT_EFORMAT, "%s is not in list", jinja_repr(m, given[0]));
}

/* Nothing can change a list or dict in this engine, so a copy is the thing itself. */
METHOD(any_copy)
{
    UNUSED_ARGUMENTS;
    (void)m;
    return self;
}

METHOD(loop_cycle)
{
    (void)given;
    static const jinja_text name = {.data = "index0", .bytes = 6};
    bool found;
    if (raw->count == 0) jinja_fail(m, QLFT_EFORMAT, "no items for cycling given");
    return raw->given[(size_t)jinja_loop_attribute(m, self.as.loop, &name, &found).as.integer % raw->count];
}

static const jinja_function str_methods[] = {
    {"strip", str_strip, "chars", 0, false},
    {"lstrip", str_lstrip, "chars", 0, false},
    {"rstrip", str_rstrip, "chars", 0, false},
    {"split", str_split, "sep maxsplit", 0, false},
    {"rsplit", str_rsplit, "sep maxsplit", 0, false},
    {"splitlines", str_splitlines, "keepends", 0, false},
    {"partition", str_partition, "sep", 1, false},
    {"rpartition", str_rpartition, "sep", 1, false},
    {"startswith", str_startswith, "prefix start end", 1, false},
    {"endswith", str_endswith, "suffix start end", 1, false},
    {"removeprefix", str_removeprefix, "prefix", 1, false},
    {"removesuffix", str_removesuffix, "suffix", 1, false},
    {"find", str_find, "sub start end", 1, false},
    {"rfind", str_rfind, "sub start end", 1, false},
    {"index", str_index, "sub start end", 1, false},
    {"count", str_count, "sub start end", 1, false},
    {"replace", str_replace, "old new count", 2, false},
    {"upper", str_upper, "", 0, false},
    {"lower", str_lower, "", 0, false},
    {"title", str_title, "", 0, false},
    {"capitalize", str_capitalize, "", 0, false},
    {"join", str_join, "iterable", 1, false},
    {"format", str_format, NULL, 0, false},
    {"isspace", str_isspace, "", 0, false},
    {"isalpha", str_isalpha, "", 0, false},
    {"isdecimal", str_isdecimal, "", 0, false},
    {"isdigit", str_isdigit, "", 0, false},
    {NULL, NULL, NULL, 0, false},
};
static const jinja_function dict_methods[] = {{"items", dict_items, "", 0, false},   {"keys", dict_keys, "", 0, false},
                                              {"values", dict_values, "", 0, false}, {"get", dict_get, "key default", 1, false},
                                              {"copy", any_copy, "", 0, false},      {NULL, NULL, NULL, 0, false}};
static const jinja_function list_methods[] = {
    {"count", list_count, "value", 1, false}, {"index", list_index, "value", 1, false}, {"copy", any_copy, "", 0, false}, {NULL, NULL, NULL, 0, false}};
static const jinja_function tuple_methods[] = {
    {"count", list_count, "value", 1, false}, {"index", list_index, "value", 1, false}, {NULL, NULL, NULL, 0, false}};
static const jinja_function loop_methods[] = {{"cycle", loop_cycle, NULL, 0, false}, {NULL, NULL, NULL, 0, false}};

/* What Python's types have besides: refused, or, if it would change the object, forbidden as in jinja2's immutable sandbox. */
static const struct type_row {
    const jinja_function *methods;
    const char *others, *forbidden;
} types[JINJA_TYPES] = {
    [JINJA_STRING] =
        {str_methods,
         " casefold center encode expandtabs format_map isalnum isascii isidentifier islower isnumeric isprintable istitle isupper ljust maketrans rindex "
         "rjust swapcase translate zfill ",
         " "},
    [JINJA_DICT] = {dict_methods, " fromkeys ", " clear pop popitem setdefault update "},
    [JINJA_LIST] = {list_methods, " ", " append clear extend insert pop remove reverse sort "},
    [JINJA_TUPLE] = {tuple_methods, " ", " "},
    [JINJA_RANGE] = {NULL, " count index start step stop ", " "},
    [JINJA_VIEW] = {NULL, " isdisjoint mapping ", " "},
    [JINJA_ITERATOR] = {NULL, " close gi_code gi_frame gi_running gi_suspended gi_yieldfrom send throw ", " "},
    [JINJA_BOOL] = {NULL, " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes ", " "},
    [JINJA_INT] = {NULL, " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes ", " "},
    [JINJA_FLOAT] = {NULL, " as_integer_ratio conjugate fromhex hex imag is_integer real ", " "},
    [JINJA_LOOP] = {loop_methods, " changed ", " "},
};

static bool has_word(const char *words, const jinja_text *word)
{
    if (memchr(word->data, 0, word->bytes) || memchr(word->data, ' ', word->bytes)) return false;
    for (const char *at = words; word->bytes && (at = strstr(at, word->data)); at++) {
        if (at > words && at[-1] == ' ' && at[word->bytes] == ' ') return true;
    }
    return false;
}

bool jinja_find_method(jinja_machine *m, jinja_value self, const jinja_text *name, jinja_value *out)
{
    const struct type_row *row = &types[self.type];
    const jinja_function *method = row->methods ? jinja_row(row->methods, name) : NULL;
    if (method) {
        if (self.type == JINJA_STRING && self.as.text->safe) jinja_unsupported(m, "methods of a string marked safe");
        jinja_bound *bound = jinja_take(m, sizeof *bound);
        bound->self = self;
        bound->function = method;
        *out = (jinja_value){.type = JINJA_METHOD, .as = {.bound = bound}};
        return true;
    }
    if (name->bytes > 4 && memcmp(name->data, "__", 2) == 0 && memcmp(name->data + name->bytes - 2, "__", 2) == 0) {
        jinja_unsupported(m, "the attribute '%s' (Python's own)", name->data);
    }
    if (row->others && has_word(row->others, name)) jinja_unsupported(m, "%s.%s", jinja_type_name(self), name->data);
    if (row->forbidden && has_word(row->forbidden, name)) {
        *out = jinja_undefined(m, "access to attribute '%s' of '%s' object is unsafe.", name->data, jinja_type_name(self));
        return true;
    }
    return false;
}
