/* Normalizers: each makes a new text whose bytes know the range of the original they came from. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "data/tokenizer_internal.h"

static void replace_text(aligned *text, aligned *made)
{
    aligned_free(text);
    *text = *made;
}

static bool is_ascii(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] >= 0x80) return false;
    return true;
}

/* ---- Unicode forms ---- */

typedef struct codes {
    utf8proc_int32_t *items;
    size_t count, capacity;
} codes;

/* True if nothing before `code` (the first of a decomposition) can change with it: it starts a new piece of the normalization. Characters that
 * compose with the one before are marks, or the vowels and final consonants of Hangul, or two Kirat Rai vowels. */
static bool starts_anew(utf8proc_int32_t code)
{
    if (code < 0x300) return true;
    if ((code >= 0x1160 && code <= 0x11ff) || (code >= 0xd7b0 && code <= 0xd7ff) || (code >= 0x16d63 && code <= 0x16d6a)) return false;
    const utf8proc_property_t *property = utf8proc_get_property(code);
    return property->combining_class == 0 && !(property->category >= UTF8PROC_CATEGORY_MN && property->category <= UTF8PROC_CATEGORY_ME);
}

static qlft_status decompose(codes *out, uint32_t code, int form)
{
    for (;;) {
        size_t room = out->capacity - out->count;
        int boundary = 0;
        utf8proc_ssize_t count = utf8proc_decompose_char((utf8proc_int32_t)code, out->items + out->count, (utf8proc_ssize_t)room,
                                                         (utf8proc_option_t)((form & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE), &boundary);
        if (count < 0) return status_fail(QLFT_EARG, "U+%04X cannot be normalized: %s", code, utf8proc_errmsg(count));
        if ((size_t)count <= room) {
            out->count += (size_t)count;
            return QLFT_OK;
        }
        QLFT_TRY(tokenizer_grow(&out->items, &out->capacity, out->count, (size_t)count, sizeof *out->items));
    }
}

/* The canonical order of marks: stable by combining class within each run of them; linear, so a long run costs no more. */
static qlft_status order_marks(utf8proc_int32_t *items, size_t count)
{
    for (size_t start = 0; start < count;) {
        size_t end = start;
        bool sorted = true;
        int last = 0;
        for (; end < count; end++) {
            int kind = utf8proc_get_property(items[end])->combining_class;
            if (!kind) break;
            if (kind < last) sorted = false;
            last = kind;
        }
        if (!sorted) {
            size_t places[256] = {0};
            utf8proc_int32_t *copy = malloc((end - start) * sizeof *copy);
            if (!copy) return status_fail(QLFT_ENOMEM, "out of memory in the tokenizer");
            memcpy(copy, items + start, (end - start) * sizeof *copy);
            for (size_t i = 0; i < end - start; i++) places[utf8proc_get_property(copy[i])->combining_class & 255]++;
            for (size_t kind = 0, sum = start; kind < 256; kind++) {
                size_t here = places[kind];
                places[kind] = sum;
                sum += here;
            }
            for (size_t i = 0; i < end - start; i++) items[places[utf8proc_get_property(copy[i])->combining_class & 255]++] = copy[i];
            free(copy);
        }
        start = end + 1;
    }
    return QLFT_OK;
}

/* Normalizes what has been decomposed and puts it, with the map of [start, end) of the source. */
static qlft_status put_normalized(aligned *made, codes *all, int form, const aligned *source, size_t start, size_t end)
{
    QLFT_TRY(order_marks(all->items, all->count));
    utf8proc_ssize_t count = (utf8proc_ssize_t)all->count;
    if (form & UTF8PROC_COMPOSE) count = utf8proc_normalize_utf32(all->items, count, (utf8proc_option_t)form);
    if (count < 0) return status_fail(QLFT_EARG, "text cannot be normalized: %s", utf8proc_errmsg(count));
    size_t place = made->bytes;
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        char bytes[4];
        int length = utf8_write((uint32_t)all->items[i], bytes);
        QLFT_TRY(aligned_put(made, bytes, (size_t)length, aligned_from(source, start), aligned_to(source, end - 1)));
    }
    bool same = made->bytes - place == end - start && memcmp(made->text + place, source->text + start, end - start) == 0;
    for (size_t i = start; same && i < end; i++) {
        made->from[place + i - start] = aligned_from(source, i);
        made->to[place + i - start] = aligned_to(source, i);
    }
    all->count = 0;
    return QLFT_OK;
}

qlft_status normalize_unicode(const normalizer *n, pattern_scratch *scratch, aligned *text)
{
    (void)scratch;
    if (is_ascii(text->text, text->bytes)) return QLFT_OK;
    aligned made = {0};
    codes all = {0};
    qlft_status status = QLFT_OK;
    size_t start = 0, at = 0;
    while (at < text->bytes && status == QLFT_OK) {
        uint32_t code;
        int length = utf8_read(text->text + at, &code);
        size_t before = all.count;
        status = decompose(&all, code, n->form);
        if (status == QLFT_OK && before && all.count > before && starts_anew(all.items[before])) {
            /* The piece before is complete. It is normalized without the new character, which is then decomposed again. */
            all.count = before;
            status = put_normalized(&made, &all, n->form, text, start, at);
            start = at;
            if (status == QLFT_OK) status = decompose(&all, code, n->form);
        }
        at += (size_t)length;
    }
    if (status == QLFT_OK && start < at) status = put_normalized(&made, &all, n->form, text, start, at);
    free(all.items);
    if (status == QLFT_OK && made.bytes == text->bytes && memcmp(made.text, text->text, text->bytes) == 0)
        aligned_free(&made);
    else if (status == QLFT_OK)
        replace_text(text, &made);
    else
        aligned_free(&made);
    return status;
}

/* ---- the others ---- */

qlft_status normalize_prepend(const normalizer *n, pattern_scratch *scratch, aligned *text)
{
    (void)scratch;
    if (!text->bytes || !n->content_bytes) return QLFT_OK;
    aligned made = {0};
    qlft_status status = aligned_put_before(&made, n->content, n->content_bytes, text, 0);
    if (status == QLFT_OK) status = aligned_copy(&made, text, 0, text->bytes);
    if (status == QLFT_OK)
        replace_text(text, &made);
    else
        aligned_free(&made);
    return status;
}

qlft_status normalize_replace(const normalizer *n, pattern_scratch *scratch, aligned *text)
{
    aligned made = {0};
    qlft_status status = QLFT_OK;
    size_t done = 0, at = 0, start, end;
    bool found, any = false;
    while ((status = pattern_next(&n->match, scratch, text->text, text->bytes, at, &found, &start, &end)) == QLFT_OK && found) {
        any = true;
        status = aligned_copy(&made, text, done, start);
        if (status != QLFT_OK) break;
        /* What an empty match inserts has no bytes of the original. */
        uint32_t from = start < text->bytes ? aligned_from(text, start) : text->bytes ? aligned_to(text, text->bytes - 1) : text->base;
        uint32_t to = end > start ? aligned_to(text, end - 1) : from;
        status = aligned_put(&made, n->content, n->content_bytes, from, to);
        if (status != QLFT_OK) break;
        done = at = end;
        uint32_t code;
        if (end == start) at += end < text->bytes ? (size_t)utf8_read(text->text + end, &code) : 1;
    }
    if (status == QLFT_OK && any) status = aligned_copy(&made, text, done, text->bytes);
    if (status == QLFT_OK && any)
        replace_text(text, &made);
    else
        aligned_free(&made);
    return status;
}

qlft_status normalize_strip(const normalizer *n, pattern_scratch *scratch, aligned *text)
{
    (void)scratch;
    size_t start = 0, end = text->bytes;
    uint32_t code;
    while (n->left && start < end) {
        int length = utf8_read(text->text + start, &code);
        if (!unicode_is_space(code)) break;
        start += (size_t)length;
    }
    while (n->right && start < end) {
        int length = utf8_read_back(text->text, end, &code);
        if (!unicode_is_space(code)) break;
        end -= (size_t)length;
    }
    if (start == 0 && end == text->bytes) return QLFT_OK;
    aligned made = {0};
    qlft_status status = aligned_copy(&made, text, start, end);
    if (status == QLFT_OK)
        replace_text(text, &made);
    else
        aligned_free(&made);
    return status;
}

qlft_status normalize_lowercase(const normalizer *n, pattern_scratch *scratch, aligned *text)
{
    (void)n;
    (void)scratch;
    aligned made = {0};
    qlft_status status = QLFT_OK;
    for (size_t at = 0; at < text->bytes && status == QLFT_OK;) {
        uint32_t code;
        char bytes[4];
        int length = utf8_read(text->text + at, &code);
        uint32_t from = aligned_from(text, at), to = aligned_to(text, at + (size_t)length - 1);
        /* U+0130 is the only character whose lower case is two: i and a dot above. */
        uint32_t lower = code == 0x130 ? 'i' : (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
        if (lower == code)
            status = aligned_copy(&made, text, at, at + (size_t)length);
        else
            status = aligned_put(&made, bytes, (size_t)utf8_write(lower, bytes), from, to);
        if (status == QLFT_OK && code == 0x130) status = aligned_put(&made, "\xcc\x87", 2, from, to);
        at += (size_t)length;
    }
    if (status == QLFT_OK)
        replace_text(text, &made);
    else
        aligned_free(&made);
    return status;
}
