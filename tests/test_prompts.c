/* Answers as text: what a model says may be any bytes. Expected texts are written out by hand from the definition of UTF-8 (RFC 3629). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "train/prompts.h"

/* Bytes in the names that byte-level tokenizers give them (0xA1 to 0xFF but 0xAD: the character of that number). */
static void add_byte(id_list *list, const tokenizer *t, const char *name)
{
    int32_t id = tokenizer_id(t, name);
    cr_assert(id >= 0, "the tokenizer has no token %s", name);
    cr_assert_eq(id_list_add(list, &id, 1), QLFT_OK);
}

static void expect_text(const tokenizer *t, const char *const *names, bool ended, const char *wanted)
{
    id_list ids = {NULL, 0, 0};
    char *text = NULL;
    size_t bytes = 0;
    for (int i = 0; names[i]; i++) add_byte(&ids, t, names[i]);
    cr_assert_eq(answer_text(&text, &bytes, t, &ids, ended), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(bytes, strlen(wanted), "%zu bytes: %s", bytes, text);
    cr_assert_str_eq(text, wanted);
    free(text);
    free(ids.ids);
}

#define BYTES(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(answers, bytes_that_are_no_utf8_become_replacement_characters)
{
    tokenizer *t = NULL;
    cr_assert_eq(tokenizer_open(&t, TEST_GOLDEN "/cases/b14_tokenizer.json"), QLFT_OK, "%s", qlft_last_error());
    expect_text(t, BYTES("s", "¼", "."), true, "s\xef\xbf\xbd.");
    expect_text(t, BYTES("s", "¼"), false, "s\xef\xbf\xbd"); /* nothing that comes can complete it */
    expect_text(t, BYTES("s", "Ã"), false, "s");             /* the first byte of two */
    expect_text(t, BYTES("s", "Ã"), true, "s\xef\xbf\xbd");
    expect_text(t, BYTES("s", "Ã", "©"), false, "s\xc3\xa9");
    expect_text(t, BYTES("s", "Ã", "."), false, "s\xef\xbf\xbd.");
    tokenizer_close(t);
}

Test(answers, no_token_is_no_text)
{
    tokenizer *t = NULL;
    id_list none = {NULL, 0, 0};
    char *text = NULL;
    size_t bytes = 7;
    cr_assert_eq(tokenizer_open(&t, TEST_GOLDEN "/cases/b14_tokenizer.json"), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(answer_text(&text, &bytes, t, &none, true), QLFT_OK);
    cr_assert_eq(bytes, 0);
    cr_assert_str_eq(text, "");
    free(text);
    tokenizer_close(t);
}
