/* The tokenizer in a GGUF file, with the rules of llama.cpp: tokenizer.ggml.model "gpt2" is byte-level BPE split by the pre-tokenizer that
 * tokenizer.ggml.pre names, "llama" is sentencepiece's BPE by scores. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"
#include "data/utf8.h"

enum { /* token types of the format */
       TYPE_NORMAL = 1,
       TYPE_UNKNOWN = 2,
       TYPE_CONTROL = 3,
       TYPE_USER = 4
};

typedef struct reading {
    tokenizer *t;
    const gguf *g;
    const char *path;
    const gguf_value *tokens, *types, *scores, *merges;
    bool add_bos, add_eos;
    file_hash *hash;
} reading;

/* Tokens by which a turn ends, whatever the type that the file gives them (llama.cpp takes them as control tokens too). */
static const char *const ends[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<\xef\xbd\x9c"
    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
    "<eos>",
};

static bool is_end(const gguf_string *text)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strlen(ends[i]) == text->bytes && memcmp(ends[i], text->text, text->bytes) == 0) return true;
    return false;
}

static qlft_status find_array(const gguf_value **out, const reading *r, const char *key, gguf_kind item, uint64_t least)
{
    *out = gguf_find(r->g, key);
    if (!*out) return QLFT_OK;
    if ((*out)->kind != GGUF_ARRAY || (*out)->item != item) return status_fail(QLFT_EFORMAT, "%s: %s is an array of another type", r->path, key);
    if ((*out)->count < least)
        return status_fail(QLFT_EFORMAT, "%s: %s has %llu entries, but there are %llu tokens", r->path, key, (unsigned long long)(*out)->count,
                           (unsigned long long)least);
    return QLFT_OK;
}

static int type_of(const reading *r, size_t id)
{
    int32_t type = TYPE_NORMAL;
    if (r->types) memcpy(&type, r->types->data + id * sizeof type, sizeof type);
    return type;
}

static void hash_strings(file_hash *hash, const gguf_value *list)
{
    for (uint64_t i = 0; i < list->count; i++) {
        uint64_t bytes = list->strings[i].bytes;
        file_hash_put(hash, &bytes, sizeof bytes);
        file_hash_put(hash, list->strings[i].text, list->strings[i].bytes);
    }
}

/* Phi-3's special tokens take the white space behind them; the file does not say so, llama.cpp knows it by the model's name. */
static qlft_status takes_space_behind(bool *out, const reading *r)
{
    gguf_string name;
    char lower[256];
    QLFT_TRY(gguf_get_string(&name, r->g, "general.name"));
    size_t bytes = name.text ? name.bytes < sizeof lower - 1 ? name.bytes : sizeof lower - 1 : 0;
    for (size_t i = 0; i < bytes; i++) lower[i] = (char)tolower((unsigned char)name.text[i]);
    lower[bytes] = '\0';
    *out = strstr(lower, "phi-3") || strstr(lower, "phi3");
    return QLFT_OK;
}

static bool keeps_space_behind(const gguf_string *text)
{
    static const char *const names[] = {"<unk>", "<s>", "<|endoftext|>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == text->bytes && memcmp(names[i], text->text, text->bytes) == 0) return true;
    return false;
}

static qlft_status read_tokens(reading *r)
{
    bool phi3;
    QLFT_TRY(find_array(&r->tokens, r, "tokenizer.ggml.tokens", GGUF_STRING, 0));
    if (!r->tokens || !r->tokens->count) return status_fail(QLFT_EFORMAT, "%s: tokenizer.ggml.tokens is missing: the file has no vocabulary", r->path);
    QLFT_TRY(find_array(&r->types, r, "tokenizer.ggml.token_type", GGUF_I32, r->tokens->count));
    QLFT_TRY(find_array(&r->scores, r, "tokenizer.ggml.scores", GGUF_F32, r->tokens->count));
    QLFT_TRY(find_array(&r->merges, r, "tokenizer.ggml.merges", GGUF_STRING, 0));
    QLFT_TRY(takes_space_behind(&phi3, r));
    r->t->longest_first = true;
    for (uint64_t id = 0; id < r->tokens->count; id++) {
        gguf_string text = r->tokens->strings[id];
        char empty[32];
        if (!text.bytes) { /* as llama.cpp: it has a text, and nothing gives its id */
            text.bytes = (size_t)snprintf(empty, sizeof empty, "[EMPTY_%llu]", (unsigned long long)id);
            text.text = empty;
        }
        if (utf8_valid_bytes(text.text, text.bytes) != text.bytes)
            return status_fail(QLFT_EFORMAT, "%s: token %llu is not UTF-8", r->path, (unsigned long long)id);
        QLFT_TRY(vocabulary_add(&r->t->words, (int64_t)id, text.text, text.bytes, r->path));
        int type = type_of(r, id);
        bool end = is_end(&text);
        if (type != TYPE_UNKNOWN && type != TYPE_CONTROL && type != TYPE_USER && !end) continue;
        added_token token = {.id = (int32_t)id, .text = (char *)(uintptr_t)text.text, .bytes = text.bytes, .special = type != TYPE_USER || end};
        token.rstrip = phi3 && !keeps_space_behind(&text);
        QLFT_TRY(added_set_add(&r->t->raw, &token));
    }
    return QLFT_OK;
}

/* ---- the two models ---- */

static qlft_status read_gpt2(reading *r)
{
    tokenizer *t = r->t;
    gguf_string name;
    QLFT_TRY(gguf_get_string(&name, r->g, "tokenizer.ggml.pre"));
    if (!name.text) name = (gguf_string){"default", 7};
    const gguf_pre *pre = gguf_pre_find(name.text, name.bytes);
    if (!pre)
        return status_fail(QLFT_EUNSUPPORTED,
                           "%s: the pre-tokenizer \"%.*s\" (tokenizer.ggml.pre) is not supported; use the model's folder with tokenizer.json", r->path,
                           (int)(name.bytes < 80 ? name.bytes : 80), name.text);
    for (const char *const *expression = pre->patterns; *expression; expression++) QLFT_TRY(tokenizer_add_split(t, *expression, r->path));
    t->ignore_merges = pre->ignore_merges;
    r->add_bos = pre->add_bos;
    t->encode_piece = encode_bpe_bytes;
    t->unknown_stays = true;
    tokenizer_find_bytes(t, true);
    if (!r->merges) return status_fail(QLFT_EFORMAT, "%s: tokenizer.ggml.merges is missing", r->path);
    QLFT_TRY(merge_table_reserve(&t->merges, r->merges->count));
    for (uint64_t i = 0; i < r->merges->count; i++) {
        const gguf_string *s = &r->merges->strings[i];
        const char *space = s->bytes > 1 ? memchr(s->text + 1, ' ', s->bytes - 1) : NULL;
        if (!space) return status_fail(QLFT_EFORMAT, "%s: merge %llu is not \"left right\"", r->path, (unsigned long long)i);
        size_t left = (size_t)(space - s->text);
        QLFT_TRY(tokenizer_add_merge(t, s->text, left, space + 1, s->bytes - left - 1, (int32_t)i, true, r->path));
    }
    decoder *d;
    QLFT_TRY(tokenizer_new_decoder(t, &d));
    d->apply = decode_byte_level;
    return QLFT_OK;
}

/* Scores as numbers of which the lower is merged first: the bits of a float in descending order. */
static qlft_status read_scores(reading *r)
{
    tokenizer *t = r->t;
    t->order = calloc((size_t)t->words.size, sizeof *t->order);
    if (!t->order) return status_fail(QLFT_ENOMEM, "out of memory for the vocabulary");
    for (int32_t id = 0; r->scores && id < t->words.size; id++) {
        float score;
        uint32_t bits;
        memcpy(&score, r->scores->data + (size_t)id * sizeof score, sizeof score);
        if (isnan(score)) return status_fail(QLFT_EFORMAT, "%s: the score of token %d is not a number", r->path, id);
        score += 0.0f; /* -0 is 0 */
        memcpy(&bits, &score, sizeof bits);
        t->order[id] = bits & 0x80000000u ? bits : ~bits & 0x7fffffffu;
    }
    return QLFT_OK;
}

static qlft_status read_llama(reading *r)
{
    tokenizer *t = r->t;
    bool prefix;
    normalizer *n;
    QLFT_TRY(read_scores(r));
    QLFT_TRY(gguf_get_bool(&prefix, r->g, "tokenizer.ggml.add_space_prefix", true));
    if (prefix) {
        QLFT_TRY(tokenizer_new_normalizer(t, &n));
        n->apply = normalize_prepend;
        n->content = strdup("\xe2\x96\x81");
        n->content_bytes = 3;
        if (!n->content) return status_fail(QLFT_ENOMEM, "out of memory");
    }
    QLFT_TRY(tokenizer_new_normalizer(t, &n));
    n->apply = normalize_replace;
    n->content = strdup("\xe2\x96\x81");
    n->content_bytes = 3;
    if (!n->content) return status_fail(QLFT_ENOMEM, "out of memory");
    QLFT_TRY(pattern_compile(&n->match, " ", 1, true, r->path));
    t->encode_piece = encode_scores;
    tokenizer_find_bytes(t, false);
    r->add_bos = true;
    t->bos = t->words.size > 1 ? 1 : -1;
    t->eos = t->words.size > 2 ? 2 : -1;
    t->unknown = 0;
    return tokenizer_add_spm_decoders(t, prefix);
}

typedef struct gguf_model {
    const char *name;
    qlft_status (*read)(reading *r);
} gguf_model;
static const gguf_model models[] = {{"gpt2", read_gpt2}, {"llama", read_llama}};

static qlft_status read_model(reading *r)
{
    gguf_string name;
    QLFT_TRY(gguf_get_string(&name, r->g, "tokenizer.ggml.model"));
    if (!name.text) return status_fail(QLFT_EFORMAT, "%s: tokenizer.ggml.model is missing: the file has no tokenizer", r->path);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strlen(models[i].name) == name.bytes && memcmp(models[i].name, name.text, name.bytes) == 0) return models[i].read(r);
    return status_fail(QLFT_EUNSUPPORTED, "%s: the tokenizer model \"%.*s\" (tokenizer.ggml.model) is not supported (gpt2 and llama are)", r->path,
                       (int)(name.bytes < 80 ? name.bytes : 80), name.text);
}

/* ---- special ids ---- */

static qlft_status read_id(int32_t *out, const reading *r, const char *key)
{
    int64_t id;
    QLFT_TRY(gguf_get_int(&id, r->g, key, -1));
    if (id < 0) return QLFT_OK;
    if (id >= r->t->words.size)
        return status_fail(QLFT_EFORMAT, "%s: %s is %lld, but the vocabulary has %d tokens", r->path, key, (long long)id, r->t->words.size);
    *out = (int32_t)id;
    return QLFT_OK;
}

static qlft_status read_special(reading *r)
{
    tokenizer *t = r->t;
    int32_t eot = -1, eom = -1;
    gguf_string chat;
    QLFT_TRY(read_id(&t->bos, r, "tokenizer.ggml.bos_token_id"));
    QLFT_TRY(read_id(&t->eos, r, "tokenizer.ggml.eos_token_id"));
    QLFT_TRY(read_id(&t->unknown, r, "tokenizer.ggml.unknown_token_id"));
    QLFT_TRY(read_id(&eot, r, "tokenizer.ggml.eot_token_id"));
    QLFT_TRY(read_id(&eom, r, "tokenizer.ggml.eom_token_id"));
    tokenizer_add_stop(t, t->eos);
    tokenizer_add_stop(t, eot);
    tokenizer_add_stop(t, eom);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) tokenizer_add_stop(t, tokenizer_id(t, ends[i]));
    QLFT_TRY(gguf_get_bool(&r->add_bos, r->g, "tokenizer.ggml.add_bos_token", r->add_bos));
    QLFT_TRY(gguf_get_bool(&r->add_eos, r->g, "tokenizer.ggml.add_eos_token", false));
    if ((r->add_bos && t->bos < 0) || (r->add_eos && t->eos < 0))
        return status_fail(QLFT_EFORMAT, "%s: a %s token is to be added, but its id is not given", r->path, r->add_bos && t->bos < 0 ? "BOS" : "EOS");
    tokenizer_set_around(t, r->add_bos, r->add_eos);
    QLFT_TRY(gguf_get_string(&chat, r->g, "tokenizer.chat_template"));
    if (!chat.text) return QLFT_OK;
    t->chat_template = strndup(chat.text, chat.bytes);
    return t->chat_template ? QLFT_OK : status_fail(QLFT_ENOMEM, "out of memory");
}

static qlft_status hash_all(reading *r)
{
    static const char *const names[] = {"tokenizer.ggml.model", "tokenizer.ggml.pre"};
    tokenizer *t = r->t;
    unsigned char rstrip = r->t->raw.count && r->t->raw.items[0].rstrip;
    file_hash_put(r->hash, "gguf tokenizer 1", 16);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gguf_string name;
        QLFT_TRY(gguf_get_string(&name, r->g, names[i]));
        if (name.text) file_hash_put(r->hash, name.text, name.bytes);
        file_hash_put(r->hash, "|", 1);
    }
    hash_strings(r->hash, r->tokens);
    if (r->merges) hash_strings(r->hash, r->merges);
    if (r->types) file_hash_put(r->hash, r->types->data, (size_t)r->types->count * 4);
    if (r->scores) file_hash_put(r->hash, r->scores->data, (size_t)r->scores->count * 4);
    unsigned char steps = (unsigned char)t->normalizer_count;
    file_hash_put(r->hash, &steps, 1);
    file_hash_put(r->hash, &rstrip, 1);
    tokenizer_hash_ids(t, r->hash);
    return QLFT_OK;
}

qlft_status tokenizer_read_gguf(tokenizer *t, const char *path)
{
    gguf g = {0};
    reading r = {.t = t, .g = &g, .path = path};
    QLFT_TRY(gguf_open(&g, path));
    qlft_status status = file_hash_open(&r.hash);
    if (status == QLFT_OK) status = read_tokens(&r);
    if (status == QLFT_OK) status = read_model(&r);
    if (status == QLFT_OK) status = read_special(&r);
    if (status == QLFT_OK) status = hash_all(&r);
    if (r.hash) file_hash_end(r.hash, t->hash);
    gguf_close(&g);
    return status;
}
