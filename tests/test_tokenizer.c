/* data/tokenizer*.c. The oracles: the package tokenizers (golden/tokenizers/steps.json, made by golden/make_tokenizers.py), spm_encode of sentencepiece
 * (golden/spm, by make_spm.sh), the cases of golden/cases, and transformers on the published SmolLM2 (../shared/golden/real/tokens.json). GGUF files and
 * damaged ones: test_tokenizer_gguf.c, test_tokenizer_bad.c.
 *
 * Environment, each optional:
 *   QLFT_TEST_MODEL_DIR   SmolLM2-135M-Instruct as a model folder
 *   QLFT_TEST_GGUF        the same as a GGUF file
 *   QLFT_TEST_STEPS       another file of make_tokenizers.py in place of golden/tokenizers/steps.json */
#include "tokenizers.h"

#include <pthread.h>
#include <time.h>

TestSuite(tokenizer, .init = make_folder, .fini = drop_folder);

/* ---- every step of tokenizer.json against the package tokenizers ---- */

/* Ranges of tokenizers are of whole characters; ours, widened to those, must be the same. Where characters were composed, tokenizers gives the range of
 * the first; ours holds all that were. */
static void expect_ranges(const token_list *list, const json_t *offsets, const char *text, size_t bytes, bool composed, const char *what, size_t index)
{
    for (size_t i = 0; i < list->count; i++) {
        size_t start = list->items[i].start, end = list->items[i].end;
        cr_assert(start <= end && end <= bytes, "%s, text %zu, token %zu: [%zu, %zu) of %zu", what, index, i, start, end, bytes);
        while (start > 0 && start < end && ((unsigned char)text[start] & 0xc0) == 0x80) start--;
        while (end < bytes && start < end && ((unsigned char)text[end] & 0xc0) == 0x80) end++;
        const json_t *pair = json_array_get(offsets, i);
        size_t from = (size_t)json_integer_value(json_array_get(pair, 0)), to = (size_t)json_integer_value(json_array_get(pair, 1));
        cr_assert(composed ? start <= from && end >= to : start == from && end == to, "%s, text %zu, token %zu of %zu: wanted [%zu, %zu), got [%zu, %zu)", what,
                  index, i, list->count, from, to, start, end);
    }
}

static tokenizer *open_variant(const json_t *base, const json_t *patch)
{
    json_t *spec = json_deep_copy(base), *value;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)patch, key, value)
    {
        if (strncmp(key, "model.", 6) == 0)
            json_object_set(json_object_get(spec, "model"), key + 6, value);
        else
            json_object_set(spec, key, value);
    }
    OK(json_write_file(spec, in("tokenizer.json")));
    json_decref(spec);
    return open_at(in("tokenizer.json"));
}

Test(tokenizer, steps_are_those_of_tokenizers)
{
    const char *path = getenv("QLFT_TEST_STEPS");
    json_t *root = read_json(path ? path : TEST_GOLDEN "/tokenizers/steps.json"), *variant, *text;
    json_t *texts = json_object_get(root, "texts");
    size_t v, i, checked = 0;
    json_array_foreach(json_object_get(root, "variants"), v, variant)
    {
        json_t *patch = json_object_get(variant, "patch"), *rows = json_object_get(variant, "rows");
        char what[600];
        char *shown = json_dumps(patch, JSON_COMPACT);
        snprintf(what, sizeof what, "%s %.500s", json_string_value(json_object_get(variant, "base")), shown);
        free(shown);
        tokenizer *t = open_variant(json_object_get(json_object_get(root, "bases"), json_string_value(json_object_get(variant, "base"))), patch);
        json_array_foreach(texts, i, text)
        {
            json_t *row = json_array_get(rows, i), *plain = json_object_get(row, "plain"), *decoded = json_object_get(row, "decoded");
            token_list list = encode(t, json_string_value(text), json_string_length(text), TOKENIZE_SPECIAL);
            expect_ids(&list, json_object_get(row, "ids"), what, i);
            if (json_object_get(row, "offsets"))
                expect_ranges(&list, json_object_get(row, "offsets"), json_string_value(text), json_string_length(text),
                              strstr(what, "NF") && !json_object_get(row, "exact"), what, i);
            if (decoded) expect_decoded(t, &list, json_is_true(decoded) ? text : decoded, what, i);
            expect_encoded(t, text, 0, plain ? plain : json_object_get(row, "ids"), what, i);
            token_list_free(&list);
            checked++;
        }
        tokenizer_close(t);
    }
    cr_assert_gt(checked, 1000);
    json_decref(root);
}

/* ---- sentencepiece against its own encoder ---- */

static void check_spm(const char *model, const char *ids_path)
{
    char *lines, *ids;
    size_t bytes, checked = 0;
    tokenizer *t = open_at(model);
    OK(file_read_text(&lines, &bytes, TEST_GOLDEN "/spm/lines.txt", 1 << 20));
    OK(file_read_text(&ids, &bytes, ids_path, 1 << 20));
    char *line = lines, *row = ids;
    while (*line) {
        char *line_end = strchr(line, '\n'), *row_end = strchr(row, '\n');
        json_t *wanted = json_array();
        *row_end = '\0';
        for (char *word = strtok(row, " "); word; word = strtok(NULL, " ")) json_array_append_new(wanted, json_integer(atoi(word)));
        token_list list = encode(t, line, (size_t)(line_end - line), 0);
        expect_ids(&list, wanted, model, checked++);
        expect_in_order(&list, (size_t)(line_end - line), model);
        token_list_free(&list);
        json_decref(wanted);
        line = line_end + 1;
        row = row_end + 1;
    }
    cr_assert_geq(checked, 26);
    free(lines);
    free(ids);
    tokenizer_close(t);
}

Test(tokenizer, sentencepiece_models_are_those_of_spm_encode)
{
    check_spm(TEST_GOLDEN "/spm/bpe.model", TEST_GOLDEN "/spm/bpe.ids");
    check_spm(TEST_GOLDEN "/spm/unigram.model", TEST_GOLDEN "/spm/unigram.ids");
}

Test(tokenizer, sentencepiece_special_tokens_bytes_and_decoding)
{
    OK(folder_make(in("m")));
    copy_file(TEST_GOLDEN "/spm/bpe.model", in("m/tokenizer.model"));
    OK(file_write_text(
        in("m/tokenizer_config.json"),
        "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"<|end|>\", \"add_eos_token\": true,"
        " \"added_tokens_decoder\": {\"480\": {\"content\": \"<|end|>\", \"special\": true}, \"1\": {\"content\": \"<s>\", \"special\": true}}}"));
    tokenizer *t = open_at(in("m"));
    cr_assert_eq(tokenizer_size(t), 481);
    cr_assert_eq(tokenizer_bos(t), 1);
    cr_assert_eq(tokenizer_eos(t), 480);
    cr_assert(tokenizer_adds_bos(t));
    int32_t control = tokenizer_id(t, "<|a|>");
    cr_assert(control > 0 && tokenizer_is_special(t, control) && !tokenizer_is_special(t, tokenizer_id(t, "<w>")));
    const char *text = "mill<|a|>\xe6\xb2\xb3 x";
    token_list list = encode(t, text, strlen(text), TOKENIZE_SPECIAL | TOKENIZE_ADD);
    cr_assert_eq(list.items[0].id, 1);
    cr_assert_eq(list.items[list.count - 1].id, 480);
    bool found = false;
    for (size_t i = 0; i < list.count; i++) {
        if (list.items[i].id != control) continue;
        found = true;
        cr_assert(list.items[i].start == 4 && list.items[i].end == 9);
        /* The character behind is three byte tokens, each with its own byte. */
        cr_assert_eq(list.items[i + 2].id, tokenizer_id(t, "<0xE6>"));
        cr_assert_eq(list.items[i + 4].id, tokenizer_id(t, "<0xB3>"));
        for (uint32_t byte = 0; byte < 3; byte++) cr_assert(list.items[i + 2 + byte].start == 9 + byte && list.items[i + 2 + byte].end == 10 + byte);
    }
    cr_assert(found);
    int32_t ids[64];
    char *decoded;
    size_t bytes;
    for (size_t i = 0; i < list.count; i++) ids[i] = list.items[i].id;
    OK(tokenizer_decode(t, ids, list.count, true, &decoded, &bytes));
    cr_assert_str_eq(decoded, "mill \xe6\xb2\xb3 x");
    free(decoded);
    token_list_free(&list);
    list = encode(t, text, strlen(text), 0);
    for (size_t i = 0; i < list.count; i++) cr_assert_neq(list.items[i].id, control, "without TOKENIZE_SPECIAL the text of a control token is text");
    token_list_free(&list);
    int32_t stops[4];
    cr_assert_eq(tokenizer_stops(t, stops, 4), 1);
    cr_assert_eq(stops[0], 480);
    tokenizer_close(t);
}

/* ---- the cases ---- */

/* Opens case files under the names that they have in a model folder. */
static tokenizer *open_case(const char *id, const char *suffix)
{
    static const char *const names[] = {"tokenizer_config.json", "generation_config.json"};
    char from[512], to[64];
    OK(folder_make(in(id)));
    snprintf(from, sizeof from, TEST_GOLDEN "/cases/%s_tokenizer%s.json", id, suffix);
    snprintf(to, sizeof to, "%s/tokenizer.json", id);
    copy_file(from, in(to));
    for (size_t i = 0; i < 2; i++) {
        snprintf(from, sizeof from, TEST_GOLDEN "/cases/%s_%s", id, names[i]);
        snprintf(to, sizeof to, "%s/%s", id, names[i]);
        if (file_exists(from)) copy_file(from, in(to));
    }
    return open_at(in(id));
}

static json_t *expected_of(const json_t *root, const char *id)
{
    json_t *found = json_object_get(root, id);
    cr_assert(found);
    return found;
}

static size_t from_hex(const char *hex, char *out)
{
    size_t bytes = strlen(hex) / 2;
    for (size_t i = 0; i < bytes; i++) {
        unsigned value;
        sscanf(hex + 2 * i, "%2x", &value);
        out[i] = (char)value;
    }
    return bytes;
}

/* All texts of a case with its ids. */
static void check_case(const tokenizer *t, const json_t *texts, const json_t *ids, unsigned flags, const char *what)
{
    json_t *text;
    size_t i;
    cr_assert_gt(json_array_size(texts), 0);
    cr_assert_eq(json_array_size(texts), json_array_size(ids));
    json_array_foreach((json_t *)(uintptr_t)texts, i, text) expect_encoded(t, text, flags, json_array_get(ids, i), what, i);
}

Test(tokenizer, case_b01_bos_is_added_once)
{
    json_t *root = read_json(TEST_GOLDEN "/cases/b_tokenizer_expect.json"), *expected = expected_of(root, "B01");
    tokenizer *t = open_case("b01", "");
    expect_encoded(t, json_object_get(expected, "row1_rendered"), TOKENIZE_SPECIAL, json_object_get(expected, "row1_ids"), "B01 without adding", 0);
    /* The rendered text begins with BOS: no second one. */
    expect_encoded(t, json_object_get(expected, "row1_rendered"), TOKENIZE_SPECIAL | TOKENIZE_ADD, json_object_get(expected, "row1_ids"), "B01 with adding", 0);
    token_list list = encode(t, "hi ok", 5, TOKENIZE_ADD);
    json_t *start = json_object_get(expected, "row2_ids_start");
    expect_ids(&list, start, "B01 row 2", 1);
    cr_assert(list.items[0].start == 0 && list.items[0].end == 0);
    cr_assert(list.items[1].start == 0 && list.items[1].end == 2);
    token_list_free(&list);
    list = encode(t, "<|bos|>hi", 9, TOKENIZE_SPECIAL | TOKENIZE_ADD);
    cr_assert(list.count == 2 && list.items[0].id == 258 && list.items[1].id == 256);
    token_list_free(&list);
    cr_assert_eq(tokenizer_bos(t), 258);
    cr_assert_eq(tokenizer_eos(t), 262);
    cr_assert(tokenizer_adds_bos(t));
    cr_assert(tokenizer_chat_template(t) && strstr(tokenizer_chat_template(t), "<|hdr|>assistant"));
    tokenizer_close(t);
    json_decref(root);
}

Test(tokenizer, case_b04_ignore_merges)
{
    json_t *root = read_json(TEST_GOLDEN "/cases/b_tokenizer_expect.json"), *expected = expected_of(root, "B04");
    tokenizer *t = open_case("b04", "_ignore_merges");
    check_case(t, json_object_get(expected, "texts"), json_object_get(expected, "ids_ignore_merges"), 0, "B04 ignore_merges");
    tokenizer_close(t);
    t = open_case("b04", "_merges_only");
    check_case(t, json_object_get(expected, "texts"), json_object_get(expected, "ids_merges_only"), 0, "B04 merges only");
    tokenizer_close(t);
    json_decref(root);
}

Test(tokenizer, case_b06_normalization)
{
    json_t *root = read_json(TEST_GOLDEN "/cases/b_tokenizer_expect.json"), *expected = expected_of(root, "B06");
    json_t *hex = json_object_get(expected, "texts_utf8_hex"), *composed = json_object_get(expected, "nfc_utf8_hex");
    tokenizer *nfc = open_case("b06", "_nfc"), *plain = open_case("b06", "_plain");
    for (size_t i = 0; i < json_array_size(hex); i++) {
        char text[128], wanted[128], *decoded;
        int32_t ids[64];
        size_t bytes = from_hex(json_string_value(json_array_get(hex, i)), text);
        token_list list = encode(nfc, text, bytes, TOKENIZE_SPECIAL);
        expect_ids(&list, json_array_get(json_object_get(expected, "ids_nfc"), i), "B06 NFC", i);
        expect_in_order(&list, bytes, "B06 NFC");
        for (size_t j = 0; j < list.count; j++) ids[j] = list.items[j].id;
        size_t decoded_bytes, wanted_bytes = from_hex(json_string_value(json_array_get(composed, i)), wanted);
        OK(tokenizer_decode(nfc, ids, list.count, true, &decoded, &decoded_bytes));
        /* Text 11 begins with a special token, which is left out. */
        size_t skip = list.items[0].id == 259 ? 5 : 0;
        cr_assert(decoded_bytes == wanted_bytes - skip && memcmp(decoded, wanted + skip, decoded_bytes) == 0, "text %zu", i);
        free(decoded);
        token_list_free(&list);
        list = encode(plain, text, bytes, TOKENIZE_SPECIAL);
        expect_ids(&list, json_array_get(json_object_get(expected, "ids_plain"), i), "B06 plain", i);
        token_list_free(&list);
    }
    cr_assert_str_neq(tokenizer_hash(nfc), tokenizer_hash(plain), "what changes ids must change the hash");
    /* What was composed has the range of all its characters; a character and its mark beside it, which stay, have their own bytes. */
    token_list list = encode(nfc, "e\xcc\x81\xe0\xa4\xa8\xe0\xa4\xbf", 9, 0);
    cr_assert(list.count == 7 && list.items[0].start == 0 && list.items[0].end == 3);
    for (uint32_t i = 1; i < 7; i++) cr_assert(list.items[i].start == 2 + i && list.items[i].end == 3 + i);
    token_list_free(&list);
    tokenizer_close(nfc);
    tokenizer_close(plain);
    json_decref(root);
}

Test(tokenizer, case_b07_bytes_of_unknown_characters)
{
    json_t *root = read_json(TEST_GOLDEN "/cases/b_tokenizer_expect.json"), *expected = expected_of(root, "B07");
    tokenizer *t = open_case("b07", "");
    check_case(t, json_object_get(expected, "texts"), json_object_get(expected, "ids_with_bos"), TOKENIZE_SPECIAL | TOKENIZE_ADD, "B07");
    /* Each byte of the character has a token and its own range; the mark in front has the range of the first character. */
    token_list list = encode(t, "\xf0\x9f\x98\x80", 4, 0);
    cr_assert_eq(list.count, 5);
    for (uint32_t i = 0; i < 4; i++) cr_assert(list.items[1 + i].start == i && list.items[1 + i].end == i + 1);
    token_list_free(&list);
    /* Bytes that are no character come back as they are. */
    static const int32_t ids[] = {1, 270, 243, 162, 261};
    char *decoded;
    size_t bytes;
    OK(tokenizer_decode(t, ids, 5, true, &decoded, &bytes));
    cr_assert(bytes == 4 && memcmp(decoded,
                                   "a\xf0\x9f"
                                   "b",
                                   5) == 0);
    free(decoded);
    tokenizer_close(t);
    json_decref(root);
}

Test(tokenizer, case_b09_added_tokens)
{
    json_t *root = read_json(TEST_GOLDEN "/cases/b_tokenizer_expect.json"), *expected = expected_of(root, "B09");
    tokenizer *t = open_case("b09", "");
    check_case(t, json_object_get(expected, "texts"), json_object_get(expected, "ids"), TOKENIZE_SPECIAL, "B09");
    token_list list = encode(t, "a <|mask|>b", 11, TOKENIZE_SPECIAL);
    cr_assert(list.items[1].start == 1 && list.items[1].end == 10, "the white space that a token takes is its own");
    token_list_free(&list);
    tokenizer_close(t);
    json_decref(root);
}

Test(tokenizer, case_b10_ids_beyond_the_model)
{
    tokenizer *t = open_case("b10", "");
    cr_assert_eq(tokenizer_size(t), 259);
    token_list list = encode(t, "a<|new|>x", 9, TOKENIZE_SPECIAL | TOKENIZE_ADD);
    cr_assert(list.count == 4 && list.items[0].id == 256 && list.items[1].id == 97 && list.items[2].id == 258 && list.items[3].id == 120);
    cr_assert_str_eq(tokenizer_token(t, 258), "<|new|>");
    cr_assert_null(tokenizer_token(t, 259));
    cr_assert_null(tokenizer_token(t, -1));
    cr_assert_eq(tokenizer_id(t, "<|nothing|>"), -1);
    token_list_free(&list);
    tokenizer_close(t);
}

Test(tokenizer, case_b14_all_ends_of_a_turn)
{
    json_t *root = read_json(TEST_GOLDEN "/cases/b_tokenizer_expect.json"), *expected = expected_of(root, "B14");
    tokenizer *t = open_case("b14", "");
    expect_encoded(t, json_object_get(expected, "rendered"), TOKENIZE_SPECIAL, json_object_get(expected, "ids"), "B14", 0);
    expect_encoded(t, json_object_get(expected, "rendered"), TOKENIZE_SPECIAL | TOKENIZE_ADD, json_object_get(expected, "ids"), "B14 with adding", 0);
    int32_t stops[8];
    cr_assert_eq(tokenizer_stops(t, stops, 8), 2);
    cr_assert(stops[0] == 1 && stops[1] == 4);
    cr_assert_eq(tokenizer_eos(t), 1);
    tokenizer_close(t);
    json_decref(root);
}

/* The ends of texts and turns decide labels, and eos stands behind rows of text: a cache that was made with others must not be found again. */
Test(tokenizer, the_hash_knows_the_ends)
{
    const char *const eos[] = {"{\"eos_token_id\": 0}", "{\"eos_token_id\": 1}", "{\"eos_token_id\": [1, 2]}"};
    char hashes[3][SHA256_HEX_BYTES];
    for (int i = 0; i < 3; i++) {
        tokenizer_close(open_case("b06", "_plain")); /* puts tokenizer.json there, which has no file beside it */
        OK(file_write_text(in("b06/generation_config.json"), eos[i]));
        tokenizer *t = open_at(in("b06"));
        snprintf(hashes[i], sizeof hashes[i], "%s", tokenizer_hash(t));
        tokenizer_close(t);
    }
    for (int i = 0; i < 3; i++) cr_expect_str_neq(hashes[i], hashes[(i + 1) % 3], "%d", i);
}

/* ---- the published SmolLM2 ---- */

static void check_smollm2(const char *path)
{
    const char *golden = TEST_SHARED "/golden/real/tokens.json";
    if (!path || !*path || !file_exists(golden)) cr_skip_test("skipped: set QLFT_TEST_MODEL_DIR and QLFT_TEST_GGUF, and have ../shared/golden/real");
    json_t *root = read_json(golden), *row;
    size_t i;
    tokenizer *t = open_at(path);
    json_array_foreach(json_object_get(root, "rows"), i, row)
    {
        json_t *ids = json_object_get(row, "ids_digits");
        expect_encoded(t, json_object_get(row, "text"), TOKENIZE_SPECIAL, ids ? ids : json_object_get(row, "ids"), path, i);
    }
    cr_assert_eq(i, 152);
    cr_assert_eq(tokenizer_bos(t), 1);
    cr_assert_eq(tokenizer_eos(t), 2);
    cr_assert(!tokenizer_adds_bos(t));
    cr_assert_eq(tokenizer_size(t), 49152);
    cr_assert(tokenizer_chat_template(t) && strstr(tokenizer_chat_template(t), "<|im_start|>"));
    tokenizer_close(t);
    json_decref(root);
}

Test(tokenizer, smollm2_folder)
{
    check_smollm2(getenv("QLFT_TEST_MODEL_DIR"));
}

Test(tokenizer, smollm2_gguf)
{
    check_smollm2(getenv("QLFT_TEST_GGUF"));
}

/* ---- size, threads ---- */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Case A16 b: 3 MiB without a break. Linear to n log n: four times the length takes nowhere near sixteen times as long. */
Test(tokenizer, a_word_of_megabytes_is_not_quadratic)
{
    json_t *root = read_json(TEST_GOLDEN "/tokenizers/steps.json"), *none = json_object();
    size_t bytes = 3 << 20;
    char *text = malloc(bytes);
    static const char *const names[] = {"bytes", "characters"};
    for (int base = 0; base < 2; base++) {
        tokenizer *t = open_variant(json_object_get(json_object_get(root, "bases"), names[base]), none);
        for (size_t i = 0; i < bytes; i++) text[i] = "theriver mil"[(i * 7 + i / 13) % (base ? 12 : 8)];
        double start = seconds_now();
        token_list list = encode(t, text, bytes / 4, 0);
        double quarter = seconds_now() - start;
        token_list_free(&list);
        start = seconds_now();
        list = encode(t, text, bytes, 0);
        double whole = seconds_now() - start;
        cr_assert_lt(whole, 12 * quarter + 1.0, "%s: a quarter took %g s, all %g s", names[base], quarter, whole);
        cr_assert_eq(list.items[list.count - 1].end, bytes);
        expect_in_order(&list, bytes, names[base]);
        token_list_free(&list);
        tokenizer_close(t);
    }
    free(text);
    json_decref(none);
    json_decref(root);
}

typedef struct worker {
    const tokenizer *t;
    const json_t *texts, *rows;
    size_t wrong;
} worker;

static void *work(void *payload)
{
    worker *w = payload;
    json_t *text;
    size_t i;
    for (int round = 0; round < 20; round++) json_array_foreach((json_t *)(uintptr_t)w->texts, i, text)
        {
            const json_t *ids = json_object_get(json_array_get(w->rows, i), "ids");
            token_list list = {0};
            bool same = tokenizer_encode(w->t, json_string_value(text), json_string_length(text), TOKENIZE_SPECIAL, &list) == QLFT_OK &&
                        list.count == json_array_size(ids);
            for (size_t j = 0; same && j < list.count; j++) same = list.items[j].id == json_integer_value(json_array_get(ids, j));
            w->wrong += !same;
            token_list_free(&list);
        }
    return NULL;
}

Test(tokenizer, threads_share_one_tokenizer)
{
    json_t *root = read_json(TEST_GOLDEN "/tokenizers/steps.json"), *variant = json_array_get(json_object_get(root, "variants"), 4);
    tokenizer *t =
        open_variant(json_object_get(json_object_get(root, "bases"), json_string_value(json_object_get(variant, "base"))), json_object_get(variant, "patch"));
    worker workers[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker){t, json_object_get(root, "texts"), json_object_get(variant, "rows"), 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(workers[i].wrong, 0);
    }
    tokenizer_close(t);
    json_decref(root);
}
