/* tokenizer.model: sentencepiece, by its own library. Control pieces in a text are found by our added tokens (the library takes their text as plain);
 * each stretch between them is encoded by itself, as transformers' LlamaTokenizer (legacy) does. */
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"

enum { MESSAGE_BYTES = 256 };

/* ---- encoding ---- */

typedef struct collecting {
    const tokenizer *t;
    token_list *list;
    size_t base; /* of the stretch in the text */
    qlft_status status;
} collecting;

static void collect(void *payload, int32_t id, uint32_t begin, uint32_t end)
{
    collecting *c = payload;
    token_list *list = c->list;
    if (c->status != QLFT_OK) return;
    c->status = tokenizer_grow(&list->items, &list->capacity, list->count, 1, sizeof *list->items);
    if (c->status != QLFT_OK) return;
    list->items[list->count++] = (token_span){id, (uint32_t)(c->base + begin), (uint32_t)(c->base + end)};
}

/* The library gives the whole character to the last of its byte pieces and nothing to those before; here each has its byte. */
static void spread_bytes(const tokenizer *t, token_list *list, size_t from)
{
    for (size_t last = from; last < list->count; last++) {
        token_span *span = &list->items[last];
        uint32_t length = span->end - span->start;
        if (length < 2 || length > 4 || !spm_is_byte(t->library, span->id) || last - from + 1 < length) continue;
        bool run = true;
        for (uint32_t i = 1; i < length; i++) run = run && spm_is_byte(t->library, list->items[last - i].id);
        if (!run) continue;
        uint32_t start = span->start;
        for (uint32_t i = 0; i < length; i++) {
            list->items[last - length + 1 + i].start = start + i;
            list->items[last - length + 1 + i].end = start + i + 1;
        }
    }
}

qlft_status encode_library(const tokenizer *t, encode_scratch *scratch, const char *text, size_t start, size_t end, token_list *list)
{
    (void)scratch;
    char message[MESSAGE_BYTES] = "";
    size_t from = list->count;
    collecting c = {t, list, start, QLFT_OK};
    if (!spm_encode(t->library, text + start, end - start, collect, &c, message, sizeof message))
        return status_fail(QLFT_EFORMAT, "sentencepiece cannot encode the text: %s", message);
    spread_bytes(t, list, from);
    return c.status;
}

/* ---- reading ---- */

static qlft_status add_token(tokenizer *t, int64_t id, const char *text, size_t bytes, bool special, const char *what)
{
    QLFT_TRY(vocabulary_add(&t->words, id, text, bytes, what));
    added_token token = {.id = (int32_t)id, .text = (char *)(uintptr_t)text, .bytes = bytes, .special = special};
    return added_set_add(&t->raw, &token);
}

static qlft_status read_pieces(tokenizer *t, const char *path)
{
    int32_t count = spm_size(t->library);
    for (int32_t id = 0; id < count; id++) {
        size_t bytes;
        const char *text = spm_piece(t->library, id, &bytes);
        if (spm_is_control(t->library, id) || spm_is_unknown(t->library, id))
            QLFT_TRY(add_token(t, id, text, bytes, true, path));
        else
            QLFT_TRY(vocabulary_add(&t->words, id, text, bytes, path));
    }
    return QLFT_OK;
}

/* added_tokens.json: {"text": id}. */
static qlft_status read_added_file(tokenizer *t, const json_t *file, const char *what)
{
    json_t *id;
    const char *text;
    json_object_foreach((json_t *)(uintptr_t)file, text, id)
    {
        if (!json_is_integer(id)) return status_fail(QLFT_EFORMAT, "%s: the id of \"%.80s\" is not an integer", what, text);
        if (vocabulary_find(&t->words, text, strlen(text)) < 0) QLFT_TRY(add_token(t, json_integer_value(id), text, strlen(text), true, what));
    }
    return QLFT_OK;
}

/* tokenizer_config.json: "added_tokens_decoder": {"32000": {"content": ..., "special": ..., "lstrip": ...}}. */
static qlft_status read_added_decoder(tokenizer *t, const json_t *file, const char *what)
{
    json_t *list = json_object_get(file, "added_tokens_decoder"), *entry;
    const char *number;
    if (!json_is_object(list)) return QLFT_OK;
    json_object_foreach(list, number, entry)
    {
        char *end;
        const char *content;
        added_token token = {0};
        long long id = strtoll(number, &end, 10);
        QLFT_TRY(json_get_string(&content, entry, "content", NULL, what));
        if (*end || !*number || !content) return status_fail(QLFT_EFORMAT, "%s: added_tokens_decoder: \"%.40s\" is no token", what, number);
        QLFT_TRY(json_get_bool(&token.special, entry, "special", false, what));
        QLFT_TRY(json_get_bool(&token.lstrip, entry, "lstrip", false, what));
        QLFT_TRY(json_get_bool(&token.rstrip, entry, "rstrip", false, what));
        QLFT_TRY(json_get_bool(&token.single_word, entry, "single_word", false, what));
        if (id >= 0 && id < spm_size(t->library)) continue; /* the model's own pieces are there already */
        QLFT_TRY(vocabulary_add(&t->words, id, content, strlen(content), what));
        token.id = (int32_t)id;
        token.text = (char *)(uintptr_t)content;
        token.bytes = strlen(content);
        QLFT_TRY(added_set_add(&t->raw, &token));
    }
    return QLFT_OK;
}

typedef struct added_source {
    const char *name;
    qlft_status (*read)(tokenizer *t, const json_t *file, const char *what);
} added_source;
static const added_source sources[] = {{"tokenizer_config.json", read_added_decoder}, {"added_tokens.json", read_added_file}};

static qlft_status read_added(tokenizer *t, const char *folder, file_hash *hash)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        char *path = path_join(folder, sources[i].name);
        json_t *file = NULL;
        if (!path) return status_fail(QLFT_ENOMEM, "out of memory");
        qlft_status status = QLFT_OK;
        if (file_exists(path)) {
            status = json_read_file(&file, path, TOKENIZER_CONFIG_LIMIT);
            if (status == QLFT_OK && !json_is_object(file)) status = status_fail(QLFT_EFORMAT, "%s: must hold a JSON object", path);
            if (status == QLFT_OK) status = sources[i].read(t, file, path);
        }
        json_decref(file);
        free(path);
        QLFT_TRY(status);
    }
    /* With the texts and flags of all added tokens. */
    for (size_t i = 0; i < t->raw.count; i++) {
        const added_token *token = &t->raw.items[i];
        unsigned char flags[] = {token->special, token->lstrip, token->rstrip, token->single_word};
        file_hash_put(hash, &token->id, sizeof token->id);
        file_hash_put(hash, token->text, token->bytes);
        file_hash_put(hash, flags, sizeof flags);
    }
    return QLFT_OK;
}

/* Whether the model puts a space in front of a text, which decoding then takes away. The library does not say; an encoded letter shows it. */
static qlft_status has_prefix(const tokenizer *t, bool *out)
{
    token_list list = {0};
    size_t bytes = 0;
    QLFT_TRY(encode_library(t, NULL, "a", 0, 1, &list));
    const char *first = list.count ? vocabulary_text(&t->words, list.items[0].id, &bytes) : NULL;
    *out = first && bytes >= 3 && memcmp(first, "\xe2\x96\x81", 3) == 0;
    token_list_free(&list);
    return QLFT_OK;
}

static qlft_status read_around(tokenizer *t, const char *folder, file_hash *hash)
{
    bool prefix;
    t->bos = spm_bos(t->library);
    t->eos = spm_eos(t->library);
    t->unknown = spm_unknown(t->library);
    t->encode_piece = encode_library;
    QLFT_TRY(has_prefix(t, &prefix));
    QLFT_TRY(tokenizer_add_spm_decoders(t, prefix));
    /* transformers' LlamaTokenizer adds BOS unless add_bos_token says otherwise. */
    tokenizer_set_around(t, true, false);
    return tokenizer_read_config(t, folder, hash);
}

qlft_status tokenizer_read_spm(tokenizer *t, const char *path)
{
    file_map map = {0};
    file_hash *hash = NULL;
    char message[MESSAGE_BYTES] = "";
    char *folder = path_folder(path);
    qlft_status status = folder ? file_map_open(&map, path) : status_fail(QLFT_ENOMEM, "out of memory");
    if (status == QLFT_OK && map.bytes > TOKENIZER_FILE_LIMIT)
        status = status_fail(QLFT_EFORMAT, "%s: %zu bytes are too many for a tokenizer", path, map.bytes);
    if (status == QLFT_OK) status = file_hash_open(&hash);
    if (status == QLFT_OK) {
        file_hash_put(hash, "sentencepiece 1", 15);
        file_hash_put(hash, map.data, map.bytes);
        t->library = spm_open(map.data, map.bytes, message, sizeof message);
        if (!t->library) status = status_fail(QLFT_EFORMAT, "%s: not a sentencepiece model: %s", path, message);
    }
    file_map_close(&map);
    if (status == QLFT_OK) status = read_pieces(t, path);
    if (status == QLFT_OK) status = read_added(t, folder, hash);
    if (status == QLFT_OK) status = read_around(t, folder, hash);
    if (hash) file_hash_end(hash, t->hash);
    free(folder);
    return status;
}
