/* tokenizer.json of the crate tokenizers: the model (BPE) and the added tokens; the steps around it are in tokenizer_steps.c. */
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"

/* ---- added tokens ---- */

static qlft_status read_added_token(tokenizer *t, const json_t *entry, const char *path)
{
    added_token token = {0};
    const char *content = NULL;
    int64_t id = -1;
    bool flags[5] = {false};
    static const char *const names[5] = {"special", "lstrip", "rstrip", "single_word", "normalized"};
    if (!json_is_object(entry)) return status_fail(QLFT_EFORMAT, "%s: \"added_tokens\" must hold objects", path);
    QLFT_TRY(json_get_string(&content, entry, "content", NULL, path));
    if (!content) return status_fail(QLFT_EFORMAT, "%s: an added token has no \"content\"", path);
    QLFT_TRY(json_get_int(&id, entry, "id", -1, path));
    for (int i = 0; i < 5; i++) QLFT_TRY(json_get_bool(&flags[i], entry, names[i], i == 4, path));
    token.special = flags[0];
    token.lstrip = flags[1];
    token.rstrip = flags[2];
    token.single_word = flags[3];
    /* Without the key, special tokens are looked for in the raw text. */
    token.normalized = json_object_get(entry, "normalized") ? flags[4] : !token.special;
    token.bytes = json_string_length(json_object_get(entry, "content"));
    token.text = (char *)(uintptr_t)content;
    QLFT_TRY(vocabulary_add(&t->words, id, content, token.bytes, path));
    token.id = (int32_t)id;
    if (!token.normalized || !t->normalizer_count) return added_set_add(&t->raw, &token);

    /* It is looked for in normalized text, so in its own normalized form. */
    aligned text = {.text = token.text, .bytes = token.bytes};
    pattern_scratch scratch = {0};
    qlft_status status = QLFT_OK;
    for (size_t i = 0; i < t->normalizer_count && status == QLFT_OK; i++) status = t->normalizers[i].apply(&t->normalizers[i], &scratch, &text);
    token.text = text.text;
    token.bytes = text.bytes;
    if (status == QLFT_OK) status = added_set_add(&t->normalized, &token);
    aligned_free(&text);
    pattern_scratch_free(&scratch);
    return status;
}

static qlft_status read_added_tokens(tokenizer *t, const json_t *root, const char *path)
{
    json_t *list = json_object_get(root, "added_tokens"), *entry;
    size_t index;
    if (!list || json_is_null(list)) return QLFT_OK;
    if (!json_is_array(list)) return status_fail(QLFT_EFORMAT, "%s: \"added_tokens\" must be a list", path);
    json_array_foreach(list, index, entry) QLFT_TRY(read_added_token(t, entry, path));
    return QLFT_OK;
}

/* ---- the model ---- */

static qlft_status read_vocabulary(tokenizer *t, json_t *model, const char *path)
{
    json_t *vocab = json_object_get(model, "vocab"), *id;
    const char *text;
    size_t bytes;
    if (!json_is_object(vocab)) return status_fail(QLFT_EFORMAT, "%s: model.vocab must be an object of tokens and ids", path);
    json_object_keylen_foreach(vocab, text, bytes, id)
    {
        if (!json_is_integer(id)) return status_fail(QLFT_EFORMAT, "%s: model.vocab: the id of \"%.80s\" is not an integer", path, text);
        QLFT_TRY(vocabulary_add(&t->words, json_integer_value(id), text, bytes, path));
    }
    return QLFT_OK;
}

/* "a b", or ["a", "b"] where tokens may hold spaces. */
static qlft_status read_merge(tokenizer *t, const json_t *entry, int32_t rank, const char *path)
{
    if (json_is_array(entry) && json_array_size(entry) == 2 && json_is_string(json_array_get(entry, 0)) && json_is_string(json_array_get(entry, 1))) {
        const json_t *left = json_array_get(entry, 0), *right = json_array_get(entry, 1);
        return tokenizer_add_merge(t, json_string_value(left), json_string_length(left), json_string_value(right), json_string_length(right), rank, false,
                                   path);
    }
    const char *text = json_string_value(entry);
    size_t bytes = json_string_length(entry);
    const char *space = text ? memchr(text, ' ', bytes) : NULL;
    if (!space || memchr(space + 1, ' ', bytes - (size_t)(space + 1 - text)))
        return status_fail(QLFT_EFORMAT, "%s: merge %d is neither \"left right\" nor [\"left\", \"right\"]", path, rank);
    return tokenizer_add_merge(t, text, (size_t)(space - text), space + 1, bytes - (size_t)(space + 1 - text), rank, false, path);
}

static qlft_status read_merges(tokenizer *t, const json_t *model, const char *path)
{
    json_t *list = json_object_get(model, "merges"), *entry;
    size_t index;
    if (!json_is_array(list)) return status_fail(QLFT_EFORMAT, "%s: model.merges must be a list", path);
    QLFT_TRY(merge_table_reserve(&t->merges, json_array_size(list)));
    json_array_foreach(list, index, entry) QLFT_TRY(read_merge(t, entry, (int32_t)index, path));
    return QLFT_OK;
}

/* What the format allows and this program does not do. */
static qlft_status refuse_options(const json_t *model, const char *path)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    double dropout;
    QLFT_TRY(json_get_double(&dropout, model, "dropout", 0, path));
    if (dropout != 0) return status_fail(QLFT_EUNSUPPORTED, "%s: model.dropout is %g: BPE dropout gives other ids at each run; set it to null", path, dropout);
    for (size_t i = 0; i < sizeof affixes / sizeof *affixes; i++) {
        const char *text;
        QLFT_TRY(json_get_string(&text, model, affixes[i], "", path));
        if (*text) return status_fail(QLFT_EUNSUPPORTED, "%s: model.%s \"%.40s\" is not supported", path, affixes[i], text);
    }
    return QLFT_OK;
}

static qlft_status read_model(tokenizer *t, const json_t *root, const char *path)
{
    json_t *model = json_object_get(root, "model");
    const char *type, *unknown;
    if (!json_is_object(model)) return status_fail(QLFT_EFORMAT, "%s: no \"model\": not a tokenizer.json of the library tokenizers", path);
    QLFT_TRY(json_get_string(&type, model, "type", json_object_get(model, "merges") ? "BPE" : "(none)", path));
    if (strcmp(type, "BPE") != 0)
        return status_fail(QLFT_EUNSUPPORTED, "%s: model type \"%.40s\" is not supported (only BPE, and sentencepiece by tokenizer.model)", path, type);
    QLFT_TRY(refuse_options(model, path));
    QLFT_TRY(json_get_bool(&t->ignore_merges, model, "ignore_merges", false, path));
    QLFT_TRY(json_get_bool(&t->byte_fallback, model, "byte_fallback", false, path));
    QLFT_TRY(json_get_bool(&t->fuse_unknown, model, "fuse_unk", false, path));
    QLFT_TRY(read_vocabulary(t, model, path));
    QLFT_TRY(read_merges(t, model, path));
    QLFT_TRY(json_get_string(&unknown, model, "unk_token", NULL, path));
    if (unknown) {
        t->unknown = tokenizer_id(t, unknown);
        if (t->unknown < 0) return status_fail(QLFT_EFORMAT, "%s: unk_token \"%.80s\" is not in the vocabulary", path, unknown);
    }
    return QLFT_OK;
}

/* Byte-level if the pre-tokenizer says so; else characters, with <0xNN> for what is not in the vocabulary. */
static qlft_status choose_bytes(tokenizer *t, const char *path)
{
    bool byte_level = t->encode_piece == encode_bpe_bytes;
    if (!byte_level) t->encode_piece = encode_bpe_characters;
    tokenizer_find_bytes(t, byte_level);
    for (int byte = 0; byte_level && t->byte_fallback && byte < 256; byte++)
        if (t->byte_ids[byte] < 0) return status_fail(QLFT_EUNSUPPORTED, "%s: byte_fallback with a byte-level vocabulary that lacks byte 0x%02X", path, byte);
    return QLFT_OK;
}

static qlft_status read_root(tokenizer *t, const json_t *root, const char *path)
{
    if (!json_is_object(root)) return status_fail(QLFT_EFORMAT, "%s: must hold a JSON object", path);
    QLFT_TRY(read_model(t, root, path));
    QLFT_TRY(tokenizer_read_steps(t, root, path));
    QLFT_TRY(choose_bytes(t, path));
    return read_added_tokens(t, root, path);
}

qlft_status tokenizer_read_json(tokenizer *t, const char *path)
{
    file_map map = {0};
    json_t *root = NULL;
    file_hash *hash = NULL;
    char *folder = path_folder(path);
    qlft_status status = folder ? file_map_open(&map, path) : status_fail(QLFT_ENOMEM, "out of memory");
    if (status == QLFT_OK && map.bytes > TOKENIZER_FILE_LIMIT)
        status = status_fail(QLFT_EFORMAT, "%s: %zu bytes are too many for a tokenizer", path, map.bytes);
    if (status == QLFT_OK) status = file_hash_open(&hash);
    if (status == QLFT_OK) {
        file_hash_put(hash, "tokenizer.json 1", 16);
        file_hash_put(hash, map.data, map.bytes);
        status = json_parse(&root, (const char *)map.data, map.bytes, path);
    }
    file_map_close(&map);
    if (status == QLFT_OK) status = read_root(t, root, path);
    json_decref(root);
    if (status == QLFT_OK) status = tokenizer_read_config(t, folder, hash);
    if (hash) file_hash_end(hash, t->hash);
    free(folder);
    return status;
}
