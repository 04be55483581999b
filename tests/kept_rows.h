/* Rows of a data file as data_each_row gives them, kept for the tests, and the tokenizers of the cases. */
#ifndef TESTS_KEPT_ROWS_H
#define TESTS_KEPT_ROWS_H

#include "data_files.h"

static inline void copy_case(const char *from, const char *folder, const char *to)
{
    char *text, path[512];
    size_t bytes;
    if (!file_exists(case_path(from))) return;
    cr_assert_eq(file_read_text(&text, &bytes, case_path(from), 1 << 20), QLFT_OK);
    snprintf(path, sizeof path, "%s/%s", folder, to);
    cr_assert_eq(file_write_text(path, text), QLFT_OK);
    free(text);
}

/* The tokenizer of case `id` ("b14"), laid out as a model folder. */
static inline tokenizer *open_case(const char *id)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "generation_config.json"};
    const char *folder = test_path(id);
    tokenizer *t;
    cr_assert_eq(folder_make(folder), QLFT_OK);
    for (int i = 0; i < 3; i++) {
        char from[64];
        snprintf(from, sizeof from, "%s_%s", id, names[i]);
        copy_case(from, folder, names[i]);
    }
    cr_assert_eq(tokenizer_open(&t, folder), QLFT_OK, "%s", qlft_last_error());
    return t;
}

typedef struct kept_row {
    int64_t line;
    bool bad;
    char error[512];
    char *text;
    size_t text_bytes, count;
    int32_t *ids, *labels;
} kept_row;

typedef struct kept_rows {
    int count;
    kept_row row[16];
} kept_rows;

static inline void *copy_of(const void *data, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    if (bytes) memcpy(copy, data, bytes);
    copy[bytes] = '\0';
    return copy;
}

static inline bool keep(void *payload, const data_row *row)
{
    kept_rows *rows = payload;
    cr_assert(rows->count < 16);
    kept_row *to = &rows->row[rows->count++];
    to->line = row->line;
    to->bad = row->bad;
    memcpy(to->error, row->error, sizeof to->error);
    to->text = copy_of(row->text, row->text_bytes);
    to->text_bytes = row->text_bytes;
    to->count = row->count;
    to->ids = copy_of(row->ids, row->count * sizeof *row->ids);
    to->labels = copy_of(row->labels, row->count * sizeof *row->labels);
    return true;
}

static inline void read_rows(kept_rows *rows, const tokenizer *t, const char *path, data_options o)
{
    memset(rows, 0, sizeof *rows);
    o.paths = &path;
    o.path_count = 1;
    cr_assert_eq(data_each_row(&o, t, keep, rows), QLFT_OK, "%s", qlft_last_error());
}

static inline void free_rows(kept_rows *rows)
{
    for (int i = 0; i < rows->count; i++) {
        free(rows->row[i].text);
        free(rows->row[i].ids);
        free(rows->row[i].labels);
    }
}

static inline int targets_of(const kept_row *r)
{
    int targets = 0;
    for (size_t i = 1; i < r->count; i++) targets += r->labels[i] != -100;
    return targets;
}

static inline void assert_ids(const int32_t *got, size_t got_count, const int32_t *expected, size_t count)
{
    cr_assert_eq(got_count, count, "%zu instead of %zu", got_count, count);
    for (size_t i = 0; i < count; i++) cr_assert_eq(got[i], expected[i], "at %zu: %d instead of %d", i, got[i], expected[i]);
}
#define ASSERT_IDS(got, count, ...) assert_ids(got, count, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static inline void assert_text(const kept_row *r, const char *text, size_t bytes)
{
    cr_assert(!r->bad, "%s", r->error);
    cr_assert_eq(r->text_bytes, bytes, "%zu bytes: %s", r->text_bytes, r->text);
    cr_assert_eq(memcmp(r->text, text, bytes), 0, "%s", r->text);
}
#define ASSERT_TEXT(row, literal) assert_text(row, literal, sizeof(literal) - 1)

static const data_options no_options;

#endif
