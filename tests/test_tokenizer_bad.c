/* Tokenizer files that are damaged or ask for what is not done: refused by name, and never a crash. */
#include "tokenizers.h"

#include "core/random.h"

TestSuite(tokenizer_bad, .init = make_folder, .fini = drop_folder);

/* A small valid tokenizer.json with one part replaced. */
static void write_spec(const char *model, const char *rest)
{
    char text[4096];
    snprintf(text, sizeof text, "{\"model\": {\"type\": \"BPE\", %s}%s}", model, rest);
    OK(file_write_text(in("tokenizer.json"), text));
}

static qlft_status try_spec(const char *model, const char *rest)
{
    tokenizer *t = NULL;
    write_spec(model, rest);
    qlft_status status = tokenizer_open(&t, in("tokenizer.json"));
    cr_assert((status == QLFT_OK) == (t != NULL));
    tokenizer_close(t);
    return status;
}

#define VOCABULARY "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}"
#define MODEL VOCABULARY ", \"merges\": [\"a b\"]"

Test(tokenizer_bad, damaged_json_is_named)
{
    OK(try_spec(MODEL, ""));
    REFUSED(try_spec("\"vocab\": {\"a\": 0, \"b\": -1}, \"merges\": []", ""), QLFT_EFORMAT, "tokenizer.json", "\"b\"", "-1");
    REFUSED(try_spec("\"vocab\": {\"a\": 0, \"b\": 99999999}, \"merges\": []", ""), QLFT_EFORMAT, "\"b\"", "99999999");
    REFUSED(try_spec("\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []", ""), QLFT_EFORMAT, "id 0", "\"a\"", "\"b\"");
    REFUSED(try_spec("\"vocab\": {\"a\": 0.5}, \"merges\": []", ""), QLFT_EFORMAT, "\"a\"", "not an integer");
    REFUSED(try_spec("\"vocab\": [[\"a\", 0]], \"merges\": []", ""), QLFT_EFORMAT, "model.vocab");
    REFUSED(try_spec("\"vocab\": {}, \"merges\": []", ""), QLFT_EFORMAT, "empty");
    REFUSED(try_spec(VOCABULARY, ""), QLFT_EFORMAT, "model.merges");
    REFUSED(try_spec(VOCABULARY ", \"merges\": [\"a b\", \"a x\"]", ""), QLFT_EFORMAT, "merge 1", "\"a\" + \"x\"", "right token");
    REFUSED(try_spec(VOCABULARY ", \"merges\": [[\"b\", \"a\"]]", ""), QLFT_EFORMAT, "merge 0", "\"b\" + \"a\"", "union");
    REFUSED(try_spec(VOCABULARY ", \"merges\": [\"a b c\"]", ""), QLFT_EFORMAT, "merge 0");
    REFUSED(try_spec(VOCABULARY ", \"merges\": [7]", ""), QLFT_EFORMAT, "merge 0");
    REFUSED(try_spec(VOCABULARY ", \"merges\": [[\"a\", 1]]", ""), QLFT_EFORMAT, "merge 0");
    REFUSED(try_spec(MODEL ", \"unk_token\": \"<x>\"", ""), QLFT_EFORMAT, "unk_token", "<x>");
    REFUSED(try_spec(MODEL, ", \"added_tokens\": [{\"id\": 2, \"content\": \"<x>\"}]"), QLFT_EFORMAT, "id 2", "\"<x>\"");
    REFUSED(try_spec(MODEL, ", \"added_tokens\": [{\"id\": 3, \"content\": \"a\"}]"), QLFT_EFORMAT, "\"a\"", "two ids");
    REFUSED(try_spec(MODEL, ", \"added_tokens\": [{\"id\": 3}]"), QLFT_EFORMAT, "content");
    REFUSED(try_spec(MODEL, ", \"added_tokens\": [1]"), QLFT_EFORMAT, "added_tokens");
    REFUSED(
        try_spec(MODEL,
                 ", \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"s\"}}, {\"Sequence\": {\"id\": \"A\"}}],"
                 " \"special_tokens\": {\"s\": {\"ids\": [77]}}}"),
        QLFT_EFORMAT, "id 77");
    OK(file_write_text(in("tokenizer.json"), "[1, 2"));
    tokenizer *t;
    REFUSED(tokenizer_open(&t, in("tokenizer.json")), QLFT_EFORMAT, "tokenizer.json", "JSON");
    REFUSED(tokenizer_open(&t, in("absent.json")), QLFT_EIO, "absent.json");
    OK(folder_make(in("empty")));
    REFUSED(tokenizer_open(&t, in("empty")), QLFT_EIO, "neither tokenizer.json nor tokenizer.model");
    OK(file_write_text(in("tokenizer.model"), "not a model"));
    REFUSED(tokenizer_open(&t, in("tokenizer.model")), QLFT_EFORMAT, "tokenizer.model", "sentencepiece");
}

Test(tokenizer_bad, what_is_not_done_exactly_is_refused_by_name)
{
    REFUSED(try_spec(MODEL ", \"dropout\": 0.1", ""), QLFT_EUNSUPPORTED, "dropout", "0.1");
    REFUSED(try_spec(MODEL ", \"end_of_word_suffix\": \"</w>\"", ""), QLFT_EUNSUPPORTED, "end_of_word_suffix", "</w>");
    REFUSED(try_spec(MODEL ", \"continuing_subword_prefix\": \"##\"", ""), QLFT_EUNSUPPORTED, "continuing_subword_prefix");
    REFUSED(try_spec(MODEL, ", \"normalizer\": {\"type\": \"BertNormalizer\"}"), QLFT_EUNSUPPORTED, "normalizer", "BertNormalizer");
    REFUSED(try_spec(MODEL, ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Precompiled\"}]}"), QLFT_EUNSUPPORTED, "Precompiled");
    REFUSED(try_spec(MODEL, ", \"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}"), QLFT_EUNSUPPORTED, "pre_tokenizer", "UnicodeScripts");
    REFUSED(try_spec(MODEL, ", \"post_processor\": {\"type\": \"BertProcessing\"}"), QLFT_EUNSUPPORTED, "post_processor", "BertProcessing");
    REFUSED(try_spec(MODEL, ", \"decoder\": {\"type\": \"WordPiece\"}"), QLFT_EUNSUPPORTED, "decoder", "WordPiece");
    REFUSED(try_spec(MODEL, ", \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, {\"type\": \"Digits\"}]}"),
            QLFT_EUNSUPPORTED, "Digits", "behind ByteLevel");
    REFUSED(try_spec(MODEL, ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a&&b]\"}, \"behavior\": \"Isolated\"}"), QLFT_EUNSUPPORTED,
            "&&");
    REFUSED(try_spec(MODEL, ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a[b]]\"}, \"behavior\": \"Isolated\"}"), QLFT_EUNSUPPORTED,
            "class");
    REFUSED(try_spec(MODEL, ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a\"}, \"behavior\": \"Isolated\"}"), QLFT_EUNSUPPORTED,
            "(a");
    REFUSED(try_spec(MODEL, ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Sideways\"}"), QLFT_EUNSUPPORTED,
            "Sideways");
    OK(file_write_text(in("tokenizer.json"), "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]]}}"));
    tokenizer *t;
    REFUSED(tokenizer_open(&t, in("tokenizer.json")), QLFT_EUNSUPPORTED, "Unigram");
    char deep[4096] = ", \"normalizer\": ", *at = deep + strlen(deep);
    for (int i = 0; i < 20; i++) at += sprintf(at, "{\"type\": \"Sequence\", \"normalizers\": [");
    for (int i = 0; i < 20; i++) at += sprintf(at, "]}");
    REFUSED(try_spec(MODEL, deep), QLFT_EUNSUPPORTED, "nested");
}

Test(tokenizer_bad, text_that_is_not_utf8_is_refused)
{
    static const char *const bad[] = {"a\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xf0\x80\x80\x80", "\x80"};
    write_spec(MODEL, "");
    tokenizer *t = open_at(in("tokenizer.json"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        token_list list = {0};
        REFUSED(tokenizer_encode(t, bad[i], strlen(bad[i]), 0, &list), QLFT_EFORMAT, "not UTF-8");
        cr_assert_eq(list.count, 0);
        token_list_free(&list);
    }
    /* Offsets of a second text are its own, and the first one's tokens stay. */
    token_list list = encode(t, "ab", 2, 0);
    OK(tokenizer_encode(t, "ab", 2, 0, &list));
    cr_assert(list.count == 2 && list.items[1].id == 2 && list.items[1].start == 0 && list.items[1].end == 2);
    token_list_free(&list);
    tokenizer_close(t);
}

/* Bytes of a good file are changed at random: it must open or be refused, and encode or be refused; nothing else (under ASan). */
static void damage(const char *from, const char *to, int rounds, size_t limit)
{
    char *text;
    size_t bytes;
    uint64_t state = 88172645463325252u;
    OK(file_read_text(&text, &bytes, from, 1 << 24));
    for (int round = 0; round < rounds; round++) {
        char *copy = malloc(bytes);
        memcpy(copy, text, bytes);
        size_t changes = 1 + next_random(&state) % 4, length = round % 8 == 7 ? next_random(&state) % bytes : bytes;
        for (size_t i = 0; i < changes; i++) {
            size_t at = next_random(&state) % (bytes < limit ? bytes : limit);
            copy[at] = round % 2 ? (char)next_random(&state) : "0123456789\"{}[],:abc-\\"[next_random(&state) % 22];
        }
        unlink(to); /* writing over a file makes some file systems wait for the disk */
        write_bytes(to, copy, length);
        tokenizer *t = NULL;
        if (tokenizer_open(&t, to) == QLFT_OK) {
            token_list list = {0};
            int32_t ids[64];
            char *decoded = NULL;
            size_t decoded_bytes;
            if (tokenizer_encode(t, "hi <|bos|> \xe6\xb2\xb3 12 mill", 23, TOKENIZE_SPECIAL | TOKENIZE_ADD, &list) == QLFT_OK) {
                size_t count = list.count < 64 ? list.count : 64;
                for (size_t i = 0; i < count; i++) ids[i] = list.items[i].id;
                if (tokenizer_decode(t, ids, count, false, &decoded, &decoded_bytes) == QLFT_OK) free(decoded);
            }
            token_list_free(&list);
        } else {
            cr_assert_null(t);
            cr_assert(strlen(qlft_last_error()) > 0);
        }
        tokenizer_close(t);
        free(copy);
    }
    free(text);
}

Test(tokenizer_bad, damaged_files_never_crash)
{
    damage(TEST_GOLDEN "/cases/b01_tokenizer.json", in("tokenizer.json"), 1500, SIZE_MAX);
    damage(TEST_GOLDEN "/cases/b07_tokenizer.json", in("tokenizer.json"), 1500, SIZE_MAX);
    damage(TEST_GOLDEN "/spm/bpe.model", in("tokenizer.model"), 300, SIZE_MAX);
    damage(TEST_GOLDEN "/tokenizers/bytes.gguf", in("tiny.gguf"), 1000, SIZE_MAX);
    damage(TEST_GOLDEN "/tokenizers/bytes.gguf", in("tiny.gguf"), 500, 600);
    damage(TEST_GOLDEN "/tokenizers/scores.gguf", in("tiny.gguf"), 1000, SIZE_MAX);
}

/* tokenizers 0.23 gives "a\u00e9 b": a space stands for no byte, so nothing of the token does. */
Test(tokenizer_bad, a_token_of_other_characters_decodes_to_itself)
{
    write_spec("\"vocab\": {\"a\xc3\xa9 b\": 0, \"\xc3\xa9\": 1}, \"merges\": []", ", \"decoder\": {\"type\": \"ByteLevel\"}");
    tokenizer *t = open_at(in("tokenizer.json"));
    static const int32_t ids[] = {0, 1};
    char *text;
    size_t bytes;
    OK(tokenizer_decode(t, ids, 2, true, &text, &bytes));
    cr_assert(bytes == 6 && memcmp(text, "a\xc3\xa9 b\xe9", 7) == 0);
    free(text);
    tokenizer_close(t);
}

/* Of equal merges the last counts: tokenizers 0.23 gives [0, 4] here. */
Test(tokenizer_bad, a_merge_given_twice)
{
    write_spec("\"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"bc\": 4}, \"merges\": [\"a b\", \"b c\", \"a b\"]", "");
    tokenizer *t = open_at(in("tokenizer.json"));
    token_list list = encode(t, "abc", 3, 0);
    cr_assert(list.count == 2 && list.items[0].id == 0 && list.items[1].id == 4);
    token_list_free(&list);
    tokenizer_close(t);
}
