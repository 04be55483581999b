/* Merging: BPE by rank (byte-level, or characters with byte fallback) and sentencepiece's by score. Short pieces search their pairs in a row; long
 * ones keep them in a heap, so that a word of megabytes takes n log n. */
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"

enum { SHORT_PIECE = 32 }; /* symbols; up to here the row is faster than the heap */

/* ---- bytes as characters (GPT-2): printable ones of Latin-1 stand for themselves, the 68 others for U+0100 on ---- */

static bool stands_for_itself(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

uint32_t byte_level_code(unsigned char byte)
{
    if (stands_for_itself(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xa0) return 0x121u + (byte - 0x7fu);
    return 0x143u; /* 0xad */
}

int byte_level_byte(uint32_t code)
{
    if (code < 0x100) return stands_for_itself(code) ? (int)code : -1;
    if (code <= 0x120) return (int)(code - 0x100);
    if (code <= 0x142) return (int)(code - 0x121 + 0x7f);
    return code == 0x143 ? 0xad : -1;
}

/* ---- the table of merges ---- */

static uint32_t hash_pair(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    return (uint32_t)((h ^ h >> 29) >> 16);
}

qlft_status merge_table_reserve(merge_table *m, size_t count)
{
    if (count > (size_t)1 << 26) return status_fail(QLFT_EFORMAT, "%zu merges are more than any vocabulary has", count);
    uint32_t mask = 1023;
    while (mask / 2 < count) mask = mask * 2 + 1;
    m->slots = malloc(((size_t)mask + 1) * sizeof *m->slots);
    if (!m->slots) return status_fail(QLFT_ENOMEM, "out of memory for %zu merges", count);
    memset(m->slots, 0xff, ((size_t)mask + 1) * sizeof *m->slots);
    m->mask = mask;
    return QLFT_OK;
}

void merge_table_add(merge_table *m, int32_t left, int32_t right, int32_t rank, int32_t id, bool keep_first)
{
    uint32_t slot = hash_pair(left, right) & m->mask;
    while (m->slots[slot].left >= 0) {
        if (m->slots[slot].left == left && m->slots[slot].right == right) {
            if (!keep_first) m->slots[slot].rank = rank;
            return;
        }
        slot = (slot + 1) & m->mask;
    }
    m->slots[slot] = (merge_slot){left, right, rank, id};
    m->count++;
}

static const merge_slot *find_merge(const merge_table *m, int32_t left, int32_t right)
{
    uint32_t slot = hash_pair(left, right) & m->mask;
    while (m->slots[slot].left >= 0) {
        if (m->slots[slot].left == left && m->slots[slot].right == right) return &m->slots[slot];
        slot = (slot + 1) & m->mask;
    }
    return NULL;
}

qlft_status tokenizer_add_merge(tokenizer *t, const char *left, size_t left_bytes, const char *right, size_t right_bytes, int32_t rank, bool keep_first,
                                const char *what)
{
    char local[256], *joined = local;
    if (left_bytes + right_bytes > sizeof local) {
        joined = malloc(left_bytes + right_bytes);
        if (!joined) return status_fail(QLFT_ENOMEM, "out of memory for merges");
    }
    memcpy(joined, left, left_bytes);
    memcpy(joined + left_bytes, right, right_bytes);
    int32_t l = vocabulary_find(&t->words, left, left_bytes);
    int32_t r = vocabulary_find(&t->words, right, right_bytes);
    int32_t id = vocabulary_find(&t->words, joined, left_bytes + right_bytes);
    if (joined != local) free(joined);
    if (l < 0 || r < 0 || id < 0)
        return status_fail(QLFT_EFORMAT, "%s: merge %d (\"%.*s\" + \"%.*s\"): %s is not in the vocabulary; the file is damaged or was edited by hand", what,
                           rank, (int)(left_bytes < 80 ? left_bytes : 80), left, (int)(right_bytes < 80 ? right_bytes : 80), right,
                           l < 0   ? "the left token"
                           : r < 0 ? "the right token"
                                   : "their union");
    merge_table_add(&t->merges, l, r, rank, id, keep_first);
    return QLFT_OK;
}

/* ---- symbols ---- */

void bpe_scratch_free(bpe_scratch *b)
{
    free(b->symbols);
    free(b->queue);
    free(b->text);
    memset(b, 0, sizeof *b);
}

static void put_symbol(bpe_scratch *b, int32_t id, size_t start, size_t end)
{
    int32_t at = (int32_t)b->count++;
    b->symbols[at] = (symbol){(uint32_t)start, (uint32_t)end, (uint32_t)(end - start), id, at - 1, at + 1};
}

static qlft_status reserve_symbols(bpe_scratch *b, size_t count)
{
    if (count > INT32_MAX) return status_fail(QLFT_EARG, "a text without a break is longer than 2 GiB");
    b->count = 0;
    return tokenizer_grow(&b->symbols, &b->capacity, 0, count, sizeof *b->symbols);
}

/* What two neighbours merge to: rank (lower is earlier) and id; false: nothing. */
typedef bool (*pair_rule)(const tokenizer *t, const char *text, const symbol *left, const symbol *right, uint32_t *rank, int32_t *id);

static bool pair_by_merges(const tokenizer *t, const char *text, const symbol *left, const symbol *right, uint32_t *rank, int32_t *id)
{
    (void)text;
    if (left->id < 0 || right->id < 0) return false;
    const merge_slot *found = find_merge(&t->merges, left->id, right->id);
    if (!found) return false;
    *rank = (uint32_t)found->rank;
    *id = found->id;
    return true;
}

static bool pair_by_scores(const tokenizer *t, const char *text, const symbol *left, const symbol *right, uint32_t *rank, int32_t *id)
{
    int32_t found = vocabulary_find(&t->words, text + left->start, right->end - left->start);
    if (found < 0) return false;
    *rank = t->order[found];
    *id = found;
    return true;
}

/* ---- merging a short piece ---- */

static void merge_row(const tokenizer *t, bpe_scratch *b, const char *text, pair_rule rule)
{
    uint32_t ranks[SHORT_PIECE];
    int32_t ids[SHORT_PIECE];
    symbol *s = b->symbols;
    size_t count = b->count;
    for (size_t i = 0; i + 1 < count; i++)
        if (!rule(t, text, &s[i], &s[i + 1], &ranks[i], &ids[i])) ranks[i] = UINT32_MAX;
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == UINT32_MAX) break;
        s[best].id = ids[best];
        s[best].end = s[best + 1].end;
        count--;
        memmove(&s[best + 1], &s[best + 2], (count - best - 1) * sizeof *s);
        if (best + 1 < count) {
            memmove(&ranks[best + 1], &ranks[best + 2], (count - best - 2) * sizeof *ranks);
            memmove(&ids[best + 1], &ids[best + 2], (count - best - 2) * sizeof *ids);
            if (!rule(t, text, &s[best], &s[best + 1], &ranks[best], &ids[best])) ranks[best] = UINT32_MAX;
        }
        if (best > 0 && !rule(t, text, &s[best - 1], &s[best], &ranks[best - 1], &ids[best - 1])) ranks[best - 1] = UINT32_MAX;
    }
    b->count = count;
}

/* ---- merging a long piece ---- */

static bool before(const queued *l, const queued *r)
{
    return l->rank != r->rank ? l->rank < r->rank : l->left < r->left;
}

static qlft_status push(bpe_scratch *b, queued item)
{
    QLFT_TRY(tokenizer_grow(&b->queue, &b->queue_capacity, b->queued_count, 1, sizeof *b->queue));
    size_t at = b->queued_count++;
    while (at > 0 && before(&item, &b->queue[(at - 1) / 2])) {
        b->queue[at] = b->queue[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    b->queue[at] = item;
    return QLFT_OK;
}

static queued pop(bpe_scratch *b)
{
    queued top = b->queue[0], last = b->queue[--b->queued_count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < b->queued_count) {
        if (child + 1 < b->queued_count && before(&b->queue[child + 1], &b->queue[child])) child++;
        if (!before(&b->queue[child], &last)) break;
        b->queue[at] = b->queue[child];
        at = child;
    }
    b->queue[at] = last;
    return top;
}

static qlft_status push_pair(const tokenizer *t, bpe_scratch *b, const char *text, pair_rule rule, int32_t left)
{
    if (left < 0 || b->symbols[left].next >= (int32_t)b->count) return QLFT_OK;
    const symbol *l = &b->symbols[left], *r = &b->symbols[l->next];
    queued item = {.left = (uint32_t)left, .size = l->size + r->size};
    if (!rule(t, text, l, r, &item.rank, &item.id)) return QLFT_OK;
    return push(b, item);
}

static qlft_status merge_heap(const tokenizer *t, bpe_scratch *b, const char *text, pair_rule rule)
{
    b->queued_count = 0;
    for (size_t i = 0; i + 1 < b->count; i++) QLFT_TRY(push_pair(t, b, text, rule, (int32_t)i));
    while (b->queued_count) {
        queued item = pop(b);
        symbol *left = &b->symbols[item.left];
        /* A symbol only grows, and one that was merged away has size 0: an old entry never has the size of the present pair. */
        if (!left->size || left->next >= (int32_t)b->count) continue;
        symbol *right = &b->symbols[left->next];
        if (left->size + right->size != item.size) continue;
        left->id = item.id;
        left->end = right->end;
        left->size = item.size;
        left->next = right->next;
        right->size = 0;
        if (left->next < (int32_t)b->count) b->symbols[left->next].previous = (int32_t)item.left;
        QLFT_TRY(push_pair(t, b, text, rule, left->previous));
        QLFT_TRY(push_pair(t, b, text, rule, (int32_t)item.left));
    }
    size_t kept = 0;
    for (size_t i = 0; i < b->count; i = (size_t)b->symbols[i].next) b->symbols[kept++] = b->symbols[i];
    b->count = kept;
    return QLFT_OK;
}

static qlft_status merge(const tokenizer *t, bpe_scratch *b, const char *text, pair_rule rule)
{
    if (b->count > SHORT_PIECE) return merge_heap(t, b, text, rule);
    merge_row(t, b, text, rule);
    return QLFT_OK;
}

static qlft_status put_token(token_list *list, int32_t id, size_t start, size_t end)
{
    QLFT_TRY(tokenizer_grow(&list->items, &list->capacity, list->count, 1, sizeof *list->items));
    list->items[list->count++] = (token_span){id, (uint32_t)start, (uint32_t)end};
    return QLFT_OK;
}

static qlft_status put_symbols(const bpe_scratch *b, size_t base, token_list *list)
{
    QLFT_TRY(tokenizer_grow(&list->items, &list->capacity, list->count, b->count, sizeof *list->items));
    for (size_t i = 0; i < b->count; i++) {
        const symbol *s = &b->symbols[i];
        if (s->id >= 0) list->items[list->count++] = (token_span){s->id, (uint32_t)(base + s->start), (uint32_t)(base + s->end)};
    }
    return QLFT_OK;
}

/* ---- byte-level ---- */

/* The id of a whole piece in the vocabulary, as ignore_merges asks for; -1: none. */
static qlft_status find_whole(const tokenizer *t, bpe_scratch *b, const char *text, size_t bytes, int32_t *id)
{
    QLFT_TRY(tokenizer_grow(&b->text, &b->text_capacity, 0, bytes * 2, 1));
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint32_t code = byte_level_code((unsigned char)text[i]);
        if (code < 0x80) {
            b->text[used++] = (char)code;
        } else {
            b->text[used++] = (char)(0xc0 | code >> 6);
            b->text[used++] = (char)(0x80 | (code & 0x3f));
        }
    }
    *id = vocabulary_find(&t->words, b->text, used);
    return QLFT_OK;
}

/* Puts the unknown token that is pending, if any. */
static void flush_unknown(const tokenizer *t, bpe_scratch *b, size_t *start, size_t *end)
{
    if (*start == *end) return;
    put_symbol(b, t->unknown, *start, *end);
    *start = *end = 0;
}

/* [start, end) is not in the vocabulary: it joins the pending unknown token, or the one before is put. Without an unknown token it vanishes, as in
 * tokenizers; for llama.cpp it first keeps its neighbours apart. */
static void put_unknown(const tokenizer *t, bpe_scratch *b, size_t start, size_t end, size_t *unknown_start, size_t *unknown_end)
{
    if (t->unknown_stays) {
        put_symbol(b, -1, start, end);
    } else if (t->unknown >= 0) {
        if (*unknown_start != *unknown_end && t->fuse_unknown) {
            *unknown_end = end;
            return;
        }
        flush_unknown(t, b, unknown_start, unknown_end);
        *unknown_start = start;
        *unknown_end = end;
    }
}

qlft_status encode_bpe_bytes(const tokenizer *t, encode_scratch *scratch, const char *text, size_t start, size_t end, token_list *list)
{
    bpe_scratch *b = &scratch->bpe;
    size_t bytes = end - start, unknown_start = 0, unknown_end = 0;
    if (t->ignore_merges) {
        int32_t whole;
        QLFT_TRY(find_whole(t, b, text + start, bytes, &whole));
        if (whole >= 0) return put_token(list, whole, start, end);
    }
    QLFT_TRY(reserve_symbols(b, bytes));
    for (size_t i = 0; i < bytes; i++) {
        int32_t id = t->byte_ids[(unsigned char)text[start + i]];
        if (id < 0) {
            put_unknown(t, b, i, i + 1, &unknown_start, &unknown_end);
            continue;
        }
        flush_unknown(t, b, &unknown_start, &unknown_end);
        put_symbol(b, id, i, i + 1);
    }
    flush_unknown(t, b, &unknown_start, &unknown_end);
    QLFT_TRY(merge(t, b, text + start, pair_by_merges));
    return put_symbols(b, start, list);
}

/* ---- characters ---- */

static bool has_bytes(const tokenizer *t, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (t->byte_ids[(unsigned char)text[i]] < 0) return false;
    return true;
}

qlft_status encode_bpe_characters(const tokenizer *t, encode_scratch *scratch, const char *text, size_t start, size_t end, token_list *list)
{
    bpe_scratch *b = &scratch->bpe;
    size_t bytes = end - start, unknown_start = 0, unknown_end = 0;
    const char *part = text + start;
    if (t->ignore_merges) {
        int32_t whole = vocabulary_find(&t->words, part, bytes);
        if (whole >= 0) return put_token(list, whole, start, end);
    }
    QLFT_TRY(reserve_symbols(b, bytes));
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        size_t length = (size_t)utf8_read(part + at, &code);
        int32_t id = vocabulary_find(&t->words, part + at, length);
        if (id >= 0) {
            flush_unknown(t, b, &unknown_start, &unknown_end);
            put_symbol(b, id, at, at + length);
        } else if (t->byte_fallback && has_bytes(t, part + at, length)) {
            /* A pending unknown token comes behind these, as in tokenizers. */
            for (size_t i = at; i < at + length; i++) put_symbol(b, t->byte_ids[(unsigned char)part[i]], i, i + 1);
        } else {
            put_unknown(t, b, at, at + length, &unknown_start, &unknown_end);
        }
        at += length;
    }
    flush_unknown(t, b, &unknown_start, &unknown_end);
    QLFT_TRY(merge(t, b, part, pair_by_merges));
    return put_symbols(b, start, list);
}

/* ---- sentencepiece's BPE with scores, as llama.cpp runs it ---- */

qlft_status encode_scores(const tokenizer *t, encode_scratch *scratch, const char *text, size_t start, size_t end, token_list *list)
{
    bpe_scratch *b = &scratch->bpe;
    const char *part = text + start;
    QLFT_TRY(reserve_symbols(b, end - start));
    for (size_t at = 0; at < end - start;) {
        uint32_t code;
        size_t length = (size_t)utf8_read(part + at, &code);
        put_symbol(b, vocabulary_find(&t->words, part + at, length), at, at + length);
        at += length;
    }
    QLFT_TRY(merge(t, b, part, pair_by_scores));
    for (size_t i = 0; i < b->count; i++) {
        const symbol *s = &b->symbols[i];
        if (s->id >= 0) {
            QLFT_TRY(put_token(list, s->id, start + s->start, start + s->end));
            continue;
        }
        for (size_t byte = s->start; byte < s->end; byte++) {
            int32_t id = t->byte_ids[(unsigned char)part[byte]];
            if (id < 0) id = t->unknown;
            if (id < 0)
                return status_fail(QLFT_EUNSUPPORTED, "the vocabulary has no token for the byte 0x%02X and no unknown token", (unsigned char)part[byte]);
            QLFT_TRY(put_token(list, id, start + byte, start + byte + 1));
        }
    }
    return QLFT_OK;
}
