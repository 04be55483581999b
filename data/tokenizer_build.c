/* What the readers of the different files use to put a tokenizer together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"

qlft_status tokenizer_new_normalizer(tokenizer *t, normalizer **out)
{
    QLFT_TRY(tokenizer_grow(&t->normalizers, &t->normalizer_capacity, t->normalizer_count, 1, sizeof *t->normalizers));
    *out = &t->normalizers[t->normalizer_count++];
    memset(*out, 0, sizeof **out);
    return QLFT_OK;
}

qlft_status tokenizer_new_splitter(tokenizer *t, splitter **out)
{
    QLFT_TRY(tokenizer_grow(&t->splitters, &t->splitter_capacity, t->splitter_count, 1, sizeof *t->splitters));
    *out = &t->splitters[t->splitter_count++];
    memset(*out, 0, sizeof **out);
    return QLFT_OK;
}

qlft_status tokenizer_new_decoder(tokenizer *t, decoder **out)
{
    QLFT_TRY(tokenizer_grow(&t->decoders, &t->decoder_capacity, t->decoder_count, 1, sizeof *t->decoders));
    *out = &t->decoders[t->decoder_count++];
    memset(*out, 0, sizeof **out);
    return QLFT_OK;
}

qlft_status tokenizer_add_split(tokenizer *t, const char *expression, const char *what)
{
    splitter *s;
    QLFT_TRY(tokenizer_new_splitter(t, &s));
    s->apply = split_pattern;
    return pattern_compile(&s->match, expression, strlen(expression), false, what);
}

static const char space_mark[] = "\xe2\x96\x81"; /* U+2581, sentencepiece's space */

qlft_status tokenizer_add_spm_decoders(tokenizer *t, bool strip_first)
{
    decoder *d;
    QLFT_TRY(tokenizer_new_decoder(t, &d));
    d->apply = decode_replace;
    d->content = strdup(" ");
    d->content_bytes = 1;
    if (!d->content) return status_fail(QLFT_ENOMEM, "out of memory");
    QLFT_TRY(pattern_compile(&d->match, space_mark, 3, true, "decoder"));
    QLFT_TRY(tokenizer_new_decoder(t, &d));
    d->apply = decode_byte_fallback;
    if (!strip_first) return QLFT_OK;
    QLFT_TRY(tokenizer_new_decoder(t, &d));
    d->apply = decode_fuse;
    QLFT_TRY(tokenizer_new_decoder(t, &d));
    d->apply = decode_strip;
    d->start = 1;
    d->content = strdup(" ");
    d->content_bytes = 1;
    return d->content ? QLFT_OK : status_fail(QLFT_ENOMEM, "out of memory");
}

void tokenizer_find_bytes(tokenizer *t, bool byte_level)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        int length = byte_level ? utf8_write(byte_level_code((unsigned char)byte), text) : snprintf(text, sizeof text, "<0x%02X>", byte);
        t->byte_ids[byte] = vocabulary_find(&t->words, text, (size_t)length);
    }
}

void tokenizer_add_stop(tokenizer *t, int64_t id)
{
    if (id < 0 || id >= t->words.size || t->stop_count == TOKENIZER_STOPS) return;
    for (int i = 0; i < t->stop_count; i++)
        if (t->stops[i] == id) return;
    t->stops[t->stop_count++] = (int32_t)id;
}

void tokenizer_set_around(tokenizer *t, bool add_bos, bool add_eos)
{
    t->prefix_count = t->suffix_count = 0;
    if (add_bos && t->bos >= 0) t->prefix[t->prefix_count++] = t->bos;
    if (add_eos && t->eos >= 0) t->suffix[t->suffix_count++] = t->eos;
}

void tokenizer_hash_ids(const tokenizer *t, file_hash *hash)
{
    const int32_t ends[] = {t->bos, t->eos};
    file_hash_put(hash, t->prefix, (size_t)t->prefix_count * sizeof *t->prefix);
    file_hash_put(hash, "|", 1);
    file_hash_put(hash, t->suffix, (size_t)t->suffix_count * sizeof *t->suffix);
    file_hash_put(hash, "|", 1);
    file_hash_put(hash, ends, sizeof ends);
    file_hash_put(hash, t->stops, (size_t)t->stop_count * sizeof *t->stops);
}

qlft_status tokenizer_finish(tokenizer *t)
{
    if (!t->words.size) return status_fail(QLFT_EFORMAT, "the tokenizer's vocabulary is empty");
    t->marks = calloc((size_t)t->words.size, 1);
    if (!t->marks) return status_fail(QLFT_ENOMEM, "out of memory for the vocabulary");
    for (int i = 0; i < t->prefix_count + t->suffix_count; i++) {
        int32_t id = i < t->prefix_count ? t->prefix[i] : t->suffix[i - t->prefix_count];
        if (!vocabulary_text(&t->words, id, NULL)) return status_fail(QLFT_EFORMAT, "the tokenizer puts id %d around a text, but has no such token", id);
    }
    added_set *const sets[] = {&t->raw, &t->normalized};
    for (size_t s = 0; s < 2; s++) {
        QLFT_TRY(added_set_finish(sets[s]));
        for (size_t i = 0; i < sets[s]->count; i++)
            t->marks[sets[s]->items[i].id] |= (uint8_t)(TOKEN_ADDED | (sets[s]->items[i].special ? TOKEN_SPECIAL : 0) | (s ? TOKEN_NORMALIZED : 0));
    }
    return QLFT_OK;
}
