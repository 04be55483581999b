/* The steps of tokenizer.json: normalizer, pre_tokenizer, post_processor, decoder. Each is an object with a "type", and a Sequence holds others; the
 * tables below name the types that are done exactly, any other is refused by name. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "data/tokenizer_internal.h"

enum { SEQUENCE_DEPTH = 16 };

typedef struct step_type {
    const char *name;
    qlft_status (*read)(tokenizer *t, const json_t *step, const char *what);
} step_type;

typedef struct step_group {
    const char *key;      /* in tokenizer.json */
    const char *sequence; /* the list of a Sequence */
    const step_type *types;
    size_t count;
} step_group;

static qlft_status read_step(tokenizer *t, const step_group *group, const json_t *step, int depth, const char *path)
{
    char what[512];
    const char *type;
    snprintf(what, sizeof what, "%.400s: %s", path, group->key);
    if (!json_is_object(step)) return status_fail(QLFT_EFORMAT, "%s must be an object", what);
    QLFT_TRY(json_get_string(&type, step, "type", NULL, what));
    if (!type) return status_fail(QLFT_EFORMAT, "%s has no \"type\"", what);
    if (strcmp(type, "Sequence") == 0) {
        json_t *list = json_object_get(step, group->sequence), *inner;
        size_t index;
        if (!json_is_array(list)) return status_fail(QLFT_EFORMAT, "%s: a Sequence needs the list \"%s\"", what, group->sequence);
        if (depth == SEQUENCE_DEPTH) return status_fail(QLFT_EUNSUPPORTED, "%s: Sequences are nested more than %d deep", what, SEQUENCE_DEPTH);
        json_array_foreach(list, index, inner) QLFT_TRY(read_step(t, group, inner, depth + 1, path));
        return QLFT_OK;
    }
    snprintf(what, sizeof what, "%.400s: %s %.40s", path, group->key, type);
    for (size_t i = 0; i < group->count; i++)
        if (strcmp(group->types[i].name, type) == 0) return group->types[i].read(t, step, what);
    return status_fail(QLFT_EUNSUPPORTED, "%s is not supported", what);
}

/* ---- parts that steps share ---- */

/* {"String": "..."} or {"Regex": "..."} */
static qlft_status read_pattern(pattern *out, const json_t *step, const char *what)
{
    const json_t *pair = json_object_get(step, "pattern");
    const json_t *literal = json_object_get(pair, "String"), *expression = json_object_get(pair, "Regex");
    const json_t *text = literal ? literal : expression;
    if (!json_is_string(text)) return status_fail(QLFT_EFORMAT, "%s: \"pattern\" must be {\"String\": ...} or {\"Regex\": ...}", what);
    return pattern_compile(out, json_string_value(text), json_string_length(text), literal != NULL, what);
}

static qlft_status read_content(char **out, size_t *bytes, const json_t *step, const char *key, const char *what)
{
    const json_t *text = json_object_get(step, key);
    if (!json_is_string(text)) return status_fail(QLFT_EFORMAT, "%s: \"%s\" must be a string", what, key);
    *bytes = json_string_length(text);
    *out = malloc(*bytes + 1);
    if (!*out) return status_fail(QLFT_ENOMEM, "out of memory");
    memcpy(*out, json_string_value(text), *bytes + 1);
    return QLFT_OK;
}

/* ---- normalizers ---- */

static qlft_status read_form(tokenizer *t, int form)
{
    normalizer *n;
    QLFT_TRY(tokenizer_new_normalizer(t, &n));
    n->apply = normalize_unicode;
    n->form = form | UTF8PROC_STABLE;
    return QLFT_OK;
}

static qlft_status read_nfc(tokenizer *t, const json_t *step, const char *what)
{
    (void)step, (void)what;
    return read_form(t, UTF8PROC_COMPOSE);
}

static qlft_status read_nfkc(tokenizer *t, const json_t *step, const char *what)
{
    (void)step, (void)what;
    return read_form(t, UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
}

static qlft_status read_nfd(tokenizer *t, const json_t *step, const char *what)
{
    (void)step, (void)what;
    return read_form(t, UTF8PROC_DECOMPOSE);
}

static qlft_status read_nfkd(tokenizer *t, const json_t *step, const char *what)
{
    (void)step, (void)what;
    return read_form(t, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
}

static qlft_status read_prepend(tokenizer *t, const json_t *step, const char *what)
{
    normalizer *n;
    QLFT_TRY(tokenizer_new_normalizer(t, &n));
    n->apply = normalize_prepend;
    return read_content(&n->content, &n->content_bytes, step, "prepend", what);
}

static qlft_status read_replace(tokenizer *t, const json_t *step, const char *what)
{
    normalizer *n;
    QLFT_TRY(tokenizer_new_normalizer(t, &n));
    n->apply = normalize_replace;
    QLFT_TRY(read_pattern(&n->match, step, what));
    return read_content(&n->content, &n->content_bytes, step, "content", what);
}

static qlft_status read_strip(tokenizer *t, const json_t *step, const char *what)
{
    normalizer *n;
    QLFT_TRY(tokenizer_new_normalizer(t, &n));
    n->apply = normalize_strip;
    QLFT_TRY(json_get_bool(&n->left, step, "strip_left", true, what));
    return json_get_bool(&n->right, step, "strip_right", true, what);
}

static qlft_status read_lowercase(tokenizer *t, const json_t *step, const char *what)
{
    (void)step, (void)what;
    normalizer *n;
    QLFT_TRY(tokenizer_new_normalizer(t, &n));
    n->apply = normalize_lowercase;
    return QLFT_OK;
}

static const step_type normalizer_types[] = {
    {"NFC", read_nfc},         {"NFKC", read_nfkc},       {"NFD", read_nfd},     {"NFKD", read_nfkd},
    {"Prepend", read_prepend}, {"Replace", read_replace}, {"Strip", read_strip}, {"Lowercase", read_lowercase},
};

/* ---- pre-tokenizers ---- */

static qlft_status add_splitter(tokenizer *t, splitter **out, const char *what)
{
    /* Behind ByteLevel the pieces are written in its characters; to be done exactly, a later step would have to see those. */
    if (t->encode_piece == encode_bpe_bytes) return status_fail(QLFT_EUNSUPPORTED, "%s: a pre-tokenizer behind ByteLevel is not supported", what);
    return tokenizer_new_splitter(t, out);
}

static qlft_status add_split(tokenizer *t, const char *expression, split_behavior behavior, const char *what)
{
    splitter *s;
    QLFT_TRY(add_splitter(t, &s, what));
    s->apply = split_pattern;
    s->behavior = behavior;
    return pattern_compile(&s->match, expression, strlen(expression), false, what);
}

static qlft_status read_byte_level(tokenizer *t, const json_t *step, const char *what)
{
    bool prefix, split;
    QLFT_TRY(json_get_bool(&prefix, step, "add_prefix_space", true, what));
    QLFT_TRY(json_get_bool(&split, step, "use_regex", true, what));
    if (prefix) {
        splitter *s;
        QLFT_TRY(add_splitter(t, &s, what));
        s->apply = split_prefix_space;
    }
    if (split) QLFT_TRY(add_split(t, SPLIT_GPT2, SPLIT_ISOLATED, what));
    t->encode_piece = encode_bpe_bytes;
    return QLFT_OK;
}

typedef struct named_number {
    const char *name;
    int number;
} named_number;

static qlft_status read_name(int *out, const named_number *names, size_t count, const json_t *step, const char *key, const char *missing, const char *what)
{
    const char *text;
    QLFT_TRY(json_get_string(&text, step, key, missing, what));
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i].name, text) == 0) {
            *out = names[i].number;
            return QLFT_OK;
        }
    return status_fail(QLFT_EUNSUPPORTED, "%s: %s \"%.40s\" is not known", what, key, text);
}

static const named_number behavior_names[] = {
    {"Isolated", SPLIT_ISOLATED},
    {"Removed", SPLIT_REMOVED},
    {"MergedWithPrevious", SPLIT_MERGED_WITH_PREVIOUS},
    {"MergedWithNext", SPLIT_MERGED_WITH_NEXT},
    {"Contiguous", SPLIT_CONTIGUOUS},
};

static qlft_status read_behavior(split_behavior *out, const json_t *step, const char *what)
{
    int number = SPLIT_ISOLATED;
    QLFT_TRY(read_name(&number, behavior_names, sizeof behavior_names / sizeof *behavior_names, step, "behavior", "Isolated", what));
    *out = (split_behavior)number;
    return QLFT_OK;
}

static qlft_status read_split(tokenizer *t, const json_t *step, const char *what)
{
    splitter *s;
    QLFT_TRY(add_splitter(t, &s, what));
    s->apply = split_pattern;
    QLFT_TRY(read_behavior(&s->behavior, step, what));
    QLFT_TRY(json_get_bool(&s->invert, step, "invert", false, what));
    return read_pattern(&s->match, step, what);
}

static qlft_status read_digits(tokenizer *t, const json_t *step, const char *what)
{
    bool single;
    QLFT_TRY(json_get_bool(&single, step, "individual_digits", false, what));
    return add_split(t, single ? "\\p{N}" : "\\p{N}+", SPLIT_ISOLATED, what);
}

/* tokenizers asks a crate with the categories of Unicode 8 (measured): \p{P} without what came later or was moved there, with two that left it. */
#define PUNCTUATION                                                                                                                                            \
    "(?![\\x{61d}\\x{9fd}\\x{a76}\\x{c77}\\x{c84}\\x{1b7d}\\x{1b7e}\\x{2e43}-\\x{2e5d}\\x{10ead}\\x{10f55}-\\x{10f89}\\x{1144b}-\\x{1145d}\\x{11660}-\\x{"     \
    "1166c}"                                                                                                                                                   \
    "\\x{116b9}\\x{1183b}\\x{11944}-\\x{11946}\\x{119e2}\\x{11a3f}-\\x{11aa2}\\x{11c41}-\\x{11c71}\\x{11ef7}-\\x{11fff}\\x{12ff1}\\x{12ff2}\\x{16e97}-\\x{"    \
    "16e9a}"                                                                                                                                                   \
    "\\x{16fe2}\\x{1e95e}\\x{1e95f}])[\\p{P}!-/:-@\\[-`{-~]|[\\x{166d}\\x{111c9}]"

static qlft_status read_punctuation(tokenizer *t, const json_t *step, const char *what)
{
    split_behavior behavior = SPLIT_ISOLATED;
    QLFT_TRY(read_behavior(&behavior, step, what));
    return add_split(t, PUNCTUATION, behavior, what);
}

/* The replacement and the scheme of Metaspace, as pre-tokenizer and as decoder. */
static qlft_status read_metaspace_parts(char replacement[8], size_t *bytes, prepend_scheme *prepend, const json_t *step, const char *what)
{
    static const named_number names[] = {{"always", PREPEND_ALWAYS}, {"first", PREPEND_FIRST}, {"never", PREPEND_NEVER}};
    const char *text;
    int scheme = PREPEND_ALWAYS;
    bool prefix;
    uint32_t code;
    QLFT_TRY(json_get_string(&text, step, "replacement", "\xe2\x96\x81", what));
    *bytes = strlen(text);
    if (!*bytes || utf8_read(text, &code) != (int)*bytes) return status_fail(QLFT_EFORMAT, "%s: \"replacement\" must be one character", what);
    memcpy(replacement, text, *bytes + 1);
    /* Files before prepend_scheme have add_prefix_space. */
    QLFT_TRY(json_get_bool(&prefix, step, "add_prefix_space", true, what));
    QLFT_TRY(read_name(&scheme, names, sizeof names / sizeof *names, step, "prepend_scheme", prefix ? "always" : "never", what));
    if (!prefix && scheme != PREPEND_NEVER) return status_fail(QLFT_EFORMAT, "%s: add_prefix_space and prepend_scheme contradict each other", what);
    *prepend = (prepend_scheme)scheme;
    return QLFT_OK;
}

static qlft_status read_metaspace(tokenizer *t, const json_t *step, const char *what)
{
    splitter *s;
    bool split;
    QLFT_TRY(add_splitter(t, &s, what));
    s->apply = split_metaspace;
    QLFT_TRY(read_metaspace_parts(s->replacement, &s->replacement_bytes, &s->prepend, step, what));
    QLFT_TRY(json_get_bool(&split, step, "split", true, what));
    if (!split) return QLFT_OK;
    char mark[8];
    size_t bytes = s->replacement_bytes;
    memcpy(mark, s->replacement, sizeof mark);
    QLFT_TRY(add_splitter(t, &s, what));
    s->apply = split_pattern;
    s->behavior = SPLIT_MERGED_WITH_NEXT;
    return pattern_compile(&s->match, mark, bytes, true, what);
}

static const step_type splitter_types[] = {
    {"ByteLevel", read_byte_level}, {"Split", read_split}, {"Digits", read_digits}, {"Punctuation", read_punctuation}, {"Metaspace", read_metaspace},
};

/* ---- post-processors: what is put around a text ---- */

static qlft_status read_no_change(tokenizer *t, const json_t *step, const char *what)
{
    (void)t, (void)step, (void)what; /* ByteLevel only trims offsets, which here are always those of the token */
    return QLFT_OK;
}

static qlft_status put_around(int32_t *ids, int *count, const json_t *id, const char *what)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= TOKENIZER_ID_LIMIT)
        return status_fail(QLFT_EFORMAT, "%s: a special token has a wrong id", what);
    if (*count == TOKENIZER_AROUND) return status_fail(QLFT_EUNSUPPORTED, "%s: more than %d tokens around a text", what, TOKENIZER_AROUND);
    ids[(*count)++] = (int32_t)json_integer_value(id);
    return QLFT_OK;
}

static qlft_status read_template(tokenizer *t, const json_t *step, const char *what)
{
    json_t *list = json_object_get(step, "single"), *tokens = json_object_get(step, "special_tokens"), *part;
    size_t index;
    bool behind = false;
    if (!json_is_array(list)) return status_fail(QLFT_EFORMAT, "%s: \"single\" must be a list", what);
    if (t->prefix_count || t->suffix_count) return status_fail(QLFT_EUNSUPPORTED, "%s: there is a second one", what);
    json_array_foreach(list, index, part)
    {
        const json_t *special = json_object_get(part, "SpecialToken"), *sequence = json_object_get(part, "Sequence");
        if (sequence) {
            const char *name = json_string_value(json_object_get(sequence, "id"));
            if (behind || !name || strcmp(name, "A") != 0) return status_fail(QLFT_EUNSUPPORTED, "%s: \"single\" must hold the sequence A once", what);
            behind = true;
            continue;
        }
        const char *name = json_string_value(json_object_get(special, "id"));
        json_t *ids = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL, *id;
        size_t at;
        if (!json_is_array(ids)) return status_fail(QLFT_EFORMAT, "%s: \"special_tokens\" has no ids for a token of \"single\"", what);
        json_array_foreach(ids, at, id) QLFT_TRY(put_around(behind ? t->suffix : t->prefix, behind ? &t->suffix_count : &t->prefix_count, id, what));
    }
    return behind ? QLFT_OK : status_fail(QLFT_EFORMAT, "%s: \"single\" has no sequence", what);
}

static const step_type processor_types[] = {{"ByteLevel", read_no_change}, {"TemplateProcessing", read_template}};

/* ---- decoders ---- */

static qlft_status add_decoder(tokenizer *t, qlft_status (*apply)(const decoder *d, pattern_scratch *scratch, token_strings *strings))
{
    decoder *d;
    QLFT_TRY(tokenizer_new_decoder(t, &d));
    d->apply = apply;
    return QLFT_OK;
}

static qlft_status read_decode_bytes(tokenizer *t, const json_t *step, const char *what)
{
    (void)step, (void)what;
    return add_decoder(t, decode_byte_level);
}

static qlft_status read_decode_fallback(tokenizer *t, const json_t *step, const char *what)
{
    (void)step, (void)what;
    return add_decoder(t, decode_byte_fallback);
}

static qlft_status read_decode_fuse(tokenizer *t, const json_t *step, const char *what)
{
    (void)step, (void)what;
    return add_decoder(t, decode_fuse);
}

static qlft_status read_decode_replace(tokenizer *t, const json_t *step, const char *what)
{
    decoder *d;
    QLFT_TRY(tokenizer_new_decoder(t, &d));
    d->apply = decode_replace;
    QLFT_TRY(read_pattern(&d->match, step, what));
    return read_content(&d->content, &d->content_bytes, step, "content", what);
}

static qlft_status read_decode_strip(tokenizer *t, const json_t *step, const char *what)
{
    decoder *d;
    QLFT_TRY(tokenizer_new_decoder(t, &d));
    d->apply = decode_strip;
    QLFT_TRY(json_get_int(&d->start, step, "start", 0, what));
    QLFT_TRY(json_get_int(&d->stop, step, "stop", 0, what));
    QLFT_TRY(read_content(&d->content, &d->content_bytes, step, "content", what));
    return d->content_bytes ? QLFT_OK : status_fail(QLFT_EFORMAT, "%s: \"content\" is empty", what);
}

static qlft_status read_decode_metaspace(tokenizer *t, const json_t *step, const char *what)
{
    decoder *d;
    char replacement[8];
    size_t bytes;
    prepend_scheme prepend;
    QLFT_TRY(tokenizer_new_decoder(t, &d));
    d->apply = decode_metaspace;
    QLFT_TRY(read_metaspace_parts(replacement, &bytes, &prepend, step, what));
    d->drop_first = prepend != PREPEND_NEVER;
    d->content = strdup(" ");
    d->content_bytes = 1;
    if (!d->content) return status_fail(QLFT_ENOMEM, "out of memory");
    return pattern_compile(&d->match, replacement, bytes, true, what);
}

static const step_type decoder_types[] = {
    {"ByteLevel", read_decode_bytes}, {"ByteFallback", read_decode_fallback}, {"Fuse", read_decode_fuse},
    {"Replace", read_decode_replace}, {"Strip", read_decode_strip},           {"Metaspace", read_decode_metaspace},
};

/* ---- all of them ---- */

#define GROUP(key, list, types)                                                                                                                                \
    {                                                                                                                                                          \
        key, list, types, sizeof types / sizeof *types                                                                                                         \
    }

qlft_status tokenizer_read_steps(tokenizer *t, const json_t *root, const char *path)
{
    static const step_group groups[] = {
        GROUP("normalizer", "normalizers", normalizer_types),
        GROUP("pre_tokenizer", "pretokenizers", splitter_types),
        GROUP("post_processor", "processors", processor_types),
        GROUP("decoder", "decoders", decoder_types),
    };
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const json_t *step = json_object_get(root, groups[i].key);
        if (step && !json_is_null(step)) QLFT_TRY(read_step(t, &groups[i], step, 0, path));
    }
    t->join_by_space = !t->decoder_count;
    return QLFT_OK;
}
