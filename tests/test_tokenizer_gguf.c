/* Tokenizers in GGUF files, beside llama.cpp: golden/tokenizers/gguf.json, by make_tokenizer_gguf.py, and ../shared/golden/tokenizers with the vocabularies in
 * ../shared/vocabs. */
#include "tokenizers.h"

#include "core/gguf.h"

TestSuite(tokenizer_gguf, .init = make_folder, .fini = drop_folder);

static void check_rows(const tokenizer *t, const json_t *rows, const char *what, size_t *checked)
{
    json_t *row;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
    {
        json_t *text = json_object_get(row, "text"), *ids = json_object_get(row, "ids"), *special = json_object_get(row, "ids_special");
        expect_encoded(t, text, 0, ids, what, i);
        expect_encoded(t, text, TOKENIZE_SPECIAL, special ? special : ids, what, i);
        ++*checked;
    }
}

/* What tokens without special ones decode to is the text. */
static void check_round_trips(const tokenizer *t, const json_t *texts, const char *what)
{
    json_t *row;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)texts, i, row)
    {
        json_t *text = json_is_string(row) ? row : json_object_get(row, "text");
        token_list list = encode(t, json_string_value(text), json_string_length(text), 0);
        expect_in_order(&list, json_string_length(text), what);
        expect_decoded(t, &list, text, what, i);
        token_list_free(&list);
    }
}

Test(tokenizer_gguf, gguf_vocabularies_are_those_of_llama_cpp)
{
    static const char *const names[] = {"gpt-2", "llama-bpe", "qwen2", "llama-spm", "phi-3"};
    size_t checked = 0;
    for (size_t n = 0; n < 5; n++) {
        char vocabulary[256], golden[256];
        snprintf(vocabulary, sizeof vocabulary, TEST_SHARED "/vocabs/ggml-vocab-%s.gguf", names[n]);
        snprintf(golden, sizeof golden, TEST_SHARED "/golden/tokenizers/%s.json", names[n]);
        if (!file_exists(vocabulary) || !file_exists(golden)) cr_skip_test("skipped: no third-party vocabularies in ../shared/vocabs");
        json_t *root = read_json(golden);
        tokenizer *t = open_at(vocabulary);
        check_rows(t, json_object_get(root, "inp_out"), names[n], &checked);
        check_rows(t, json_object_get(root, "texts"), names[n], &checked);
        check_rows(t, json_object_get(root, "fuzz"), names[n], &checked);
        check_round_trips(t, json_object_get(root, "texts"), names[n]);
        check_round_trips(t, json_object_get(root, "fuzz"), names[n]);
        tokenizer_close(t);
        json_decref(root);
    }
    cr_assert_eq(checked, 5 * 359);
}

/* The GGUF with another tokenizer.ggml.pre: key, type 8 (string), length, text. */
static void write_with_pre(const char *from, const char *to, const char *pre)
{
    char *text, made[65536];
    size_t bytes, used = 0;
    static const char key[] = "tokenizer.ggml.pre";
    OK(file_read_text(&text, &bytes, from, sizeof made - 64));
    char *at = memmem(text, bytes, key, sizeof key - 1);
    cr_assert(at);
    at += sizeof key - 1 + 4;
    uint64_t old, length = strlen(pre);
    memcpy(&old, at, sizeof old);
    memcpy(made, text, (size_t)(at - text));
    used = (size_t)(at - text);
    memcpy(made + used, &length, sizeof length);
    memcpy(made + used + 8, pre, length);
    used += 8 + length;
    at += 8 + old;
    memcpy(made + used, at, (size_t)(text + bytes - at));
    write_bytes(to, made, used + (size_t)(text + bytes - at));
    free(text);
}

Test(tokenizer_gguf, tiny_gguf_files_are_those_of_llama_cpp)
{
    json_t *root = read_json(TEST_GOLDEN "/tokenizers/gguf.json"), *texts = json_object_get(root, "texts"), *pres, *rows, *text;
    const char *file, *pre;
    size_t i, checked = 0;
    json_object_foreach(json_object_get(root, "files"), file, pres)
    {
        json_object_foreach(pres, pre, rows)
        {
            char path[512];
            snprintf(path, sizeof path, TEST_GOLDEN "/tokenizers/%s", file);
            write_with_pre(path, in("tiny.gguf"), pre);
            tokenizer *t = open_at(in("tiny.gguf"));
            json_array_foreach(texts, i, text)
            {
                json_t *row = json_array_get(rows, i);
                expect_encoded(t, text, 0, json_object_get(row, "ids"), pre, i);
                expect_encoded(t, text, TOKENIZE_SPECIAL, json_object_get(row, "special"), pre, i);
                expect_encoded(t, text, TOKENIZE_ADD, json_object_get(row, "added"), pre, i);
                checked++;
            }
            /* Behind an added token sentencepiece's rule puts a space that the text does not have. */
            if (strcmp(file, "bytes.gguf") == 0) check_round_trips(t, texts, pre);
            cr_assert_str_eq(tokenizer_chat_template(t), "{{ messages[0].content }}");
            int32_t stops[8];
            if (strcmp(file, "holes.gguf") != 0) {
                cr_assert_str_eq(tokenizer_token(t, tokenizer_bos(t)), strcmp(file, "bytes.gguf") == 0 ? "<|a|>" : "<s>");
                cr_assert_geq(tokenizer_stops(t, stops, 8), 2, "EOS and EOT end a generation");
            }
            tokenizer_close(t);
        }
    }
    cr_assert_gt(checked, 300);
    json_decref(root);
}

Test(tokenizer_gguf, gguf_refusals)
{
    tokenizer *t;
    write_with_pre(TEST_GOLDEN "/tokenizers/bytes.gguf", in("x.gguf"), "kimi-k2");
    REFUSED(tokenizer_open(&t, in("x.gguf")), QLFT_EUNSUPPORTED, "x.gguf", "kimi-k2", "tokenizer.ggml.pre");
    copy_file(TEST_GOLDEN "/gguf/small.gguf", in("y.gguf"));
    REFUSED(tokenizer_open(&t, in("y.gguf")), QLFT_EFORMAT, "y.gguf", "vocabulary");
}

static size_t put_number(unsigned char *at, uint64_t value, size_t bytes)
{
    memcpy(at, &value, bytes);
    return bytes;
}

static size_t put_gguf_string(unsigned char *at, const char *text, size_t bytes)
{
    put_number(at, bytes, 8);
    memcpy(at + 8, text, bytes);
    return 8 + bytes;
}

/* Tokens lie in the mapped file without a NUL behind them; here the last one ends where the map ends, at a page's end. */
Test(tokenizer_gguf, a_token_that_stands_twice_at_the_end_of_a_gguf)
{
    enum { PAGE = 4096, FILLER = PAGE - 97 };
    unsigned char file[PAGE];
    char filler[FILLER];
    memset(filler, 'x', sizeof filler);
    memcpy(file, "GGUF", 4);
    size_t used = 4;
    used += put_number(file + used, 3, 4); /* version */
    used += put_number(file + used, 0, 8); /* tensors */
    used += put_number(file + used, 1, 8); /* values */
    used += put_gguf_string(file + used, "tokenizer.ggml.tokens", 21);
    used += put_number(file + used, GGUF_ARRAY, 4);
    used += put_number(file + used, GGUF_STRING, 4);
    used += put_number(file + used, 3, 8);
    used += put_gguf_string(file + used, filler, sizeof filler);
    used += put_gguf_string(file + used, "ab", 2);
    used += put_gguf_string(file + used, "ab", 2);
    cr_assert_eq(used, PAGE);
    file_writer w;
    OK(file_writer_open(&w, in("twice.gguf")));
    file_writer_put(&w, file, sizeof file);
    OK(file_writer_commit(&w));
    tokenizer *t;
    REFUSED(tokenizer_open(&t, in("twice.gguf")), QLFT_EFORMAT, "twice.gguf", "token \"ab\" has two ids, 1 and 2");
}
