/* Added tokens: finding their text in a text. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"

qlft_status added_set_add(added_set *set, const added_token *token)
{
    if (!token->bytes) return QLFT_OK; /* nothing to find */
    QLFT_TRY(tokenizer_grow(&set->items, &set->capacity, set->count, 1, sizeof *set->items));
    added_token *item = &set->items[set->count];
    *item = *token;
    item->text = malloc(token->bytes);
    if (!item->text) return status_fail(QLFT_ENOMEM, "out of memory for added tokens");
    memcpy(item->text, token->text, token->bytes);
    set->count++;
    return QLFT_OK;
}

static int by_text(const void *left, const void *right)
{
    const added_token *l = left, *r = right;
    size_t bytes = l->bytes < r->bytes ? l->bytes : r->bytes;
    int order = memcmp(l->text, r->text, bytes);
    if (order) return order;
    return (l->bytes > r->bytes) - (l->bytes < r->bytes);
}

qlft_status added_set_finish(added_set *set)
{
    if (set->count) qsort(set->items, set->count, sizeof *set->items, by_text);
    for (size_t i = 0; i < set->count; i++) set->first[(unsigned char)set->items[i].text[0]] = true;
    return QLFT_OK;
}

void added_set_free(added_set *set)
{
    for (size_t i = 0; i < set->count; i++) free(set->items[i].text);
    free(set->items);
    memset(set, 0, sizeof *set);
}

/* Items [*low, *high) agree with the text in `depth` bytes; keeps those whose next byte is `byte`. */
static void narrow(const added_set *set, size_t *low, size_t *high, size_t depth, unsigned char byte)
{
    size_t from = *low, to = *high;
    while (from < to) { /* first item with a byte there that is not smaller */
        size_t middle = from + (to - from) / 2;
        const added_token *item = &set->items[middle];
        if (item->bytes <= depth || (unsigned char)item->text[depth] < byte)
            from = middle + 1;
        else
            to = middle;
    }
    size_t first = from;
    to = *high;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if ((unsigned char)set->items[middle].text[depth] <= byte)
            from = middle + 1;
        else
            to = middle;
    }
    *low = first;
    *high = from;
}

typedef struct place {
    size_t at;
    const added_token *token;
} place;

typedef struct places {
    place *items;
    size_t count, capacity;
} places;

/* Tokens that begin at `at`: the longest one, or all into `all`. */
static qlft_status tokens_at(const added_set *set, const char *text, size_t bytes, size_t at, bool special, const added_token **longest, places *all)
{
    *longest = NULL;
    if (!set->first[(unsigned char)text[at]]) return QLFT_OK;
    size_t low = 0, high = set->count;
    for (size_t depth = 0; at + depth < bytes && low < high; depth++) {
        narrow(set, &low, &high, depth, (unsigned char)text[at + depth]);
        if (low == high || set->items[low].bytes != depth + 1) continue;
        /* Equal texts stand next to each other; the last of them is the longest match so far. */
        *longest = &set->items[low];
        if (!all || (set->items[low].special && !special)) continue;
        QLFT_TRY(tokenizer_grow(&all->items, &all->capacity, all->count, 1, sizeof *all->items));
        all->items[all->count++] = (place){at, &set->items[low]};
    }
    return QLFT_OK;
}

/* The match with its white space, at or behind `taken`; false: the token does not stand here as a single word. */
static bool match_with_space(const char *text, size_t bytes, size_t at, const added_token *token, size_t taken, added_match *out)
{
    uint32_t code;
    size_t start = at, end = at + token->bytes;
    if (token->single_word) {
        if (start > 0 && (utf8_read_back(text, start, &code), unicode_is_word(code))) return false;
        if (end < bytes && (utf8_read(text + end, &code), unicode_is_word(code))) return false;
    }
    while (token->lstrip && start > taken) {
        int length = utf8_read_back(text, start, &code);
        if (!unicode_is_space(code)) break;
        start -= (size_t)length;
    }
    while (token->rstrip && end < bytes) {
        int length = utf8_read(text + end, &code);
        if (!unicode_is_space(code)) break;
        end += (size_t)length;
    }
    *out = (added_match){start < taken ? taken : start, end, token};
    return true;
}

static qlft_status put_match(added_matches *out, const added_match *match)
{
    QLFT_TRY(tokenizer_grow(&out->items, &out->capacity, out->count, 1, sizeof *out->items));
    out->items[out->count++] = *match;
    return QLFT_OK;
}

/* As the crate tokenizers does: a match that does not count (special, single_word) still takes its text. */
static qlft_status find_leftmost(const added_set *set, const char *text, size_t bytes, bool special, added_matches *out)
{
    size_t at = 0, taken = 0;
    while (at < bytes) {
        const added_token *token;
        QLFT_TRY(tokens_at(set, text, bytes, at, special, &token, NULL));
        if (!token) {
            at++;
            continue;
        }
        added_match match;
        size_t end = at + token->bytes;
        if ((!token->special || special) && match_with_space(text, bytes, at, token, taken, &match)) {
            QLFT_TRY(put_match(out, &match));
            taken = match.end;
            if (taken > end) end = taken;
        }
        at = end;
    }
    return QLFT_OK;
}

static int longest_first_order(const void *left, const void *right)
{
    const place *l = left, *r = right;
    if (l->token->bytes != r->token->bytes) return l->token->bytes > r->token->bytes ? -1 : 1;
    if (l->token != r->token) return l->token->id < r->token->id ? -1 : 1;
    return (l->at > r->at) - (l->at < r->at);
}

static int match_order(const void *left, const void *right)
{
    const added_match *l = left, *r = right;
    return (l->start > r->start) - (l->start < r->start);
}

/* As llama.cpp does: each token in turn, the longest first, cuts what is still free of the text. White space is taken from the free text beside it
 * when the token's turn comes. */
static qlft_status find_longest(const added_set *set, const char *text, size_t bytes, bool special, added_matches *out)
{
    places all = {0};
    unsigned char *used = NULL;
    qlft_status status = QLFT_OK;
    const added_token *token;
    for (size_t at = 0; at < bytes && status == QLFT_OK; at++) status = tokens_at(set, text, bytes, at, special, &token, &all);
    if (status != QLFT_OK || !all.count) goto done;
    qsort(all.items, all.count, sizeof *all.items, longest_first_order);
    used = calloc(bytes, 1);
    if (!used) {
        status = status_fail(QLFT_ENOMEM, "out of memory in the tokenizer (%zu bytes)", bytes);
        goto done;
    }
    for (size_t i = 0; i < all.count && status == QLFT_OK; i++) {
        added_match match = {all.items[i].at, all.items[i].at + all.items[i].token->bytes, all.items[i].token};
        /* Accepted ones are not shorter, so an overlap holds one of the two ends. */
        if (used[match.start] || used[match.end - 1]) continue;
        while (match.token->lstrip && match.start > 0 && !used[match.start - 1] && isspace((unsigned char)text[match.start - 1])) match.start--;
        while (match.token->rstrip && match.end < bytes && !used[match.end] && isspace((unsigned char)text[match.end])) match.end++;
        memset(used + match.start, 1, match.end - match.start);
        status = put_match(out, &match);
    }
    if (out->count) qsort(out->items, out->count, sizeof *out->items, match_order);
done:
    free(used);
    free(all.items);
    return status;
}

qlft_status added_set_find(const added_set *set, const char *text, size_t bytes, bool special, bool longest_first, added_matches *out)
{
    out->count = 0;
    if (!set->count) return QLFT_OK;
    return longest_first ? find_longest(set, text, bytes, special, out) : find_leftmost(set, text, bytes, special, out);
}
