/* Text that remembers where each byte came from, and small things about UTF-8. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "data/tokenizer_internal.h"

void aligned_free(aligned *a)
{
    if (a->owned) {
        free(a->text);
        free(a->from);
        free(a->to);
    }
    memset(a, 0, sizeof *a);
}

uint32_t aligned_from(const aligned *a, size_t byte)
{
    return a->from ? a->from[byte] : a->base + (uint32_t)byte;
}

uint32_t aligned_to(const aligned *a, size_t byte)
{
    return a->to ? a->to[byte] : a->base + (uint32_t)byte + 1;
}

aligned aligned_view(const aligned *a, size_t start, size_t end)
{
    aligned view = {.text = a->text + start, .bytes = end - start, .base = a->base + (uint32_t)start};
    if (a->from) {
        view.from = a->from + start;
        view.to = a->to + start;
    }
    return view;
}

static qlft_status aligned_grow(aligned *a, size_t bytes)
{
    if (bytes > UINT32_MAX - a->bytes) return status_fail(QLFT_EARG, "the text is longer than 4 GiB after normalization; split it");
    size_t capacity = a->capacity;
    QLFT_TRY(tokenizer_grow(&a->text, &capacity, a->bytes, bytes, 1));
    capacity = a->capacity;
    QLFT_TRY(tokenizer_grow(&a->from, &capacity, a->bytes, bytes, sizeof *a->from));
    capacity = a->capacity;
    QLFT_TRY(tokenizer_grow(&a->to, &capacity, a->bytes, bytes, sizeof *a->to));
    a->capacity = capacity;
    a->owned = true;
    return QLFT_OK;
}

qlft_status aligned_put(aligned *a, const char *text, size_t bytes, uint32_t from, uint32_t to)
{
    QLFT_TRY(aligned_grow(a, bytes));
    if (bytes) memcpy(a->text + a->bytes, text, bytes);
    for (size_t i = a->bytes; i < a->bytes + bytes; i++) {
        a->from[i] = from;
        a->to[i] = to;
    }
    a->bytes += bytes;
    return QLFT_OK;
}

qlft_status aligned_copy(aligned *a, const aligned *source, size_t start, size_t end)
{
    QLFT_TRY(aligned_grow(a, end - start));
    if (end > start) memcpy(a->text + a->bytes, source->text + start, end - start);
    for (size_t i = start; i < end; i++) {
        a->from[a->bytes + i - start] = aligned_from(source, i);
        a->to[a->bytes + i - start] = aligned_to(source, i);
    }
    a->bytes += end - start;
    return QLFT_OK;
}

qlft_status aligned_put_before(aligned *a, const char *text, size_t bytes, const aligned *source, size_t at)
{
    return aligned_put(a, text, bytes, aligned_from(source, at), aligned_to(source, at));
}

/* ---- UTF-8 ---- */

int utf8_read(const char *text, uint32_t *code)
{
    const unsigned char *b = (const unsigned char *)text;
    if (b[0] < 0x80) return *code = b[0], 1;
    if (b[0] < 0xe0) return *code = (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu), 2;
    if (b[0] < 0xf0) return *code = (b[0] & 0xfu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu), 3;
    return *code = (b[0] & 7u) << 18 | (b[1] & 0x3fu) << 12 | (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu), 4;
}

int utf8_read_back(const char *text, size_t end, uint32_t *code)
{
    size_t start = end - 1;
    while (start > 0 && end - start < 4 && ((unsigned char)text[start] & 0xc0) == 0x80) start--;
    return utf8_read(text + start, code);
}

int utf8_write(uint32_t code, char out[4])
{
    return (int)utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)out);
}

bool unicode_is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool unicode_is_word(uint32_t code)
{
    /* Circled and squared letters are Alphabetic without being letters; the joiners belong to \w by UTS 18. */
    if (code == 0x200c || code == 0x200d || (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
        (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189))
        return true;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC;
}
