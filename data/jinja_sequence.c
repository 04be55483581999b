/* Filters on sequences. */
#include "data/jinja_impl.h"

#include <stdlib.h>

#define FILTER(name) static jinja_value name(jinja_machine *m, jinja_value self, const jinja_value *given, const jinja_arguments *raw)
#define UNUSED_ARGUMENTS (void)given, (void)raw

static bool is_given(jinja_value v)
{
    return v.type != JINJA_ABSENT && v.type != JINJA_NONE;
}

/* ---- attributes by path: "a.b.0" ---- */
static jinja_value path_part(const jinja_text *t)
{
    int64_t number = 0;
    bool digits = t->bytes > 0 && t->bytes < 10;
    for (size_t i = 0; i < t->bytes; i++) {
        digits &= t->data[i] >= '0' && t->data[i] <= '9';
        if (digits) number = number * 10 + (t->data[i] - '0');
    }
    return digits ? jinja_int(number) : jinja_string(t);
}

static jinja_value get_path(jinja_machine *m, jinja_value item, jinja_value path)
{
    if (!is_given(path)) return item;
    if (path.type != JINJA_STRING) return jinja_item(m, item, path);
    const jinja_list *parts = jinja_split(m, path.as.text, jinja_words(m, ".").as.text, -1, false).as.list;
    for (size_t i = 0; i < parts->count; i++) item = jinja_item(m, item, path_part(parts->items[i].as.text));
    return item;
}

static jinja_value without_case(jinja_machine *m, jinja_value v)
{
    return v.type == JINJA_STRING ? jinja_string(jinja_cased(m, v.as.text, CASE_LOWER)) : v;
}

/* The key that sort compares: a list of one value a path of "a,b.c". In a list equal values are passed over, so even undefined ones can be sorted. */
static jinja_value sort_key(jinja_machine *m, jinja_value item, jinja_value paths, bool case_sensitive)
{
    jinja_value keys = jinja_list_new(m, JINJA_LIST, NULL);
    if (paths.type != JINJA_STRING) {
        jinja_value key = get_path(m, item, paths);
        jinja_list_add(m, keys, case_sensitive ? key : without_case(m, key));
        return keys;
    }
    const jinja_list *parts = jinja_split(m, paths.as.text, jinja_words(m, ",").as.text, -1, false).as.list;
    for (size_t i = 0; i < parts->count; i++) {
        jinja_value key = get_path(m, item, parts->items[i]);
        jinja_list_add(m, keys, case_sensitive ? key : without_case(m, key));
    }
    return keys;
}

/* A stable merge sort of items by keys, as Python's; reverse keeps equal items in their order too. */
static void sort_items(jinja_machine *m, jinja_value *items, jinja_value *keys, size_t count, bool reverse)
{
    jinja_value *other = jinja_take(m, (count + 1) * sizeof *other), *other_keys = jinja_take(m, (count + 1) * sizeof *other_keys);
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t from = 0; from < count; from += 2 * width) {
            size_t middle = from + width < count ? from + width : count, end = middle + width < count ? middle + width : count;
            size_t a = from, b = middle;
            for (size_t to = from; to < end; to++) {
                bool second = a == middle || (b < end && (reverse ? jinja_order(m, keys[a], keys[b], "<") : jinja_order(m, keys[b], keys[a], "<")) == -1);
                other[to] = second ? items[b] : items[a];
                other_keys[to] = second ? keys[b++] : keys[a++];
            }
        }
        memcpy(items, other, count * sizeof *items);
        memcpy(keys, other_keys, count * sizeof *keys);
    }
}

static jinja_value copied(jinja_machine *m, jinja_value v)
{
    const jinja_list *from = jinja_walk(m, v);
    jinja_value out = jinja_list_new(m, JINJA_LIST, NULL);
    jinja_spend(m, from->count / 16);
    for (size_t i = 0; i < from->count; i++) jinja_list_add(m, out, from->items[i]);
    return out;
}

FILTER(filter_sort)
{
    (void)raw;
    jinja_value out = copied(m, self);
    jinja_list *l = out.as.list;
    jinja_value *keys = jinja_take(m, (l->count + 1) * sizeof *keys);
    for (size_t i = 0; i < l->count; i++) keys[i] = sort_key(m, l->items[i], given[2], jinja_truth(m, given[1]));
    sort_items(m, l->items, keys, l->count, jinja_truth(m, given[0]));
    return out;
}

FILTER(filter_dictsort)
{
    (void)raw;
    if (self.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "%s", self.as.text->data);
    if (self.type != JINJA_DICT) jinja_fail(m, QLFT_EFORMAT, "dictsort takes a dict, not %s", jinja_type_name(self));
    bool by_value = given[1].type == JINJA_STRING && jinja_text_is(given[1].as.text, "value");
    if (!by_value && given[1].type != JINJA_ABSENT && !(given[1].type == JINJA_STRING && jinja_text_is(given[1].as.text, "key"))) {
        jinja_fail(m, QLFT_EFORMAT, "You can only sort by either \"key\" or \"value\"");
    }
    const jinja_dict *d = self.as.dict;
    jinja_value out = jinja_list_new(m, JINJA_LIST, NULL);
    jinja_value *keys = jinja_take(m, (d->count + 1) * sizeof *keys);
    for (size_t i = 0; i < d->count; i++) {
        jinja_list_add(m, out, jinja_pair(m, d->keys[i], d->values[i]));
        keys[i] = by_value ? d->values[i] : d->keys[i];
        if (!jinja_truth(m, given[0])) keys[i] = without_case(m, keys[i]);
    }
    sort_items(m, out.as.list->items, keys, d->count, jinja_truth(m, given[2]));
    return out;
}

static jinja_value extreme_key(jinja_machine *m, jinja_value item, const jinja_value *given)
{
    jinja_value key = get_path(m, item, given[1]);
    return jinja_truth(m, given[0]) ? key : without_case(m, key);
}

static jinja_value extreme(jinja_machine *m, jinja_value self, const jinja_value *given, bool largest)
{
    const jinja_list *l = jinja_walk(m, self);
    if (l->count == 0) return jinja_undefined(m, "No aggregated item, sequence was empty.");
    size_t best = 0;
    jinja_value best_key = extreme_key(m, l->items[0], given);
    for (size_t i = 1; i < l->count; i++) {
        jinja_value key = extreme_key(m, l->items[i], given);
        if (jinja_order(m, key, best_key, largest ? ">" : "<") != (largest ? 1 : -1)) continue;
        best = i;
        best_key = key;
    }
    return l->items[best];
}

FILTER(filter_min)
{
    (void)raw;
    return extreme(m, self, given, false);
}

FILTER(filter_max)
{
    (void)raw;
    return extreme(m, self, given, true);
}

FILTER(filter_sum)
{
    (void)raw;
    const jinja_list *l = jinja_walk(m, self);
    jinja_value total = given[1].type == JINJA_ABSENT ? jinja_int(0) : given[1];
    if (total.type == JINJA_STRING) jinja_fail(m, QLFT_EFORMAT, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < l->count; i++) total = jinja_binary(m, '+', total, get_path(m, l->items[i], given[0]));
    return total;
}

FILTER(filter_unique)
{
    (void)raw;
    const jinja_list *l = jinja_walk(m, self);
    jinja_value out = jinja_list_new(m, JINJA_ITERATOR, "generator"), seen = jinja_list_new(m, JINJA_LIST, NULL);
    for (size_t i = 0; i < l->count; i++) {
        jinja_value key = get_path(m, l->items[i], given[1]);
        if (!jinja_truth(m, given[0])) key = without_case(m, key);
        if (key.type == JINJA_LIST || key.type == JINJA_DICT) jinja_fail(m, QLFT_EFORMAT, "unhashable type: '%s'", jinja_type_name(key));
        if (jinja_contains(m, seen, key)) continue;
        jinja_list_add(m, seen, key);
        jinja_list_add(m, out, l->items[i]);
    }
    return out;
}

FILTER(filter_join)
{
    (void)raw;
    const jinja_list *l = jinja_walk(m, self);
    const jinja_text *between = given[0].type == JINJA_ABSENT ? jinja_words(m, "").as.text : jinja_str(m, given[0]);
    jinja_writer w = {.m = m};
    for (size_t i = 0; i < l->count; i++) {
        if (i) jinja_put_text(&w, between, 0, between->bytes);
        jinja_put_str(&w, get_path(m, l->items[i], given[1]));
        jinja_spend(m, 1);
    }
    return jinja_written_value(&w);
}

FILTER(filter_first)
{
    UNUSED_ARGUMENTS;
    const jinja_list *l = jinja_walk(m, self);
    return l->count ? l->items[0] : jinja_undefined(m, "No first item, sequence was empty.");
}

FILTER(filter_last)
{
    UNUSED_ARGUMENTS;
    if (self.type == JINJA_ITERATOR) jinja_fail(m, QLFT_EFORMAT, "'%s' object is not reversible", jinja_type_name(self));
    const jinja_list *l = jinja_walk(m, self);
    return l->count ? l->items[l->count - 1] : jinja_undefined(m, "No last item, sequence was empty.");
}

FILTER(filter_list)
{
    UNUSED_ARGUMENTS;
    return copied(m, self);
}

FILTER(filter_reverse)
{
    UNUSED_ARGUMENTS;
    const jinja_list *l = jinja_walk(m, self);
    jinja_value out = jinja_list_new(m, JINJA_ITERATOR, "list_reverseiterator");
    for (size_t i = l->count; i-- > 0;) jinja_list_add(m, out, l->items[i]);
    if (self.type != JINJA_STRING) return out;
    jinja_writer w = {.m = m};
    for (size_t i = 0; i < out.as.list->count; i++) jinja_put_str(&w, out.as.list->items[i]);
    return self.as.text->bytes ? jinja_written_value(&w) : self;
}

FILTER(filter_items)
{
    UNUSED_ARGUMENTS;
    jinja_value out = jinja_list_new(m, JINJA_ITERATOR, "generator");
    if (self.type == JINJA_UNDEFINED) return out;
    if (self.type != JINJA_DICT) jinja_fail(m, QLFT_EFORMAT, "Can only get item pairs from a mapping.");
    for (size_t i = 0; i < self.as.dict->count; i++) jinja_list_add(m, out, jinja_pair(m, self.as.dict->keys[i], self.as.dict->values[i]));
    return out;
}

FILTER(filter_batch)
{
    (void)raw;
    const jinja_list *l = jinja_walk(m, self);
    if (given[0].type != JINJA_INT || given[0].as.integer < 1) jinja_fail(m, QLFT_EFORMAT, "batch takes a positive number");
    if (given[0].as.integer > 1000000) jinja_unsupported(m, "batches of more than a million");
    size_t wanted = (size_t)given[0].as.integer;
    jinja_value out = jinja_list_new(m, JINJA_ITERATOR, "generator"), row = jinja_none();
    for (size_t i = 0; i < l->count; i++) {
        if (i % wanted == 0) {
            row = jinja_list_new(m, JINJA_LIST, NULL);
            jinja_list_add(m, out, row);
        }
        jinja_list_add(m, row, l->items[i]);
    }
    for (size_t i = l->count; l->count && is_given(given[1]) && i % wanted != 0; i++) jinja_list_add(m, row, given[1]);
    return out;
}

/* ---- select, reject, map ---- */
static jinja_arguments arguments_from(const jinja_arguments *raw, size_t first)
{
    jinja_arguments rest = *raw;
    rest.given = rest.given ? rest.given + (first < raw->count ? first : raw->count) : NULL;
    rest.count = first < raw->count ? raw->count - first : 0;
    return rest;
}

static jinja_value selected(jinja_machine *m, jinja_value self, const jinja_arguments *raw, bool by_attribute, bool wanted, const char *name)
{
    size_t test_at = by_attribute ? 1 : 0;
    jinja_value out = jinja_list_new(m, JINJA_ITERATOR, "generator");
    if (!jinja_truth(m, self)) return out; /* before anything is asked of it: none is nothing to select from */
    const jinja_list *l = jinja_walk(m, self);
    if (raw->count < test_at) jinja_fail(m, QLFT_EFORMAT, "%s misses the name of an attribute", name);
    if (raw->count > test_at && raw->given[test_at].type != JINJA_STRING) jinja_fail(m, QLFT_EFORMAT, "%s: the name of a test must be a string", name);
    jinja_arguments rest = arguments_from(raw, test_at + 1);
    for (size_t i = 0; i < l->count; i++) {
        jinja_value v = by_attribute ? get_path(m, l->items[i], raw->given[0]) : l->items[i];
        bool passes = raw->count > test_at ? jinja_test(m, v, raw->given[test_at].as.text, &rest) : jinja_truth(m, v);
        if (passes == wanted) jinja_list_add(m, out, l->items[i]);
    }
    return out;
}

FILTER(filter_select)
{
    (void)given;
    return selected(m, self, raw, false, true, "select");
}

FILTER(filter_reject)
{
    (void)given;
    return selected(m, self, raw, false, false, "reject");
}

FILTER(filter_selectattr)
{
    (void)given;
    return selected(m, self, raw, true, true, "selectattr");
}

FILTER(filter_rejectattr)
{
    (void)given;
    return selected(m, self, raw, true, false, "rejectattr");
}

FILTER(filter_map)
{
    (void)given;
    jinja_value out = jinja_list_new(m, JINJA_ITERATOR, "generator"), path = jinja_none(), missing = jinja_none();
    if (!jinja_truth(m, self)) return out;
    const jinja_list *l = jinja_walk(m, self);
    bool by_attribute = raw->count == 0;
    for (size_t i = 0; by_attribute && i < raw->named_count; i++) {
        if (jinja_text_is(raw->names[i], "attribute")) {
            path = raw->named[i];
        } else if (jinja_text_is(raw->names[i], "default")) {
            missing = raw->named[i];
        } else {
            jinja_fail(m, QLFT_EFORMAT, "Unexpected keyword argument '%s'", raw->names[i]->data);
        }
    }
    if (by_attribute && path.type == JINJA_NONE) jinja_fail(m, QLFT_EFORMAT, "map requires a filter argument");
    if (!by_attribute && raw->given[0].type != JINJA_STRING) jinja_fail(m, QLFT_EFORMAT, "map: the name of a filter must be a string");
    jinja_arguments rest = arguments_from(raw, 1);
    for (size_t i = 0; i < l->count; i++) {
        jinja_value v = by_attribute ? get_path(m, l->items[i], path) : jinja_filter(m, l->items[i], raw->given[0].as.text, &rest);
        if (by_attribute && v.type == JINJA_UNDEFINED && missing.type != JINJA_NONE) v = missing;
        jinja_list_add(m, out, v);
    }
    return out;
}

const jinja_function jinja_list_filters[] = {
    {"sort", filter_sort, "reverse case_sensitive attribute", 0, false},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", 0, false},
    {"min", filter_min, "case_sensitive attribute", 0, false},
    {"max", filter_max, "case_sensitive attribute", 0, false},
    {"sum", filter_sum, "attribute start", 0, false},
    {"unique", filter_unique, "case_sensitive attribute", 0, true},
    {"join", filter_join, "d attribute", 0, false},
    {"first", filter_first, "", 0, false},
    {"last", filter_last, "", 0, false},
    {"list", filter_list, "", 0, false},
    {"reverse", filter_reverse, "", 0, false},
    {"items", filter_items, "", 0, true},
    {"batch", filter_batch, "linecount fill_with", 1, true},
    {"select", filter_select, NULL, 0, true},
    {"reject", filter_reject, NULL, 0, true},
    {"selectattr", filter_selectattr, NULL, 0, true},
    {"rejectattr", filter_rejectattr, NULL, 0, true},
    {"map", filter_map, NULL, 0, true},
    {NULL, NULL, NULL, 0, false},
};
