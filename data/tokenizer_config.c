/* The files beside tokenizer.json and tokenizer.model: BOS, EOS, what ends a generation, the chat template. */
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"

static qlft_status read_beside(json_t **out, const char *folder, const char *name)
{
    *out = NULL;
    char *path = path_join(folder, name);
    if (!path) return status_fail(QLFT_ENOMEM, "out of memory");
    qlft_status status = file_exists(path) ? json_read_file(out, path, TOKENIZER_CONFIG_LIMIT) : QLFT_OK;
    if (status == QLFT_OK && *out && !json_is_object(*out)) status = status_fail(QLFT_EFORMAT, "%s: must hold a JSON object", path);
    free(path);
    return status;
}

/* "bos_token": "<s>" or {"content": "<s>"}. A token that the vocabulary lacks is an error: its id would be wrong wherever it is used. */
static qlft_status read_token(int32_t *id, const tokenizer *t, const json_t *object, const char *key, const char *file)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_object(value)) value = json_object_get(value, "content");
    if (*id >= 0 || !value || json_is_null(value)) return QLFT_OK;
    if (!json_is_string(value)) return status_fail(QLFT_EFORMAT, "%s: \"%s\" must be a string", file, key);
    *id = vocabulary_find(&t->words, json_string_value(value), json_string_length(value));
    if (*id < 0) return status_fail(QLFT_EFORMAT, "%s: %s \"%.80s\" is not in the vocabulary", file, key, json_string_value(value));
    return QLFT_OK;
}

/* An id or a list of ids; each becomes a stop if asked, the first one is *id if there was none. */
static qlft_status read_ids(tokenizer *t, int32_t *id, const json_t *object, const char *key, bool stops, const char *file)
{
    const json_t *value = json_object_get(object, key);
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (!value || json_is_null(value)) return QLFT_OK;
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(entry)) return status_fail(QLFT_EFORMAT, "%s: \"%s\" must be an id or a list of ids", file, key);
        int64_t number = json_integer_value(entry);
        if (*id < 0 && vocabulary_text(&t->words, number >= 0 && number < t->words.size ? (int32_t)number : -1, NULL)) *id = (int32_t)number;
        if (stops) tokenizer_add_stop(t, number);
    }
    return QLFT_OK;
}

/* A string, or a list of named templates of which "default" is meant. */
static qlft_status read_template(tokenizer *t, const json_t *config)
{
    const json_t *value = json_object_get(config, "chat_template");
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
        const json_t *entry = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if ((name && strcmp(name, "default") == 0) || json_array_size(value) == 1) {
            value = json_object_get(entry, "template");
            break;
        }
    }
    const char *text = json_string_value(value);
    if (!text || t->chat_template) return QLFT_OK;
    t->chat_template = strdup(text);
    return t->chat_template ? QLFT_OK : status_fail(QLFT_ENOMEM, "out of memory");
}

/* chat_template.jinja comes before the one in tokenizer_config.json, as in transformers. */
static qlft_status read_template_file(tokenizer *t, const char *folder)
{
    char *path = path_join(folder, "chat_template.jinja");
    size_t bytes;
    if (!path) return status_fail(QLFT_ENOMEM, "out of memory");
    qlft_status status = file_exists(path) ? file_read_text(&t->chat_template, &bytes, path, TOKENIZER_CONFIG_LIMIT) : QLFT_OK;
    free(path);
    return status;
}

/* add_bos_token and add_eos_token, where they are given, decide over the post-processor of tokenizer.json. */
static qlft_status read_add(int32_t *ids, int *count, int32_t id, const json_t *config, const char *key, const char *file)
{
    const json_t *value = json_object_get(config, key);
    bool wanted;
    if (!value || json_is_null(value)) return QLFT_OK;
    QLFT_TRY(json_get_bool(&wanted, config, key, false, file));
    int kept = 0, found = 0;
    for (int i = 0; i < *count; i++) {
        found += ids[i] == id;
        if (wanted || ids[i] != id) ids[kept++] = ids[i];
    }
    *count = kept;
    if (!wanted || found) return QLFT_OK;
    if (id < 0) return status_fail(QLFT_EFORMAT, "%s: %s is true, but the token is not given", file, key);
    if (*count == TOKENIZER_AROUND) return status_fail(QLFT_EUNSUPPORTED, "%s: more than %d tokens around a text", file, TOKENIZER_AROUND);
    ids[(*count)++] = id;
    return QLFT_OK;
}

/* What the files name replaces what the model itself says (sentencepiece), also where it stands around a text. */
static void replace_token(int32_t *own, int32_t named, int32_t *ids, int count)
{
    if (named < 0) return;
    for (int i = 0; i < count; i++)
        if (ids[i] == *own) ids[i] = named;
    *own = named;
}

static qlft_status read_objects(tokenizer *t, const json_t *config, const json_t *map, const json_t *generation, const json_t *model)
{
    int32_t bos = -1, eos = -1;
    QLFT_TRY(read_token(&bos, t, config, "bos_token", "tokenizer_config.json"));
    QLFT_TRY(read_token(&eos, t, config, "eos_token", "tokenizer_config.json"));
    QLFT_TRY(read_token(&bos, t, map, "bos_token", "special_tokens_map.json"));
    QLFT_TRY(read_token(&eos, t, map, "eos_token", "special_tokens_map.json"));
    tokenizer_add_stop(t, eos);
    QLFT_TRY(read_ids(t, &eos, generation, "eos_token_id", true, "generation_config.json"));
    QLFT_TRY(read_ids(t, &eos, model, "eos_token_id", true, "config.json"));
    QLFT_TRY(read_ids(t, &bos, generation, "bos_token_id", false, "generation_config.json"));
    QLFT_TRY(read_ids(t, &bos, model, "bos_token_id", false, "config.json"));
    replace_token(&t->bos, bos, t->prefix, t->bos >= 0 ? t->prefix_count : 0);
    replace_token(&t->eos, eos, t->suffix, t->eos >= 0 ? t->suffix_count : 0);
    if (t->bos < 0 && t->prefix_count == 1) t->bos = t->prefix[0];
    tokenizer_add_stop(t, t->eos);
    QLFT_TRY(read_add(t->prefix, &t->prefix_count, t->bos, config, "add_bos_token", "tokenizer_config.json"));
    QLFT_TRY(read_add(t->suffix, &t->suffix_count, t->eos, config, "add_eos_token", "tokenizer_config.json"));
    return read_template(t, config);
}

qlft_status tokenizer_read_config(tokenizer *t, const char *folder, file_hash *hash)
{
    static const char *const names[4] = {"tokenizer_config.json", "special_tokens_map.json", "generation_config.json", "config.json"};
    json_t *files[4] = {NULL};
    qlft_status status = read_template_file(t, folder);
    for (int i = 0; i < 4 && status == QLFT_OK; i++) status = read_beside(&files[i], folder, names[i]);
    if (status == QLFT_OK) status = read_objects(t, files[0], files[1], files[2], files[3]);
    if (status != QLFT_OK) status_prefix(status, "%s: ", folder);
    for (int i = 0; i < 4; i++) json_decref(files[i]);
    tokenizer_hash_ids(t, hash);
    return status;
}
