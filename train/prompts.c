#include "train/prompts.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/log.h"

qlft_status id_list_add(id_list *list, const int32_t *ids, int64_t count)
{
    if (list->count + count > list->capacity) {
        int64_t capacity = 2 * (list->count + count) + 64;
        int32_t *grown = realloc(list->ids, (size_t)capacity * sizeof *grown);
        if (!grown) return status_fail(QLFT_ENOMEM, "out of memory for %lld tokens", (long long)capacity);
        list->ids = grown;
        list->capacity = capacity;
    }
    memcpy(list->ids + list->count, ids, (size_t)count * sizeof *ids);
    list->count += count;
    return QLFT_OK;
}

/* Bytes of text up to its last whole UTF-8 character. */
static size_t whole_characters(const char *text, size_t bytes)
{
    size_t at = bytes;
    for (int back = 0; back < 4 && at > 0; back++) {
        unsigned char lead = (unsigned char)text[--at];
        if ((lead & 0xc0) == 0x80) continue;
        size_t need = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        return bytes - at >= need ? bytes : at;
    }
    return bytes;
}

qlft_status answer_text(char **text, size_t *bytes, const tokenizer *tok, const id_list *ids, bool ended)
{
    char *raw = NULL;
    size_t raw_bytes = 0, used = 0;
    QLFT_TRY(tokenizer_decode(tok, ids->ids, (size_t)ids->count, true, &raw, &raw_bytes));
    if (!ended) raw_bytes = whole_characters(raw, raw_bytes);
    char *valid = malloc(3 * raw_bytes + 1);
    if (!valid) {
        free(raw);
        return status_fail(QLFT_ENOMEM, "out of memory for an answer");
    }
    for (size_t at = 0; at < raw_bytes;) {
        utf8proc_int32_t character;
        utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)raw + at, (utf8proc_ssize_t)(raw_bytes - at), &character);
        bool good = length > 0 && character != 0;
        memcpy(valid + used, good ? raw + at : "\xef\xbf\xbd", good ? (size_t)length : 3);
        used += good ? (size_t)length : 3;
        at += length > 0 ? (size_t)length : 1;
    }
    valid[used] = 0;
    free(raw);
    *text = valid;
    *bytes = used;
    return QLFT_OK;
}

static qlft_status make_room(prompt_list *list)
{
    if (list->count < list->capacity) return QLFT_OK;
    int64_t capacity = list->capacity ? 2 * list->capacity : 64;
    prompt_row *rows = realloc(list->rows, (size_t)capacity * sizeof *rows);
    if (!rows) return status_fail(QLFT_ENOMEM, "out of memory for %lld rows", (long long)capacity);
    list->rows = rows;
    list->capacity = capacity;
    return QLFT_OK;
}

static qlft_status take_row(prompt_list *list, const data_row *from)
{
    QLFT_TRY(make_room(list));
    prompt_row *row = &list->rows[list->count++];
    memset(row, 0, sizeof *row);
    row->line = from->line;
    row->file = from->file;
    if (from->bad || from->count == 0) {
        row->error = strdup(from->bad ? from->error : "there is nothing to read: the prompt has no tokens");
        return row->error ? QLFT_OK : status_fail(QLFT_ENOMEM, "out of memory for a row");
    }
    row->bytes = from->text ? from->text_bytes : 0;
    row->text = malloc(row->bytes + 1);
    if (!row->text) return status_fail(QLFT_ENOMEM, "out of memory for a row");
    memcpy(row->text, from->text ? from->text : "", row->bytes);
    row->text[row->bytes] = 0;
    row->asked_start = from->text ? from->asked_start : 0;
    row->asked_bytes = from->text ? from->asked_bytes : 0;
    QLFT_TRY(id_list_add(&row->ids, from->ids, (int64_t)from->count));
    if (row->ids.count > list->longest) list->longest = row->ids.count;
    return QLFT_OK;
}

static bool gather_row(void *payload, const data_row *from)
{
    prompt_list *list = payload;
    list->status = take_row(list, from);
    return list->status == QLFT_OK && !(list->limit && list->count >= list->limit);
}

qlft_status prompt_list_read(prompt_list *list, const run *r, char **paths, int path_count, int64_t limit)
{
    const qlft_config *c = r->config;
    data_options o;
    memset(&o, 0, sizeof o);
    o.paths = (const char *const *)paths;
    o.path_count = path_count;
    o.format = (data_format)c->format;
    o.template_path = c->template_path;
    o.on_bad_row = (data_on_bad_row)c->on_bad_row;
    o.vocabulary = r->m->dims.vocabulary;
    o.prompt_only = true;
    o.raw = c->raw;
    list->limit = limit;
    QLFT_TRY(data_each_row(&o, r->tok, gather_row, list));
    QLFT_TRY(list->status);
    if (list->count == 0) log_warning("%s%s: no rows", paths[0], path_count > 1 ? " and the other files" : "");
    for (int64_t i = 0; i < list->count && c->on_bad_row == BAD_ROW_STOP; i++)
        if (list->rows[i].error)
            return status_fail(QLFT_EFORMAT, "%s line %lld: %s; mend the row or use --on-bad-row skip", paths[list->rows[i].file],
                               (long long)list->rows[i].line, list->rows[i].error);
    return QLFT_OK;
}

void prompt_list_free(prompt_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        free(list->rows[i].text);
        free(list->rows[i].error);
        free(list->rows[i].ids.ids);
    }
    free(list->rows);
    memset(list, 0, sizeof *list);
}
