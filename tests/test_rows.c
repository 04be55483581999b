/* Rows of text, prompts and instructions to text, ids and labels. Expected values are those of cases.json, written out; the tokenizers are the cases' own. */
#include "core/random.h"
#include "kept_rows.h"

TestSuite(rows, .init = test_begin, .fini = test_end);

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

/* Rows made of pieces that mean something, in random order, with bytes flipped: no crash (run it under the sanitizers), and no row is lost without being
 * counted. */
Test(rows, random_rows_never_crash)
{
    static const char *const pieces[] = {
        "{\"messages\": [{\"role\": \"user\", \"content\": ",
        "{\"conversations\": [{\"from\": \"gpt\", \"value\": ",
        "{\"prompt\": ",
        "\"completion\": ",
        "\"text\": ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        ": ",
        "\"x\"",
        "\"a<eos>\"",
        "\"\"",
        "\"\\u0000\"",
        "3",
        "null",
        "true",
        "[{\"type\": \"text\", \"text\": \"p\"}]",
        "{\"role\": \"assistant\", \"content\": \"b\"}",
        "}, {\"role\": \"assistant\", \"content\": \"y\"}]}\n",
        "{\"text\": \"t\"}\n",
        "{\"prompt\": \"p\", \"completion\": \"c\"}\n",
        "\n",
        "{\"instruction\": \"i\", \"output\": \"o\"}\n",
    };
    tokenizer *t = open_case("b14");
    random_key key = random_key_of(9, RANDOM_TEST, 2, 0);
    uint64_t at = 0;
    int used_sets = 0;
    for (int round = 0; round < 300; round++) {
        char text[4096];
        size_t used = 0;
        for (uint32_t n = random_uint(key, at++) % 40; n > 0; n--)
            used += (size_t)sprintf(text + used, "%s", pieces[random_uint(key, at++) % (sizeof pieces / sizeof *pieces)]);
        if (used > 0 && round % 3 == 0) {
            size_t where = random_uint(key, at++) % used;
            text[where] = (char)random_uint(key, at++);
        }
        const char *path = write_bytes(round % 5 ? "f.jsonl" : "f.txt", text, used);
        data_options o = {.paths = &path, .path_count = 1, .on_bad_row = BAD_ROW_SKIP, .max_tokens = round % 2 ? 6 : 0, .vocabulary = 300};
        dataset *s;
        qlft_status status = dataset_open(&s, &o, t, NULL, NULL, NULL);
        cr_assert(status == QLFT_OK || status == QLFT_EFORMAT, "%s", qlft_last_error());
        if (status != QLFT_OK) continue;
        data_counts c = dataset_counts(s);
        if (c.split == 0) cr_assert_eq(c.rows, c.samples + c.bad + c.unsupervised);
        used_sets++;
        dataset_close(s);
    }
    cr_assert_gt(used_sets, 30);
    tokenizer_close(t);
}
