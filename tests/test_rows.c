/* Rows of every format to text, ids and labels. Expected values are those of cases.json, written out; the tokenizers are the cases' own. */
#include <sys/stat.h>

#include "core/json.h"
#include "data_files.h"

TestSuite(rows, .init = test_begin, .fini = test_end);
TestSuite(chat_rows, .init = test_begin, .fini = test_end);

/* ---- helpers ---- */

static void copy_case(const char *from, const char *folder, const char *to)
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
static tokenizer *open_case(const char *id)
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

static void *copy_of(const void *data, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    if (bytes) memcpy(copy, data, bytes);
    copy[bytes] = '\0';
    return copy;
}

static bool keep(void *payload, const data_row *row)
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

static void read_rows(kept_rows *rows, const tokenizer *t, const char *path, data_options o)
{
    memset(rows, 0, sizeof *rows);
    o.paths = &path;
    o.path_count = 1;
    cr_assert_eq(data_each_row(&o, t, keep, rows), QLFT_OK, "%s", qlft_last_error());
}

static void free_rows(kept_rows *rows)
{
    for (int i = 0; i < rows->count; i++) {
        free(rows->row[i].text);
        free(rows->row[i].ids);
        free(rows->row[i].labels);
    }
}

static int targets_of(const kept_row *r)
{
    int targets = 0;
    for (size_t i = 1; i < r->count; i++) targets += r->labels[i] != -100;
    return targets;
}

static void assert_ids(const int32_t *got, size_t got_count, const int32_t *expected, size_t count)
{
    cr_assert_eq(got_count, count, "%zu instead of %zu", got_count, count);
    for (size_t i = 0; i < count; i++) cr_assert_eq(got[i], expected[i], "at %zu: %d instead of %d", i, got[i], expected[i]);
}
#define ASSERT_IDS(got, count, ...) assert_ids(got, count, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void assert_text(const kept_row *r, const char *text, size_t bytes)
{
    cr_assert(!r->bad, "%s", r->error);
    cr_assert_eq(r->text_bytes, bytes, "%zu bytes: %s", r->text_bytes, r->text);
    cr_assert_eq(memcmp(r->text, text, bytes), 0, "%s", r->text);
}
#define ASSERT_TEXT(row, literal) assert_text(row, literal, sizeof(literal) - 1)

static const data_options no_options;

/* ---- text, prompt, alpaca ---- */

Test(rows, a01_a03_texts)
{
    tokenizer *t = open_case("b10");
    kept_rows rows;
    read_rows(&rows, t, case_path("a01_bom.jsonl"), no_options);
    cr_assert_eq(rows.count, 3);
    ASSERT_TEXT(&rows.row[0], "Alpha one");
    ASSERT_TEXT(&rows.row[1], "Beta \xef\xbb\xbf two");
    ASSERT_TEXT(&rows.row[2], "Gamma");
    free_rows(&rows);
    read_rows(&rows, t, case_path("a03_crlf_blank_noeol.jsonl"), no_options);
    cr_assert_eq(rows.count, 3);
    ASSERT_TEXT(&rows.row[0], "one\r\ntwo");
    ASSERT_TEXT(&rows.row[1], "three");
    ASSERT_TEXT(&rows.row[2], "four");
    cr_assert_eq(rows.row[2].line, 6);
    free_rows(&rows);
    tokenizer_close(t);
}

Test(rows, a05_nul_is_data)
{
    tokenizer *t = open_case("b10");
    kept_rows rows;
    read_rows(&rows, t, case_path("a05_nul_escape.jsonl"), no_options);
    cr_assert_eq(rows.count, 3);
    ASSERT_TEXT(&rows.row[0], "ab\0cd");
    ASSERT_TEXT(&rows.row[1], "p\0qr\0s");
    ASSERT_IDS(rows.row[1].ids, rows.row[1].count, 256, 'p', 0, 'q', 'r', 0, 's', 257);
    ASSERT_IDS(rows.row[1].labels, rows.row[1].count, -100, -100, -100, -100, 'r', 0, 's', 257);
    cr_assert(rows.row[2].bad);
    cr_assert_eq(rows.row[2].line, 3);
    free_rows(&rows);
    tokenizer_close(t);
}

Test(rows, a06_bytes_that_are_not_utf8)
{
    static const char *const offsets[] = {"", "", "offset 11", "offset 13", "offset 18", "offset 14", "offset 17"};
    tokenizer *t = open_case("b10");
    const char *path = case_path("a06_bad_utf8.jsonl");
    kept_rows rows;
    read_rows(&rows, t, path, no_options);
    cr_assert_eq(rows.count, 7);
    ASSERT_TEXT(&rows.row[0], "fine one");
    ASSERT_TEXT(&rows.row[6], "fine two \xc3\xa9");
    for (int line = 2; line <= 6; line++) {
        cr_assert(rows.row[line - 1].bad);
        cr_assert_eq(rows.row[line - 1].line, line);
        cr_assert(strstr(rows.row[line - 1].error, offsets[line]), "line %d: %s", line, rows.row[line - 1].error);
    }
    free_rows(&rows);
    data_options o = {.paths = &path, .path_count = 1};
    dataset *s;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_EFORMAT);
    assert_message("a06_bad_utf8.jsonl line 2");
    assert_message("offset 11");
    o.on_bad_row = BAD_ROW_SKIP;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_OK);
    cr_assert_eq(dataset_size(s), 2);
    cr_assert_eq(dataset_counts(s).bad, 5);
    dataset_close(s);
    tokenizer_close(t);
}

Test(rows, a08_wrong_types_are_named)
{
    static const char *const said[][2] = {
        {"\"output\"", "a number"}, {"\"completion\"", "a number"},     {"\"text\"", "true"}, {"\"text\"", "a list"}, {"\"output\"", "an object"},
        {"\"output\"", "missing"},  {"\"question\"", "no known field"},
    };
    tokenizer *t = open_case("b10");
    kept_rows rows;
    read_rows(&rows, t, case_path("a08_wrong_types_missing.jsonl"), no_options);
    cr_assert_eq(rows.count, 8);
    for (int i = 0; i < 7; i++) {
        cr_assert(rows.row[i].bad, "line %d", i + 1);
        for (int k = 0; k < 2; k++) cr_assert(strstr(rows.row[i].error, said[i][k]), "line %d: %s", i + 1, rows.row[i].error);
    }
    cr_assert(!rows.row[7].bad);
    free_rows(&rows);
    tokenizer_close(t);
}

Test(rows, a16_long_rows)
{
    tokenizer *t = open_case("b10");
    size_t bytes = 300003, used;
    char *text = malloc(4 << 20);
    used = (size_t)sprintf(text, "{\"text\":\"");
    for (int i = 0; i < 100000; i++, used += 3) memcpy(text + used, "ab ", 3);
    used += (size_t)sprintf(text + used, "END\"}\n{\"text\":\"next\"}\n");
    kept_rows rows;
    read_rows(&rows, t, write_bytes("a.jsonl", text, used), no_options);
    cr_assert_eq(rows.count, 2);
    cr_assert_eq(rows.row[0].text_bytes, bytes);
    cr_assert_str_eq(rows.row[0].text + bytes - 3, "END");
    ASSERT_TEXT(&rows.row[1], "next");
    free_rows(&rows);
    used = (size_t)sprintf(text, "{\"text\":\"");
    memset(text + used, 'x', 3145728);
    used += 3145728;
    used += (size_t)sprintf(text + used, "\"}");
    read_rows(&rows, t, write_bytes("b.jsonl", text, used), no_options);
    cr_assert_eq(rows.count, 1);
    cr_assert_eq(rows.row[0].text_bytes, 3145728);
    free_rows(&rows);
    free(text);
    tokenizer_close(t);
}

Test(rows, a17_array_is_alpaca_without_a_template)
{
    tokenizer *t = open_case("b10");
    kept_rows rows;
    read_rows(&rows, t, case_path("a17_array.json"), no_options);
    cr_assert_eq(rows.count, 2);
    /* tatsu-lab/stanford_alpaca, train.py, PROMPT_DICT */
    ASSERT_TEXT(&rows.row[0], "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
                              "### Instruction:\ni1\n\n### Response:o1");
    ASSERT_TEXT(&rows.row[1], "Below is an instruction that describes a task, paired with an input that provides further context. "
                              "Write a response that appropriately completes the request.\n\n### Instruction:\ni2\n\n### Input:\nn2\n\n### Response:o2");
    cr_assert_eq(targets_of(&rows.row[0]), 3);
    ASSERT_IDS(rows.row[0].labels + rows.row[0].count - 4, 4, -100, 'o', '1', 257);
    free_rows(&rows);
    read_rows(&rows, t, case_path("a17_pretty.jsonl"), no_options);
    cr_assert_eq(rows.count, 1);
    ASSERT_TEXT(&rows.row[0], "spread over lines");
    free_rows(&rows);
    tokenizer_close(t);
}

Test(rows, a18_rows_without_an_answer)
{
    tokenizer *t = open_case("b14");
    const char *path = write_text("a18.jsonl", "{\"prompt\": \"q\", \"completion\": \"\"}\n{\"text\": \"\"}\n");
    kept_rows rows;
    read_rows(&rows, t, path, no_options);
    ASSERT_IDS(rows.row[0].ids, rows.row[0].count, 2, 'q' + 5, 1);
    ASSERT_IDS(rows.row[0].labels, rows.row[0].count, -100, -100, 1);
    free_rows(&rows);
    data_options o = {.paths = &path, .path_count = 1};
    dataset *s;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_OK);
    cr_assert_eq(dataset_size(s), 1);
    cr_assert_eq(dataset_counts(s).unsupervised, 1);
    cr_assert_eq(dataset_counts(s).supervised, 1);
    dataset_close(s);
    tokenizer_close(t);
}

Test(rows, b01_one_bos)
{
    tokenizer *t = open_case("b01");
    kept_rows rows;
    read_rows(&rows, t, write_text("b01.jsonl", "{\"text\": \"hi ok\"}\n{\"text\": \"<|bos|>hi ok\"}\n{\"text\": \"hi ok<|eot|>\"}\n"), no_options);
    ASSERT_IDS(rows.row[0].ids, 4, 258, 256, 32, 257);
    for (int i = 0; i < 3; i++) {
        ASSERT_IDS(rows.row[i].ids, rows.row[i].count, 258, 256, 32, 257, 262);
        cr_assert_eq(targets_of(&rows.row[i]), 4);
    }
    free_rows(&rows);
    /* --raw: the text alone */
    data_options o = {.raw = true};
    read_rows(&rows, t, write_text("raw.jsonl", "{\"messages\": 3, \"text\": \"hi<|eot|>\"}\n"), o);
    ASSERT_IDS(rows.row[0].ids, rows.row[0].count, 256, 262);
    free_rows(&rows);
    o.no_special = true;
    read_rows(&rows, t, test_path("raw.jsonl"), o);
    ASSERT_IDS(rows.row[0].ids, rows.row[0].count, 256, '<', '|', 'e', 'o', 't', '|', '>');
    free_rows(&rows);
    tokenizer_close(t);
}

Test(rows, b10_ids_outside_the_model)
{
    tokenizer *t = open_case("b10");
    const char *path = case_path("b10_rows.jsonl");
    kept_rows rows;
    read_rows(&rows, t, path, no_options);
    ASSERT_IDS(rows.row[0].ids, 6, 256, 112, 108, 97, 105, 110);
    ASSERT_IDS(rows.row[1].ids, 4, 256, 97, 258, 120);
    free_rows(&rows);
    data_options o = {.paths = &path, .path_count = 1, .vocabulary = 258};
    dataset *s;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_EFORMAT);
    assert_message("b10_rows.jsonl line 2");
    assert_message("<|new|>");
    assert_message("id 258");
    assert_message("258 ids, 0 to 257");
    o.vocabulary = 320;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_OK);
    cr_assert_eq(dataset_size(s), 2);
    dataset_close(s);
    tokenizer_close(t);
}

Test(rows, b15_cut_rows_get_no_eos)
{
    tokenizer *t = open_case("b14");
    const char *path = case_path("b15_rows.jsonl");
    kept_rows rows;
    data_options o = {.max_tokens = 9};
    read_rows(&rows, t, path, o);
    cr_assert_eq(rows.count, 2);
    ASSERT_IDS(rows.row[0].ids, rows.row[0].count, 2, 102, 103, 104, 105, 106, 107, 108, 109);
    ASSERT_IDS(rows.row[0].labels, rows.row[0].count, -100, -100, -100, -100, -100, 106, 107, 108, 109);
    ASSERT_IDS(rows.row[1].ids, rows.row[1].count, 2, 53, 54, 55, 56, 57, 58, 59, 60);
    free_rows(&rows);
    o.on_long = LONG_SPLIT;
    path = write_text("split.jsonl", "{\"text\": \"0123456789abcdef\"}\n");
    read_rows(&rows, t, path, o);
    cr_assert_eq(rows.count, 3);
    ASSERT_IDS(rows.row[1].ids, rows.row[1].count, 2, 61, 62, 102, 103, 104, 105, 106, 107);
    ASSERT_IDS(rows.row[1].labels, rows.row[1].count, -100, 61, 62, 102, 103, 104, 105, 106, 107);
    ASSERT_IDS(rows.row[2].ids, rows.row[2].count, 2, 1);
    free_rows(&rows);
    /* A text file is split, not cut: its end would be lost. */
    o.on_long = LONG_TRUNCATE;
    read_rows(&rows, t, write_text("book.txt", "0123456789abcdef"), o);
    cr_assert_eq(rows.count, 3);
    free_rows(&rows);
    tokenizer_close(t);
}

Test(rows, d01_d05_targets)
{
    tokenizer *t = open_case("b14");
    kept_rows rows;
    read_rows(&rows, t, case_path("d01_uneven_rows.jsonl"), no_options);
    cr_assert_eq(targets_of(&rows.row[0]), 2);
    cr_assert_eq(targets_of(&rows.row[1]), 41);
    free_rows(&rows);
    const char *path = case_path("d05_pack_rows.jsonl");
    data_options o = {.paths = &path, .path_count = 1};
    dataset *s;
    batcher *b;
    batch out;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_OK);
    batch_options packed = {.batch = 1, .seq = 64, .accum = 1, .packing = true};
    cr_assert_eq(batcher_open(&b, s, &packed), QLFT_OK);
    cr_assert_eq(batcher_start(b, 0), QLFT_OK);
    cr_assert_eq(batcher_micro_batches(b), 1);
    cr_assert_eq(batch_alloc(&out, batcher_max_tokens(b)), QLFT_OK);
    cr_assert_eq(batcher_get(b, 0, &out), QLFT_OK);
    cr_assert_eq(out.counted, 10); /* with BOS */
    cr_assert_eq(out.count, 5 + 7);
    cr_assert_eq(out.positions[5], 0);
    cr_assert_eq(out.targets[4], -1);
    batch_free(&out);
    batcher_close(b);
    dataset_close(s);
    tokenizer_close(t);
}

Test(rows, a10_visits_with_a_tokenizer)
{
    tokenizer *t = open_case("b14");
    const char *path = case_path("a10_three_rows.jsonl");
    data_options o = {.paths = &path, .path_count = 1};
    batch_options eight = {.batch = 8, .seq = 2048, .accum = 4, .shuffle = true, .packing = true};
    dataset *s;
    batcher *b;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_OK);
    cr_assert_eq(batcher_open(&b, s, &eight), QLFT_OK);
    int visits[3] = {0}, steps = 0;
    batch out;
    cr_assert_eq(batch_alloc(&out, batcher_max_tokens(b)), QLFT_OK);
    for (int epoch = 0; epoch < 2; epoch++) {
        cr_assert_eq(batcher_start(b, epoch), QLFT_OK);
        steps += (int)batcher_steps(b);
        for (int64_t i = 0; i < batcher_micro_batches(b); i++) {
            cr_assert_eq(batcher_get(b, i, &out), QLFT_OK);
            for (int64_t k = 0; k < out.sample_count; k++) visits[out.samples[k]]++;
        }
    }
    cr_assert_eq(steps, 2);
    for (int i = 0; i < 3; i++) cr_assert_eq(visits[i], 2);
    batch_free(&out);
    batcher_close(b);
    dataset_close(s);
    tokenizer_close(t);
}

/* A token that lies across the border of prompt and answer is a target. "hi" + " ok" are the words of case B01's tokenizer: "h" | "i ok" cuts the first. */
Test(rows, a_token_across_the_border_is_a_target)
{
    tokenizer *t = open_case("b01");
    kept_rows rows;
    read_rows(&rows, t, write_text("x.jsonl", "{\"prompt\": \"a h\", \"completion\": \"i ok\"}\n{\"prompt\": \"a hi\", \"completion\": \" ok\"}\n"),
              no_options);
    ASSERT_IDS(rows.row[0].ids, rows.row[0].count, 258, 'a', 32, 256, 32, 257, 262);
    ASSERT_IDS(rows.row[0].labels, rows.row[0].count, -100, -100, -100, 256, 32, 257, 262);
    ASSERT_IDS(rows.row[1].labels, rows.row[1].count, -100, -100, -100, -100, 32, 257, 262);
    free_rows(&rows);
    data_options all = {.train_on = TRAIN_ON_ALL};
    read_rows(&rows, t, test_path("x.jsonl"), all);
    cr_assert_eq(targets_of(&rows.row[0]), 6);
    free_rows(&rows);
    tokenizer_close(t);
}

/* ---- conversations ---- */

/* The targets of a row in case B14's tokenizer, which has a token a byte (id - 5) and <end_of_turn> (4), shown as '|'; others as '?'. */
static const char *targets_text(const kept_row *r)
{
    static char text[256];
    size_t used = 0;
    for (size_t i = 1; i < r->count && used + 1 < sizeof text; i++)
        if (r->labels[i] != -100) text[used++] = r->labels[i] == 4 ? '|' : r->labels[i] >= 5 ? (char)(r->labels[i] - 5) : '?';
    text[used] = '\0';
    return text;
}

#define TURN(role, content) "<start_of_turn>" role "\n" content "<end_of_turn>\n"

Test(chat_rows, a11_sharegpt)
{
    tokenizer *t = open_case("b14");
    kept_rows rows;
    read_rows(&rows, t, case_path("a11_sharegpt.jsonl"), no_options);
    cr_assert_eq(rows.count, 4);
    ASSERT_TEXT(&rows.row[0], "<bos>" TURN("system", "Be brief.") TURN("user", "one?") TURN("model", "1") TURN("user", "two?") TURN("model", "2"));
    ASSERT_TEXT(&rows.row[1], "<bos>" TURN("system", "Be brief.") TURN("user", "three?") TURN("model", "3"));
    ASSERT_TEXT(&rows.row[2], "<bos>" TURN("user", "four?") TURN("model", "4"));
    cr_assert_str_eq(targets_text(&rows.row[0]), "1|2|");
    cr_assert_str_eq(targets_text(&rows.row[1]), "3|");
    cr_assert_str_eq(targets_text(&rows.row[2]), "4|");
    cr_assert(rows.row[3].bad);
    cr_assert_eq(rows.row[3].line, 4);
    cr_assert(strstr(rows.row[3].error, "narrator"), "%s", rows.row[3].error);
    free_rows(&rows);
    tokenizer_close(t);
}

Test(chat_rows, a13_content_parts)
{
    tokenizer *t = open_case("b14");
    kept_rows rows;
    read_rows(&rows, t, case_path("a13_content_parts.jsonl"), no_options);
    cr_assert_eq(rows.count, 5);
    for (int i = 0; i < 2; i++) {
        assert_ids(rows.row[i].ids, rows.row[i].count, rows.row[4].ids, rows.row[4].count);
        assert_ids(rows.row[i].labels, rows.row[i].count, rows.row[4].labels, rows.row[4].count);
    }
    cr_assert_str_eq(targets_text(&rows.row[4]), "Hi|");
    cr_assert(rows.row[2].bad);
    cr_assert(strstr(rows.row[2].error, "image_url"), "%s", rows.row[2].error);
    ASSERT_TEXT(&rows.row[3], "<bos>" TURN("user", "") TURN("model", "Hi"));
    cr_assert_str_eq(targets_text(&rows.row[3]), "Hi|");
    free_rows(&rows);
    tokenizer_close(t);
}

Test(chat_rows, a14_last_of_equal_keys)
{
    tokenizer *t = open_case("b14");
    kept_rows rows;
    read_rows(&rows, t, case_path("a14_duplicate_keys.jsonl"), no_options);
    ASSERT_TEXT(&rows.row[0], "second");
    ASSERT_TEXT(&rows.row[1], "<bos>" TURN("user", "a") TURN("model", "c"));
    cr_assert_str_eq(targets_text(&rows.row[1]), "c|");
    free_rows(&rows);
    tokenizer_close(t);
}

Test(chat_rows, a18_empty_turns)
{
    tokenizer *t = open_case("b14");
    const char *path = case_path("a18_empty_turns.jsonl");
    kept_rows rows;
    read_rows(&rows, t, path, no_options);
    cr_assert_str_eq(targets_text(&rows.row[0]), "|");
    cr_assert_str_eq(targets_text(&rows.row[1]), "|ok|");
    cr_assert_str_eq(targets_text(&rows.row[2]), "?"); /* EOS */
    free_rows(&rows);
    data_options o = {.paths = &path, .path_count = 1};
    dataset *s;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_OK);
    cr_assert_eq(dataset_size(s), 3);
    cr_assert_eq(dataset_counts(s).unsupervised, 1);
    cr_assert_eq(dataset_counts(s).supervised, 1 + 4 + 1);
    dataset_close(s);
    tokenizer_close(t);
}

Test(chat_rows, b01_template_writes_bos)
{
    tokenizer *t = open_case("b01");
    kept_rows rows;
    read_rows(&rows, t, case_path("b01_rows.jsonl"), no_options);
    ASSERT_TEXT(&rows.row[0], "<|bos|><|hdr|>user<|/hdr|>\nhi<|eot|><|hdr|>assistant<|/hdr|>\nok<|eot|>");
    ASSERT_IDS(rows.row[0].ids, rows.row[0].count, 258, 260, 117, 115, 101, 114, 261, 10, 256, 262, 260, 97, 115, 115, 105, 115, 116, 97, 110, 116, 261, 10,
               257, 262);
    ASSERT_IDS(rows.row[0].labels, rows.row[0].count, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100,
               -100, -100, -100, -100, -100, 257, 262);
    free_rows(&rows);
    tokenizer_close(t);
}

Test(chat_rows, b14_end_of_turn_is_learned_under_any_limit)
{
    tokenizer *t = open_case("b14");
    const int64_t limits[] = {0, 8192, 22};
    for (int i = 0; i < 3; i++) {
        data_options o = {.max_tokens = limits[i]};
        kept_rows rows;
        read_rows(&rows, t, case_path("b14_rows.jsonl"), o);
        ASSERT_TEXT(&rows.row[0], "<bos><start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\nyo<end_of_turn>\n");
        ASSERT_IDS(rows.row[0].ids, rows.row[0].count, 2, 3, 122, 120, 106, 119, 15, 109, 110, 4, 15, 3, 114, 116, 105, 106, 113, 15, 126, 116, 4, 15);
        ASSERT_IDS(rows.row[0].labels, rows.row[0].count, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100,
                   -100, 126, 116, 4, -100);
        free_rows(&rows);
    }
    tokenizer_close(t);
}

Test(chat_rows, other_forms_of_conversations)
{
    tokenizer *t = open_case("b14");
    kept_rows rows;
    read_rows(
        &rows, t,
        write_text(
            "forms.jsonl",
            /* 0: prompt and completion as messages: the prompt's answers are no targets */
            "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\"}], "
            "\"completion\": [{\"role\": \"assistant\", \"content\": \"d\"}]}\n"
            /* 1, 2: alpaca by the template */
            "{\"instruction\": \"i\", \"output\": \"o\"}\n"
            "{\"instruction\": \"i\", \"input\": \"n\", \"output\": \"o\"}\n"
            /* 3: no answer */
            "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"
            /* 4: the text of a special token inside a message is that token, as with transformers */
            "{\"messages\": [{\"role\": \"user\", \"content\": \"a<eos>\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n"),
        no_options);
    cr_assert_str_eq(targets_text(&rows.row[0]), "d|");
    ASSERT_TEXT(&rows.row[1], "<bos>" TURN("user", "i") TURN("model", "o"));
    ASSERT_TEXT(&rows.row[2], "<bos>" TURN("user", "i\n\nn") TURN("model", "o"));
    cr_assert_str_eq(targets_text(&rows.row[2]), "o|");
    cr_assert_eq(targets_of(&rows.row[3]), 0);
    cr_assert_eq(rows.row[4].ids[8], 1);
    cr_assert_str_eq(targets_text(&rows.row[4]), "b|");
    free_rows(&rows);
    const char *path = test_path("forms.jsonl");
    data_options o = {.paths = &path, .path_count = 1};
    dataset *s;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_OK);
    cr_assert_eq(dataset_counts(s).unsupervised, 1);
    cr_assert_eq(dataset_counts(s).marked, 1);
    dataset_close(s);
    tokenizer_close(t);
}

Test(chat_rows, bad_conversations_are_named)
{
    static const struct {
        const char *row, *said[2];
    } bad[] = {
        {"{\"messages\": 3}", {"\"messages\"", "a number"}},
        {"{\"messages\": []}", {"no message", ""}},
        {"{\"messages\": [\"x\"]}", {"message 1", "a string"}},
        {"{\"messages\": [{\"content\": \"x\"}]}", {"\"role\"", "missing"}},
        {"{\"messages\": [{\"role\": 1, \"content\": \"x\"}]}", {"\"role\"", "a number"}},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\"}]}", {"message 2: \"content\"", "missing"}},
        {"{\"messages\": [{\"role\": \"user\", \"content\": null}]}", {"message 1: \"content\"", "null"}},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": 3}]}]}", {"part 1", "a number"}},
        {"{\"conversations\": [{\"from\": \"human\", \"value\": {}}]}", {"\"value\"", "an object"}},
        {"{\"system\": 3, \"conversations\": [{\"from\": \"human\", \"value\": \"x\"}]}", {"\"system\"", "a number"}},
    };
    tokenizer *t = open_case("b14");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kept_rows rows;
        read_rows(&rows, t, write_text("bad.jsonl", bad[i].row), no_options);
        cr_assert_eq(rows.count, 1);
        cr_assert(rows.row[0].bad, "%s", bad[i].row);
        for (int k = 0; k < 2; k++) cr_assert(strstr(rows.row[0].error, bad[i].said[k]), "%s: %s", bad[i].row, rows.row[0].error);
        free_rows(&rows);
    }
    tokenizer_close(t);
}

Test(chat_rows, without_a_template_the_remedy_is_named)
{
    tokenizer *t = open_case("b10");
    const char *path = case_path("b14_rows.jsonl");
    data_options o = {.paths = &path, .path_count = 1};
    dataset *s;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_EARG);
    assert_message("--template");
    tokenizer_close(t);
}

/* What an answer is made of by the template, and what ends it, is found from how the template renders; these templates were written for this test. */
Test(chat_rows, turns_begin_and_end_where_generation_does)
{
    static const struct {
        const char *of, *source, *targets;
    } templates[] = {
        /* a thinking block that the model has to write itself stands behind the generation prompt */
        {"b14",
         "{%- for m in messages %}{{- '<start_of_turn>' + m.role + '\\n' }}{%- if m.role == 'assistant' %}{{- '<t>\\n</t>' }}{%- endif %}"
         "{{- m.content + '<end_of_turn>\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<start_of_turn>assistant\\n' }}{%- endif %}",
         "<t>\n</t>A|<t>\n</t>B|"},
        /* a space between the answer and its end */
        {"b14", "{%- for m in messages %}{{- m.role + ': ' + m.content + ' <end_of_turn>' }}{%- endfor %}", "A |B |"},
        /* nothing ends an answer: what begins the next turn is not its end */
        {"b14", "{%- for m in messages %}{{- '<start_of_turn>' + m.role + ':' + m.content }}{%- endfor %}", "AB"},
        {"b14", "{%- for m in messages %}{{- m.role + ': ' + m.content + '\\n' }}{%- endfor %}", "AB"},
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        tokenizer *t = open_case(templates[i].of);
        data_options o = {.template_path = write_text("t.jinja", templates[i].source)};
        kept_rows rows;
        read_rows(&rows, t,
                  write_text("turns.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"A\"}, "
                                            "{\"role\": \"user\", \"content\": \"r\"}, {\"role\": \"assistant\", \"content\": \"B\"}]}"),
                  o);
        cr_assert(!rows.row[0].bad, "%s", rows.row[0].error);
        cr_assert_str_eq(targets_text(&rows.row[0]), templates[i].targets, "template %zu: %s", i, targets_text(&rows.row[0]));
        free_rows(&rows);
        const char *path = test_path("turns.jsonl");
        o.paths = &path;
        o.path_count = 1;
        dataset *s;
        test_log[0] = '\0';
        cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_OK);
        cr_assert_eq(strstr(test_log, "where to stop") != NULL, strchr(templates[i].targets, '|') == NULL, "%s", test_log);
        dataset_close(s);
        tokenizer_close(t);
    }
}

/* The token that ends the conversation ends its turns, also where no list of stop tokens says so. */
Test(chat_rows, end_of_turn_without_a_list)
{
    tokenizer *t = open_case("b14");
    tokenizer_close(t);
    cr_assert_eq(unlink(test_path("b14/generation_config.json")), 0);
    cr_assert_eq(tokenizer_open(&t, test_path("b14")), QLFT_OK);
    kept_rows rows;
    read_rows(&rows, t, case_path("b14_rows.jsonl"), no_options);
    cr_assert_str_eq(targets_text(&rows.row[0]), "yo|");
    free_rows(&rows);
    tokenizer_close(t);
}

Test(chat_rows, prompts_for_generation)
{
    tokenizer *t = open_case("b01");
    data_options o = {.prompt_only = true};
    kept_rows rows;
    read_rows(&rows, t,
              write_text("p.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n"
                                    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"
                                    "{\"instruction\": \"a\"}\n"
                                    "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"a\"}\n"
                                    "{\"text\": \"a\"}\n"
                                    "{\"input_ids\": [1, 2, 3], \"labels\": [-100, -100, 3]}\n"
                                    "{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}]}\n"),
              o);
    cr_assert_eq(rows.count, 8);
    for (int i = 0; i < 3; i++) ASSERT_TEXT(&rows.row[i], "<|bos|><|hdr|>user<|/hdr|>\na<|eot|><|hdr|>assistant<|/hdr|>\n");
    for (int i = 3; i < 6; i++) ASSERT_IDS(rows.row[i].ids, rows.row[i].count, 258, 'a');
    ASSERT_IDS(rows.row[6].ids, rows.row[6].count, 1, 2);
    for (int i = 0; i < 7; i++) cr_assert_eq(targets_of(&rows.row[i]), 0);
    cr_assert(rows.row[7].bad);
    free_rows(&rows);
    tokenizer_close(t);
}
