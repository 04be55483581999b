/* What the tests of tokenizers share: files, encoding, and what ids, ranges and decoded texts are set beside. */
#ifndef TESTS_TOKENIZERS_H
#define TESTS_TOKENIZERS_H

#include "temporary.h"

#include "core/json.h"
#include "data/tokenizer.h"

static inline json_t *read_json(const char *path)
{
    json_t *root;
    OK(json_read_file(&root, path, (size_t)1 << 30));
    return root;
}

static inline tokenizer *open_at(const char *path)
{
    tokenizer *t;
    OK(tokenizer_open(&t, path));
    return t;
}

static inline void copy_file(const char *from, const char *to)
{
    char *text;
    size_t bytes;
    OK(file_read_text(&text, &bytes, from, (size_t)1 << 30));
    write_bytes(to, text, bytes);
    free(text);
}

static inline token_list encode(const tokenizer *t, const char *text, size_t bytes, unsigned flags)
{
    token_list list = {0};
    OK(tokenizer_encode(t, text, bytes, flags, &list));
    return list;
}

static inline void expect_ids(const token_list *list, const json_t *ids, const char *what, size_t index)
{
    bool same = list->count == json_array_size(ids);
    for (size_t i = 0; same && i < list->count; i++) same = list->items[i].id == json_integer_value(json_array_get(ids, i));
    if (same) return;
    char got[1024] = "";
    for (size_t i = 0, at = 0; i < list->count && at < sizeof got - 12; i++) at += (size_t)snprintf(got + at, sizeof got - at, "%d ", list->items[i].id);
    cr_assert(false, "%s, text %zu: wanted %s, got %s", what, index, json_dumps(ids, JSON_COMPACT), got);
}

static inline void expect_encoded(const tokenizer *t, const json_t *text, unsigned flags, const json_t *ids, const char *what, size_t index)
{
    token_list list = encode(t, json_string_value(text), json_string_length(text), flags);
    expect_ids(&list, ids, what, index);
    token_list_free(&list);
}

static inline void expect_decoded(const tokenizer *t, const token_list *list, const json_t *decoded, const char *what, size_t index)
{
    int32_t *ids = malloc((list->count + 1) * sizeof *ids);
    char *text;
    size_t bytes;
    for (size_t i = 0; i < list->count; i++) ids[i] = list->items[i].id;
    OK(tokenizer_decode(t, ids, list->count, false, &text, &bytes));
    cr_assert(bytes == json_string_length(decoded) && memcmp(text, json_string_value(decoded), bytes) == 0, "%s, text %zu: decoded to \"%s\", not \"%s\"", what,
              index, text, json_string_value(decoded));
    free(text);
    free(ids);
}

/* Ranges never step back, so that a mask by bytes is found in one pass. */
static inline void expect_in_order(const token_list *list, size_t bytes, const char *what)
{
    uint32_t start = 0, end = 0;
    for (size_t i = 0; i < list->count; i++) {
        const token_span *s = &list->items[i];
        cr_assert(s->start <= s->end && s->end <= bytes, "%s: token %zu is [%u, %u) of %zu", what, i, s->start, s->end, bytes);
        cr_assert(s->start >= start && s->end >= end, "%s: token %zu is [%u, %u), behind [%u, %u)", what, i, s->start, s->end, start, end);
        start = s->start;
        end = s->end;
    }
}

#endif
