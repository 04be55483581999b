/* Opening, asking, encoding. The kinds of file are read by tokenizer_json.c, tokenizer_gguf.c and tokenizer_model.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"
#include "data/utf8.h"

void token_list_free(token_list *list)
{
    free(list->items);
    memset(list, 0, sizeof *list);
}

/* ---- opening ---- */

typedef struct file_kind {
    const char *suffix;
    qlft_status (*read)(tokenizer *t, const char *path);
} file_kind;
static const file_kind file_kinds[] = {
    {".gguf", tokenizer_read_gguf},
    {".json", tokenizer_read_json},
    {".model", tokenizer_read_spm},
};
static const char *const folder_files[] = {"tokenizer.json", "tokenizer.model"};

static qlft_status read_file(tokenizer *t, const char *path)
{
    for (size_t i = 0; i < sizeof file_kinds / sizeof *file_kinds; i++)
        if (name_ends_with(path, file_kinds[i].suffix)) return file_kinds[i].read(t, path);
    return status_fail(QLFT_EARG, "%s: no tokenizer: expected a model folder, tokenizer.json, tokenizer.model or a .gguf", path);
}

static qlft_status read_folder(tokenizer *t, const char *folder)
{
    for (size_t i = 0; i < sizeof folder_files / sizeof *folder_files; i++) {
        char *path = path_join(folder, folder_files[i]);
        if (!path) return status_fail(QLFT_ENOMEM, "out of memory");
        bool exists = file_exists(path);
        qlft_status status = exists ? read_file(t, path) : QLFT_OK;
        free(path);
        if (exists) return status;
    }
    return status_fail(QLFT_EIO, "%s: the folder has neither tokenizer.json nor tokenizer.model", folder);
}

qlft_status tokenizer_open(tokenizer **out, const char *path)
{
    *out = NULL;
    tokenizer *t = calloc(1, sizeof *t);
    if (!t) return status_fail(QLFT_ENOMEM, "out of memory");
    t->unknown = t->bos = t->eos = -1;
    memset(t->byte_ids, 0xff, sizeof t->byte_ids);
    qlft_status status = QLFT_OK;
    if (!file_exists(path))
        status = status_fail(QLFT_EIO, "%s: no such file or folder", path);
    else
        status = file_is_folder(path) ? read_folder(t, path) : read_file(t, path);
    if (status == QLFT_OK) status = tokenizer_finish(t);
    if (status != QLFT_OK) {
        tokenizer_close(t);
        return status;
    }
    *out = t;
    return QLFT_OK;
}

void tokenizer_close(tokenizer *t)
{
    if (!t) return;
    for (size_t i = 0; i < t->normalizer_count; i++) {
        pattern_free(&t->normalizers[i].match);
        free(t->normalizers[i].content);
    }
    for (size_t i = 0; i < t->splitter_count; i++) pattern_free(&t->splitters[i].match);
    for (size_t i = 0; i < t->decoder_count; i++) {
        pattern_free(&t->decoders[i].match);
        free(t->decoders[i].content);
    }
    free(t->normalizers);
    free(t->splitters);
    free(t->decoders);
    free(t->merges.slots);
    free(t->order);
    free(t->marks);
    free(t->chat_template);
    spm_close(t->library);
    added_set_free(&t->raw);
    added_set_free(&t->normalized);
    vocabulary_free(&t->words);
    free(t);
}

/* ---- asking ---- */

int32_t tokenizer_size(const tokenizer *t)
{
    return t->words.size;
}

int32_t tokenizer_id(const tokenizer *t, const char *token)
{
    return vocabulary_find(&t->words, token, strlen(token));
}

const char *tokenizer_token(const tokenizer *t, int32_t id)
{
    return vocabulary_text(&t->words, id, NULL);
}

bool tokenizer_is_special(const tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->words.size && (t->marks[id] & TOKEN_SPECIAL);
}

int32_t tokenizer_bos(const tokenizer *t)
{
    return t->bos;
}

int32_t tokenizer_eos(const tokenizer *t)
{
    return t->eos;
}

bool tokenizer_adds_bos(const tokenizer *t)
{
    for (int i = 0; i < t->prefix_count; i++)
        if (t->prefix[i] == t->bos && t->bos >= 0) return true;
    return false;
}

int tokenizer_stops(const tokenizer *t, int32_t *ids, int limit)
{
    for (int i = 0; i < t->stop_count && i < limit; i++) ids[i] = t->stops[i];
    return t->stop_count;
}

const char *tokenizer_chat_template(const tokenizer *t)
{
    return t->chat_template;
}

const char *tokenizer_hash(const tokenizer *t)
{
    return t->hash;
}

/* ---- encoding ---- */

/* Everything that one call needs. */
typedef struct encoding {
    const tokenizer *t;
    unsigned flags;
    token_list *list;
    encode_scratch scratch;
    added_matches raw, inner;
} encoding;

/* Ranges of the last tokens from bytes of the piece's text to bytes of the original. */
static void map_ranges(const aligned *text, token_list *list, size_t from)
{
    for (size_t i = from; i < list->count; i++) {
        token_span *span = &list->items[i];
        uint32_t start = span->start, end = span->end;
        if (start == end) {
            span->start = span->end = start < text->bytes ? aligned_from(text, start) : text->base;
            continue;
        }
        span->start = aligned_from(text, start);
        span->end = aligned_to(text, end - 1);
    }
}

/* Text without added tokens: split, then each piece by the model. */
static qlft_status encode_plain(encoding *e, const aligned *text)
{
    const tokenizer *t = e->t;
    pieces *p = &e->scratch.pieces;
    if (!text->bytes) return QLFT_OK;
    aligned_free(&p->text);
    p->text = aligned_view(text, 0, text->bytes);
    QLFT_TRY(tokenizer_grow(&p->items, &p->capacity, 0, 1, sizeof *p->items));
    p->items[0] = (piece){0, text->bytes};
    p->count = 1;
    for (size_t i = 0; i < t->splitter_count; i++) QLFT_TRY(t->splitters[i].apply(&t->splitters[i], &e->scratch.patterns, p));
    size_t from = e->list->count;
    for (size_t i = 0; i < p->count; i++) QLFT_TRY(t->encode_piece(t, &e->scratch, p->text.text, p->items[i].start, p->items[i].end, e->list));
    map_ranges(&p->text, e->list, from);
    return QLFT_OK;
}

static qlft_status put_added(encoding *e, const added_match *match, const aligned *text)
{
    token_list *list = e->list;
    QLFT_TRY(tokenizer_grow(&list->items, &list->capacity, list->count, 1, sizeof *list->items));
    list->items[list->count++] = (token_span){match->token->id, aligned_from(text, match->start), aligned_to(text, match->end - 1)};
    return QLFT_OK;
}

/* Text between added tokens of the raw text: normalized, then cut at the added tokens that are looked for in normalized text. */
static qlft_status encode_segment(encoding *e, const aligned *raw)
{
    const tokenizer *t = e->t;
    aligned text = *raw;
    qlft_status status = QLFT_OK;
    for (size_t i = 0; i < t->normalizer_count && status == QLFT_OK; i++) status = t->normalizers[i].apply(&t->normalizers[i], &e->scratch.patterns, &text);
    if (status == QLFT_OK && !t->normalized.count) {
        status = encode_plain(e, &text);
    } else if (status == QLFT_OK) {
        size_t at = 0;
        status = added_set_find(&t->normalized, text.text, text.bytes, e->flags & TOKENIZE_SPECIAL, false, &e->inner);
        for (size_t i = 0; i < e->inner.count && status == QLFT_OK; i++) {
            aligned part = aligned_view(&text, at, e->inner.items[i].start);
            status = encode_plain(e, &part);
            if (status == QLFT_OK) status = put_added(e, &e->inner.items[i], &text);
            at = e->inner.items[i].end;
        }
        aligned rest = aligned_view(&text, at, text.bytes);
        if (status == QLFT_OK) status = encode_plain(e, &rest);
    }
    aligned_free(&e->scratch.pieces.text);
    aligned_free(&text);
    return status;
}

static qlft_status encode_text(encoding *e, const char *text, size_t bytes)
{
    const tokenizer *t = e->t;
    /* The view is never written to: normalizers make a new text. */
    union {
        const char *in;
        char *out;
    } view = {.in = text};
    aligned all = {.text = view.out, .bytes = bytes};
    size_t at = 0;
    QLFT_TRY(added_set_find(&t->raw, text, bytes, e->flags & TOKENIZE_SPECIAL, t->longest_first, &e->raw));
    for (size_t i = 0; i < e->raw.count; i++) {
        aligned part = aligned_view(&all, at, e->raw.items[i].start);
        if (part.bytes) QLFT_TRY(encode_segment(e, &part));
        QLFT_TRY(put_added(e, &e->raw.items[i], &all));
        at = e->raw.items[i].end;
    }
    aligned rest = aligned_view(&all, at, bytes);
    return rest.bytes ? encode_segment(e, &rest) : QLFT_OK;
}

/* Puts the tokens of the post-processor around those from `from` on; a BOS or EOS that the text itself has there is not put twice. */
static qlft_status add_around(const tokenizer *t, token_list *list, size_t from, size_t bytes)
{
    size_t own = list->count - from, before = (size_t)t->prefix_count, behind = (size_t)t->suffix_count;
    if (own && before == 1 && list->items[from].id == t->prefix[0]) before = 0;
    if (own && behind == 1 && list->items[list->count - 1].id == t->suffix[0]) behind = 0;
    if (!before && !behind) return QLFT_OK;
    QLFT_TRY(tokenizer_grow(&list->items, &list->capacity, list->count, before + behind, sizeof *list->items));
    token_span *items = list->items + from;
    if (own) memmove(items + before, items, own * sizeof *items);
    for (size_t i = 0; i < before; i++) items[i] = (token_span){t->prefix[i], 0, 0};
    for (size_t i = 0; i < behind; i++) items[before + own + i] = (token_span){t->suffix[i], (uint32_t)bytes, (uint32_t)bytes};
    list->count += before + behind;
    return QLFT_OK;
}

qlft_status tokenizer_encode(const tokenizer *t, const char *text, size_t bytes, unsigned flags, token_list *list)
{
    if (bytes >= UINT32_MAX) return status_fail(QLFT_EARG, "a text of %zu bytes is too long (4 GiB at most); split it", bytes);
    size_t bad = bytes ? utf8_valid_bytes(text, bytes) : 0;
    if (bad != bytes) return status_fail(QLFT_EFORMAT, "the text is not UTF-8: byte %zu (0x%02X)", bad, (unsigned char)text[bad]);
    encoding e = {.t = t, .flags = flags, .list = list};
    size_t from = list->count;
    qlft_status status = bytes ? encode_text(&e, text, bytes) : QLFT_OK;
    if (status == QLFT_OK && (flags & TOKENIZE_ADD)) status = add_around(t, list, from, bytes);
    if (status != QLFT_OK) list->count = from;
    aligned_free(&e.scratch.pieces.text);
    free(e.scratch.pieces.items);
    bpe_scratch_free(&e.scratch.bpe);
    pattern_scratch_free(&e.scratch.patterns);
    free(e.raw.items);
    free(e.inner.items);
    return status;
}
