/* Pre-tokenizers: a text cut into pieces that are tokenized apart. Each splitter sees one piece as a text of its own. */
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"

typedef struct cut {
    size_t start, end;
    bool match;
} cut;
typedef struct cuts {
    cut *items;
    size_t count, capacity;
} cuts;

static qlft_status put_piece(pieces *p, size_t start, size_t end)
{
    if (start == end) return QLFT_OK;
    QLFT_TRY(tokenizer_grow(&p->items, &p->capacity, p->count, 1, sizeof *p->items));
    p->items[p->count++] = (piece){start, end};
    return QLFT_OK;
}

static qlft_status put_cut(cuts *c, size_t start, size_t end, bool match)
{
    QLFT_TRY(tokenizer_grow(&c->items, &c->capacity, c->count, 1, sizeof *c->items));
    c->items[c->count++] = (cut){start, end, match};
    return QLFT_OK;
}

/* ---- behaviors: what becomes of matches; they join cuts in place ---- */

static void join_previous(cuts *c)
{
    size_t kept = 0;
    bool before = false;
    for (size_t i = 0; i < c->count; i++) {
        bool match = c->items[i].match;
        if (match && !before && kept)
            c->items[kept - 1].end = c->items[i].end;
        else
            c->items[kept++] = c->items[i];
        before = match;
    }
    c->count = kept;
}

static void join_next(cuts *c)
{
    size_t kept = c->count;
    bool before = false;
    for (size_t i = c->count; i-- > 0;) {
        bool match = c->items[i].match;
        if (match && !before && kept < c->count)
            c->items[kept].start = c->items[i].start;
        else
            c->items[--kept] = c->items[i];
        before = match;
    }
    memmove(c->items, c->items + kept, (c->count - kept) * sizeof *c->items);
    c->count -= kept;
}

static void join_equal(cuts *c)
{
    size_t kept = 0;
    bool before = false;
    for (size_t i = 0; i < c->count; i++) {
        bool match = c->items[i].match;
        if (match == before && kept)
            c->items[kept - 1].end = c->items[i].end;
        else
            c->items[kept++] = c->items[i];
        before = match;
    }
    c->count = kept;
}

static void remove_matches(cuts *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++)
        if (!c->items[i].match) c->items[kept++] = c->items[i];
    c->count = kept;
}

static void (*const behaviors[])(cuts *c) = {
    [SPLIT_ISOLATED] = NULL,         [SPLIT_REMOVED] = remove_matches, [SPLIT_MERGED_WITH_PREVIOUS] = join_previous, [SPLIT_MERGED_WITH_NEXT] = join_next,
    [SPLIT_CONTIGUOUS] = join_equal,
};

/* ---- the split on a pattern ---- */

static qlft_status cut_piece(const splitter *s, pattern_scratch *scratch, const char *text, size_t bytes, cuts *out)
{
    size_t done = 0, at = 0, start, end;
    bool found;
    out->count = 0;
    for (;;) {
        QLFT_TRY(pattern_next(&s->match, scratch, text, bytes, at, &found, &start, &end));
        if (!found) break;
        if (done < start) QLFT_TRY(put_cut(out, done, start, s->invert));
        QLFT_TRY(put_cut(out, start, end, !s->invert));
        done = at = end;
        uint32_t code;
        if (start == end) at += end < bytes ? (size_t)utf8_read(text + end, &code) : 1;
    }
    if (done < bytes) QLFT_TRY(put_cut(out, done, bytes, s->invert));
    if (behaviors[s->behavior]) behaviors[s->behavior](out);
    return QLFT_OK;
}

qlft_status split_pattern(const splitter *s, pattern_scratch *scratch, pieces *p)
{
    pieces made = {.text = p->text};
    cuts found = {0};
    qlft_status status = QLFT_OK;
    for (size_t i = 0; i < p->count && status == QLFT_OK; i++) {
        size_t base = p->items[i].start;
        status = cut_piece(s, scratch, p->text.text + base, p->items[i].end - base, &found);
        for (size_t j = 0; j < found.count && status == QLFT_OK; j++) status = put_piece(&made, base + found.items[j].start, base + found.items[j].end);
    }
    free(found.items);
    free(p->items);
    *p = made;
    return status;
}

/* ---- splitters that change the text ---- */

static qlft_status replace_pieces(pieces *p, pieces *made, qlft_status status)
{
    aligned_free(&p->text);
    free(p->items);
    *p = *made;
    return status;
}

qlft_status split_prefix_space(const splitter *s, pattern_scratch *scratch, pieces *p)
{
    (void)s;
    (void)scratch;
    pieces made = {0};
    qlft_status status = QLFT_OK;
    for (size_t i = 0; i < p->count && status == QLFT_OK; i++) {
        size_t start = made.text.bytes, first = p->items[i].start;
        if (p->text.text[first] != ' ') status = aligned_put_before(&made.text, " ", 1, &p->text, first);
        if (status == QLFT_OK) status = aligned_copy(&made.text, &p->text, first, p->items[i].end);
        if (status == QLFT_OK) status = put_piece(&made, start, made.text.bytes);
    }
    return replace_pieces(p, &made, status);
}

static qlft_status metaspace_piece(const splitter *s, const aligned *text, piece part, aligned *made)
{
    bool has = text->text[part.start] == ' ' ||
               (part.end - part.start >= s->replacement_bytes && memcmp(text->text + part.start, s->replacement, s->replacement_bytes) == 0);
    bool first = s->prepend == PREPEND_ALWAYS || (s->prepend == PREPEND_FIRST && aligned_from(text, part.start) == 0);
    if (first && !has) QLFT_TRY(aligned_put_before(made, s->replacement, s->replacement_bytes, text, part.start));
    for (size_t at = part.start; at < part.end;) {
        size_t end = at;
        while (end < part.end && text->text[end] != ' ') end++;
        QLFT_TRY(aligned_copy(made, text, at, end));
        at = end;
        if (at == part.end) break;
        QLFT_TRY(aligned_put(made, s->replacement, s->replacement_bytes, aligned_from(text, at), aligned_to(text, at)));
        at++;
    }
    return QLFT_OK;
}

qlft_status split_metaspace(const splitter *s, pattern_scratch *scratch, pieces *p)
{
    (void)scratch;
    pieces made = {0};
    qlft_status status = QLFT_OK;
    for (size_t i = 0; i < p->count && status == QLFT_OK; i++) {
        size_t start = made.text.bytes;
        status = metaspace_piece(s, &p->text, p->items[i], &made.text);
        if (status == QLFT_OK) status = put_piece(&made, start, made.text.bytes);
    }
    return replace_pieces(p, &made, status);
}

/* ---- the pre-tokenizers that GGUF files name ---- */

/* The published expressions of the models, which the converter of llama.cpp replaces by a name. */
#define CONTRACTIONS "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define WORDS_AND_SPACES "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const char SPLIT_GPT2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static const char *const gpt2[] = {SPLIT_GPT2, NULL};
static const char *const llama3[] = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" WORDS_AND_SPACES, NULL};
static const char *const qwen2[] = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" WORDS_AND_SPACES, NULL};
static const char *const qwen35[] = {
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", NULL};
static const char *const digits_gpt2[] = {"\\p{N}", SPLIT_GPT2, NULL};
static const char *const seed_coder[] = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", NULL};
static const char *const deepseek3[] = {
    "\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL};
static const char *const falcon[] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", SPLIT_GPT2, "[0-9][0-9][0-9]", NULL};
static const char *const fallback[] = {"[\\p{P}\\$\\+<=>\\^~\\|]+", SPLIT_GPT2, "\\p{N}+", "[0-9][0-9][0-9]", NULL};

static const gguf_pre pres[] = {
    {"default", fallback, false, false},
    {"gpt-2", gpt2, false, false},
    {"phi-2", gpt2, false, false},
    {"gigachat", gpt2, false, false},
    {"a.x-4.0", gpt2, false, false},
    {"mellum", gpt2, false, false},
    {"mpt", gpt2, false, false},
    {"olmo", gpt2, false, false},
    {"jais", gpt2, false, false},
    {"exaone4", gpt2, false, false},
    {"trillion", gpt2, false, false},
    {"llama3", llama3, true, true},
    {"llama-v3", llama3, true, true},
    {"llama-bpe", llama3, true, true},
    {"falcon3", llama3, true, true},
    {"falcon-h1", llama3, true, true},
    {"pixtral", llama3, true, true},
    {"midm-2.0", llama3, true, true},
    {"lfm2", llama3, true, true},
    {"dbrx", llama3, false, false},
    {"smaug-bpe", llama3, false, false},
    {"glm4", llama3, false, false},
    {"chatglm-bpe", llama3, false, false},
    {"qwen2", qwen2, false, false},
    {"deepseek-r1-qwen", qwen2, false, false},
    {"kormo", qwen2, false, false},
    {"megrez", qwen2, false, false},
    {"stablelm2", qwen2, false, false},
    {"hunyuan", qwen2, false, false},
    {"solar-open", qwen2, false, false},
    {"grok-2", qwen2, false, false},
    {"qwen35", qwen35, false, false},
    {"smollm", digits_gpt2, false, false},
    {"starcoder", digits_gpt2, false, false},
    {"refact", digits_gpt2, false, false},
    {"command-r", digits_gpt2, false, false},
    {"codeshell", digits_gpt2, false, false},
    {"exaone", digits_gpt2, false, false},
    {"minerva-7b", digits_gpt2, false, false},
    {"mellum2", digits_gpt2, false, false},
    {"seed-coder", seed_coder, false, false},
    {"deepseek-v3", deepseek3, false, false},
    {"hunyuan-dense", deepseek3, false, false},
    {"falcon", falcon, false, false},
};

const gguf_pre *gguf_pre_find(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        if (strlen(pres[i].name) == bytes && memcmp(pres[i].name, name, bytes) == 0) return &pres[i];
    return NULL;
}
