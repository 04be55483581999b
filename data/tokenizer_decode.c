/* Ids to bytes: the token texts pass through the decoder's steps, each as the crate tokenizers defines it; bytes that are not UTF-8 stay bytes. */
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"
#include "data/utf8.h"

typedef struct token_string {
    size_t start, end; /* in token_strings.text */
    bool added;        /* an added token: its text is the text, not characters that stand for bytes */
} token_string;

struct token_strings {
    char *text;
    size_t bytes, capacity;
    token_string *items;
    size_t count, item_capacity;
};

static void strings_free(token_strings *s)
{
    free(s->text);
    free(s->items);
    memset(s, 0, sizeof *s);
}

static qlft_status put_bytes(token_strings *s, const char *text, size_t bytes)
{
    QLFT_TRY(tokenizer_grow(&s->text, &s->capacity, s->bytes, bytes, 1));
    if (bytes) memcpy(s->text + s->bytes, text, bytes);
    s->bytes += bytes;
    return QLFT_OK;
}

/* Ends the token that began at `start`. */
static qlft_status put_string(token_strings *s, size_t start, bool added)
{
    QLFT_TRY(tokenizer_grow(&s->items, &s->item_capacity, s->count, 1, sizeof *s->items));
    s->items[s->count++] = (token_string){start, s->bytes, added};
    return QLFT_OK;
}

static qlft_status finish_step(token_strings *strings, token_strings *made, qlft_status status)
{
    if (status != QLFT_OK) {
        strings_free(made);
        return status;
    }
    strings_free(strings);
    *strings = *made;
    return QLFT_OK;
}

/* A token all of whose characters stand for bytes becomes those bytes; any other stays as it is. */
static qlft_status byte_level_string(const char *text, size_t bytes, token_strings *made)
{
    size_t start = made->bytes;
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        at += (size_t)utf8_read(text + at, &code);
        int byte = byte_level_byte(code);
        if (byte < 0) {
            made->bytes = start;
            return put_bytes(made, text, bytes);
        }
        char c = (char)byte;
        QLFT_TRY(put_bytes(made, &c, 1));
    }
    return QLFT_OK;
}

qlft_status decode_byte_level(const decoder *d, pattern_scratch *scratch, token_strings *strings)
{
    (void)d;
    (void)scratch;
    token_strings made = {0};
    qlft_status status = QLFT_OK;
    for (size_t i = 0; i < strings->count && status == QLFT_OK; i++) {
        const token_string *s = &strings->items[i];
        size_t start = made.bytes;
        if (s->added)
            status = put_bytes(&made, strings->text + s->start, s->end - s->start);
        else
            status = byte_level_string(strings->text + s->start, s->end - s->start, &made);
        if (status == QLFT_OK) status = put_string(&made, start, s->added);
    }
    return finish_step(strings, &made, status);
}

static qlft_status replace_in(const decoder *d, pattern_scratch *scratch, const char *text, size_t bytes, token_strings *made)
{
    size_t done = 0, at = 0, start, end;
    bool found;
    for (;;) {
        QLFT_TRY(pattern_next(&d->match, scratch, text, bytes, at, &found, &start, &end));
        if (!found) return put_bytes(made, text + done, bytes - done);
        QLFT_TRY(put_bytes(made, text + done, start - done));
        QLFT_TRY(put_bytes(made, d->content, d->content_bytes));
        done = at = end;
        if (start == end) at++;
    }
}

qlft_status decode_replace(const decoder *d, pattern_scratch *scratch, token_strings *strings)
{
    token_strings made = {0};
    qlft_status status = QLFT_OK;
    for (size_t i = 0; i < strings->count && status == QLFT_OK; i++) {
        const token_string *s = &strings->items[i];
        size_t start = made.bytes;
        /* A regular expression needs UTF-8, which what ByteFallback made need not be. */
        if (d->match.compiled && utf8_valid_bytes(strings->text + s->start, s->end - s->start) != s->end - s->start)
            status = put_bytes(&made, strings->text + s->start, s->end - s->start);
        else
            status = replace_in(d, scratch, strings->text + s->start, s->end - s->start, &made);
        if (status == QLFT_OK) status = put_string(&made, start, s->added);
    }
    return finish_step(strings, &made, status);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that <0xNN> stands for; -1: it is no such token. */
static int fallback_byte(const char *text, size_t bytes)
{
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

qlft_status decode_byte_fallback(const decoder *d, pattern_scratch *scratch, token_strings *strings)
{
    (void)d;
    (void)scratch;
    token_strings made = {0};
    qlft_status status = QLFT_OK;
    for (size_t i = 0; i < strings->count && status == QLFT_OK; i++) {
        const token_string *s = &strings->items[i];
        size_t start = made.bytes;
        int byte = fallback_byte(strings->text + s->start, s->end - s->start);
        char c = (char)byte;
        status = byte >= 0 ? put_bytes(&made, &c, 1) : put_bytes(&made, strings->text + s->start, s->end - s->start);
        if (status == QLFT_OK) status = put_string(&made, start, s->added);
    }
    return finish_step(strings, &made, status);
}

qlft_status decode_fuse(const decoder *d, pattern_scratch *scratch, token_strings *strings)
{
    (void)d;
    (void)scratch;
    /* The texts of the tokens stand one behind the other already. */
    strings->count = 0;
    return put_string(strings, 0, false);
}

qlft_status decode_strip(const decoder *d, pattern_scratch *scratch, token_strings *strings)
{
    (void)scratch;
    token_strings made = {0};
    qlft_status status = QLFT_OK;
    size_t length = d->content_bytes;
    for (size_t i = 0; i < strings->count && status == QLFT_OK; i++) {
        const token_string *s = &strings->items[i];
        size_t from = s->start, to = s->end, start = made.bytes;
        for (int64_t n = 0; n < d->start && to - from >= length && memcmp(strings->text + from, d->content, length) == 0; n++) from += length;
        for (int64_t n = 0; n < d->stop && to - from >= length && memcmp(strings->text + to - length, d->content, length) == 0; n++) to -= length;
        status = put_bytes(&made, strings->text + from, to - from);
        if (status == QLFT_OK) status = put_string(&made, start, s->added);
    }
    return finish_step(strings, &made, status);
}

qlft_status decode_metaspace(const decoder *d, pattern_scratch *scratch, token_strings *strings)
{
    token_strings made = {0};
    qlft_status status = QLFT_OK;
    decoder drop = {.match = d->match};
    for (size_t i = 0; i < strings->count && status == QLFT_OK; i++) {
        const token_string *s = &strings->items[i];
        size_t start = made.bytes;
        status = replace_in(i == 0 && d->drop_first ? &drop : d, scratch, strings->text + s->start, s->end - s->start, &made);
        if (status == QLFT_OK) status = put_string(&made, start, s->added);
    }
    return finish_step(strings, &made, status);
}

/* An added token that is looked for in normalized text stands for its own normalized form. */
static const char *text_of(const tokenizer *t, int32_t id, size_t *bytes)
{
    const char *text = vocabulary_text(&t->words, id, bytes);
    for (size_t i = 0; text && (t->marks[id] & TOKEN_NORMALIZED) && i < t->normalized.count; i++) {
        if (t->normalized.items[i].id != id) continue;
        *bytes = t->normalized.items[i].bytes;
        return t->normalized.items[i].text;
    }
    return text;
}

qlft_status tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, bool skip_special, char **out, size_t *bytes)
{
    *out = NULL;
    *bytes = 0;
    token_strings strings = {0};
    pattern_scratch scratch = {0};
    qlft_status status = QLFT_OK;
    for (size_t i = 0; i < count && status == QLFT_OK; i++) {
        size_t length, start = strings.bytes;
        /* Ids without a token (models have more rows than the vocabulary has tokens) have no text. */
        const char *text = text_of(t, ids[i], &length);
        if (!text || (skip_special && tokenizer_is_special(t, ids[i]))) continue;
        if (t->join_by_space && strings.count) status = put_bytes(&strings, " ", 1);
        if (status == QLFT_OK) status = put_bytes(&strings, text, length);
        if (status == QLFT_OK) status = put_string(&strings, start, t->marks[ids[i]] & TOKEN_ADDED);
    }
    for (size_t i = 0; i < t->decoder_count && status == QLFT_OK; i++) status = t->decoders[i].apply(&t->decoders[i], &scratch, &strings);
    if (status == QLFT_OK) status = put_bytes(&strings, "", 1);
    if (status == QLFT_OK) {
        *out = strings.text;
        *bytes = strings.bytes - 1;
        strings.text = NULL;
    }
    strings_free(&strings);
    pattern_scratch_free(&scratch);
    return status;
}
