#include "data/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/formats.h"
#include "data/turns.h"
#include "data/utf8.h"

/* Chat rows are tokenised with special tokens recognised wherever they stand, as transformers does with a rendered template. */

struct row_maker {
    const data_options *options;
    const tokenizer *tok; /* NULL: tokens rows only */
    chat *template_of;    /* NULL: none */
    char *template_text;
    data_format *formats; /* [path_count]: of the file's last good row */
    row_text text;
    token_list tokens;
    int32_t *ids, *labels;
    size_t capacity;
    int32_t *piece_ids, *piece_labels; /* [max_tokens]: for split */
    made_row row;
};

/* ---- text ---- */

static qlft_status grow(void **items, size_t *capacity, size_t needed, size_t bytes_each)
{
    if (needed <= *capacity) return QLFT_OK;
    size_t wanted = needed < 64 ? 64 : needed + needed / 2;
    void *grown = realloc(*items, wanted * bytes_each);
    if (!grown) return status_fail(QLFT_ENOMEM, "out of memory for a row (%zu items of %zu bytes)", wanted, bytes_each);
    *items = grown;
    *capacity = wanted;
    return QLFT_OK;
}

qlft_status row_text_put(row_text *t, const char *bytes, size_t count)
{
    void *text = t->text;
    QLFT_TRY(grow(&text, &t->capacity, t->bytes + count + 1, 1));
    t->text = text;
    memcpy(t->text + t->bytes, bytes, count);
    t->bytes += count;
    t->text[t->bytes] = '\0';
    return QLFT_OK;
}

static qlft_status put_span(row_span **spans, size_t *count, size_t *capacity, size_t start, size_t end)
{
    void *items = *spans;
    QLFT_TRY(grow(&items, capacity, *count + 1, sizeof **spans));
    *spans = items;
    (*spans)[(*count)++] = (row_span){start, end};
    return QLFT_OK;
}

qlft_status row_text_span(row_text *t, size_t start, size_t end)
{
    return put_span(&t->spans, &t->span_count, &t->span_capacity, start, end);
}

qlft_status row_text_said(row_text *t, size_t start, size_t end)
{
    return put_span(&t->said, &t->said_count, &t->said_capacity, start, end);
}

void row_text_free(row_text *t)
{
    free(t->text);
    free(t->spans);
    free(t->said);
    memset(t, 0, sizeof *t);
}

/* ---- open, close ---- */

static qlft_status open_template(row_maker *m)
{
    const char *path = m->options->template_path;
    bool own = !path || strcmp(path, "auto") == 0;
    if (!m->tok || (own && !tokenizer_chat_template(m->tok))) return QLFT_OK;
    QLFT_TRY(chat_open(&m->template_of, m->tok, own ? NULL : path));
    return QLFT_OK;
}

qlft_status row_maker_open(row_maker **out, const data_options *options, const tokenizer *tok)
{
    *out = NULL;
    row_maker *m = calloc(1, sizeof *m);
    if (!m) return status_fail(QLFT_ENOMEM, "out of memory for reading rows");
    m->options = options;
    m->tok = tok;
    m->formats = calloc((size_t)options->path_count, sizeof *m->formats);
    qlft_status status = m->formats ? QLFT_OK : status_fail(QLFT_ENOMEM, "out of memory for reading rows");
    if (status == QLFT_OK) status = open_template(m);
    if (status != QLFT_OK) {
        row_maker_close(m);
        return status;
    }
    *out = m;
    return QLFT_OK;
}

void row_maker_close(row_maker *m)
{
    if (!m) return;
    chat_close(m->template_of);
    row_text_free(&m->text);
    token_list_free(&m->tokens);
    free(m->formats);
    free(m->ids);
    free(m->labels);
    free(m->piece_ids);
    free(m->piece_labels);
    free(m);
}

const char *row_maker_template(const row_maker *m)
{
    return m->template_of ? chat_source(m->template_of) : "";
}

/* ---- ids and labels ---- */

static qlft_status reserve(row_maker *m, size_t count)
{
    if (count > INT32_MAX) return status_fail(QLFT_EFORMAT, "%zu tokens; a row can have at most %d", count, INT32_MAX);
    if (count <= m->capacity) return QLFT_OK;
    size_t before = m->capacity;
    void *ids = m->ids, *labels = m->labels;
    qlft_status status = grow(&ids, &before, count, sizeof *m->ids);
    m->ids = ids;
    QLFT_TRY(status);
    status = grow(&labels, &m->capacity, count, sizeof *m->labels);
    m->labels = labels;
    return status;
}

static qlft_status check_id(const row_maker *m, int64_t id, size_t at)
{
    int64_t limit = m->options->vocabulary > 0 ? m->options->vocabulary : (int64_t)INT32_MAX + 1;
    if (id >= 0 && id < limit) return QLFT_OK;
    const char *name = m->tok && id >= 0 && id <= INT32_MAX ? tokenizer_token(m->tok, (int32_t)id) : NULL;
    return status_fail(QLFT_EFORMAT, "token %zu is %.80s%s%lld%s; the model's vocabulary has %lld ids, 0 to %lld", at + 1, name ? name : "",
                       name ? " (id " : "id ", (long long)id, name ? ")" : "", (long long)limit, (long long)limit - 1);
}

static qlft_status append_id(row_maker *m, int32_t id, bool target)
{
    QLFT_TRY(check_id(m, id, m->row.count));
    m->ids[m->row.count] = id;
    m->labels[m->row.count++] = target ? id : -100;
    return QLFT_OK;
}

/* Tokens that overlap a target span are targets: a token across the border of prompt and answer is predicted by the prompt's last. */
static qlft_status label_tokens(row_maker *m)
{
    const row_text *t = &m->text;
    size_t span = 0;
    for (size_t i = 0; i < m->tokens.count; i++) {
        const token_span *token = &m->tokens.items[i];
        while (span < t->span_count && t->spans[span].end <= token->start) span++;
        bool target = span < t->span_count && token->start < token->end && token->end > t->spans[span].start;
        QLFT_TRY(append_id(m, token->id, target));
    }
    return QLFT_OK;
}

static qlft_status tokenize(row_maker *m)
{
    const row_text *t = &m->text;
    unsigned flags = m->options->no_special ? t->flags & ~(unsigned)TOKENIZE_SPECIAL : t->flags;
    m->tokens.count = 0;
    QLFT_TRY(tokenizer_encode(m->tok, t->text ? t->text : "", t->bytes, flags, &m->tokens));
    QLFT_TRY(reserve(m, m->tokens.count + 1));
    if (t->turns && t->span_count > 0) m->row.endless = !turns_extend(&m->text, &m->tokens, m->tok);
    QLFT_TRY(label_tokens(m));
    for (size_t i = 0, k = 0; i < m->tokens.count && k < t->said_count; i++) {
        const token_span *token = &m->tokens.items[i];
        while (k < t->said_count && t->said[k].end <= token->start) k++;
        if (k < t->said_count && token->start >= t->said[k].start && token->end <= t->said[k].end && tokenizer_is_special(m->tok, token->id))
            m->row.marked = true;
    }
    int32_t eos = tokenizer_eos(m->tok);
    if (!t->end || eos < 0) return QLFT_OK;
    /* The text may end in EOS itself, or the tokenizer's post-processor may have put it there: once is enough. */
    if (m->row.count > 0 && m->ids[m->row.count - 1] == eos)
        m->labels[m->row.count - 1] = eos;
    else
        return append_id(m, eos, true);
    return QLFT_OK;
}

/* The text alone: nothing is put around it. */
static qlft_status tokenize_raw(row_maker *m)
{
    m->text.flags &= ~(unsigned)TOKENIZE_ADD;
    m->text.end = false;
    return tokenize(m);
}

/* ---- tokens rows ---- */

static qlft_status integer_at(int64_t *out, const json_t *list, size_t at, const char *key)
{
    const json_t *value = json_array_get(list, at);
    if (!json_is_integer(value)) return status_fail(QLFT_EFORMAT, "field \"%s\", element %zu is %s; an integer is expected", key, at + 1, format_type(value));
    *out = json_integer_value(value);
    return QLFT_OK;
}

static qlft_status take_ids(row_maker *m, const json_t *object)
{
    const json_t *ids = json_object_get(object, "input_ids"), *labels = json_object_get(object, "labels");
    if (json_is_null(labels)) labels = NULL;
    if (!json_is_array(ids)) return status_fail(QLFT_EFORMAT, "field \"input_ids\" is %s; a list of integers is expected", format_type(ids));
    if (labels && !json_is_array(labels)) return status_fail(QLFT_EFORMAT, "field \"labels\" is %s; a list of integers is expected", format_type(labels));
    size_t count = json_array_size(ids);
    if (count == 0) return status_fail(QLFT_EFORMAT, "field \"input_ids\" is empty");
    if (labels && json_array_size(labels) != count)
        return status_fail(QLFT_EFORMAT, "field \"labels\" has %zu elements and \"input_ids\" has %zu", json_array_size(labels), count);
    QLFT_TRY(reserve(m, count));
    for (size_t i = 0; i < count; i++) {
        int64_t id = 0, label;
        QLFT_TRY(integer_at(&id, ids, i, "input_ids"));
        QLFT_TRY(check_id(m, id, i));
        label = id;
        if (labels) QLFT_TRY(integer_at(&label, labels, i, "labels"));
        if (m->options->prompt_only && labels && label != -100) return QLFT_OK;
        if (label != id && label != -100)
            return status_fail(QLFT_EFORMAT, "field \"labels\", element %zu is %lld; -100 or the id at the same place (%lld) is expected", i + 1,
                               (long long)label, (long long)id);
        QLFT_TRY(append_id(m, (int32_t)id, label == id && !m->options->prompt_only));
    }
    return QLFT_OK;
}

/* ---- a row ---- */

static qlft_status unknown_fields(const json_t *object)
{
    char list[200] = "";
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s\"%.40s\"", used ? ", " : "", key);
    }
    return status_fail(
        QLFT_EFORMAT,
        "no known field (the row has %s); expected is text, or prompt and completion, or instruction and output, or messages, or conversations, or input_ids",
        list[0] ? list : "none");
}

static qlft_status take_object(row_maker *m, const json_t *object, int32_t file)
{
    if (!json_is_object(object)) return status_fail(QLFT_EFORMAT, "the row is %s; a JSON object is expected", format_type(object));
    data_format format = m->options->format;
    if (m->options->raw)
        format = FORMAT_TEXT;
    else if (format == FORMAT_AUTO)
        format = format_detect(object, m->formats[file]);
    m->row.format = format;
    if (format == FORMAT_AUTO) return unknown_fields(object);
    if (format == FORMAT_TOKENS) return take_ids(m, object);
    if (!m->tok) return status_fail(QLFT_EARG, "rows of the format %s need the model's tokenizer", format_name(format));
    format_context context = {.template_of = m->template_of, .train_on = m->options->train_on, .prompt_only = m->options->prompt_only};
    QLFT_TRY(format_render(&m->text, format, object, &context));
    if (m->options->raw) return tokenize_raw(m);
    m->row.empty = format == FORMAT_TEXT && m->text.bytes == 0;
    return tokenize(m);
}

/* A place in the row as people count it: offset in its line, from 0, with the line if the row has several. */
static qlft_status fail_utf8(const jsonl_row *raw, size_t at)
{
    size_t line_start = 0, lines = 0;
    for (size_t i = 0; i < at; i++) {
        if (raw->text[i] != '\n') continue;
        line_start = i + 1;
        lines++;
    }
    if (lines == 0)
        return status_fail(QLFT_EFORMAT, "not UTF-8: byte 0x%02x at offset %zu of the line; convert the file to UTF-8", (unsigned char)raw->text[at], at);
    return status_fail(QLFT_EFORMAT, "not UTF-8: byte 0x%02x at offset %zu of line %lld; convert the file to UTF-8", (unsigned char)raw->text[at],
                       at - line_start, (long long)raw->line + (long long)lines);
}

static qlft_status parse(json_t **out, const jsonl_row *raw)
{
    json_error_t error;
    *out = json_loadb(raw->text, raw->bytes, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (*out) return QLFT_OK;
    if (json_error_code(&error) == json_error_out_of_memory) return status_fail(QLFT_ENOMEM, "out of memory for a row of %zu bytes", raw->bytes);
    /* Integers of more than 64 bits: json_parse takes them as reals; they may stand in a field that is not used. */
    if (json_error_code(&error) == json_error_numeric_overflow) return json_parse(out, raw->text, raw->bytes, "the row");
    /* What does not even begin as a row is most likely a file of another kind. */
    bool other = raw->bytes > 0 && !memchr("{[\"", raw->text[0], 3);
    return status_fail(QLFT_EFORMAT, "not valid JSON at byte %d: %s%s", error.position, error.text,
                       other ? "; rows are JSON objects, one a line (.csv, .parquet and the like must be converted first)" : "");
}

static qlft_status take_row(row_maker *m, const jsonl_row *raw, int32_t file, bool is_text)
{
    size_t valid = utf8_valid_bytes(raw->text, raw->bytes);
    if (valid < raw->bytes) return fail_utf8(raw, valid);
    if (is_text) {
        m->row.format = FORMAT_TEXT;
        m->row.whole_file = true;
        if (!m->tok) return status_fail(QLFT_EARG, "text files need the model's tokenizer");
        m->text.flags = TOKENIZE_ADD | TOKENIZE_SPECIAL;
        m->text.end = !m->options->prompt_only;
        QLFT_TRY(row_text_put(&m->text, raw->text, raw->bytes));
        if (m->text.end) QLFT_TRY(row_text_span(&m->text, 0, raw->bytes));
        return m->options->raw ? tokenize_raw(m) : tokenize(m);
    }
    json_t *object;
    QLFT_TRY(parse(&object, raw));
    qlft_status status = take_object(m, object, file);
    json_decref(object);
    return status;
}

/* Messages quote the row, cut to a length: what is then no UTF-8 would break those who write the message as JSON. */
static void keep_error(char *to, size_t room, const char *message)
{
    snprintf(to, room, "%s", message);
    size_t bytes = strlen(to), at = 0;
    while ((at += utf8_valid_bytes(to + at, bytes - at)) < bytes) to[at++] = '?';
}

qlft_status row_make(row_maker *m, const made_row **out, const jsonl_row *raw, int32_t file, bool is_text)
{
    memset(&m->row, 0, sizeof m->row);
    m->text.bytes = m->text.span_count = m->text.said_count = 0;
    m->text.end = m->text.turns = false;
    qlft_status status = take_row(m, raw, file, is_text);
    m->row.ids = m->ids;
    m->row.labels = m->labels;
    if (m->row.format != FORMAT_TOKENS && m->text.text) {
        m->row.text = m->text.text;
        m->row.text_bytes = m->text.bytes;
        const row_span whole = {0, m->text.bytes}, last = m->text.said_count ? m->text.said[m->text.said_count - 1] : whole;
        m->row.asked_start = last.start;
        m->row.asked_bytes = last.end - last.start;
    }
    *out = &m->row;
    if (status == QLFT_OK) m->formats[file] = m->row.format;
    if (status != QLFT_EFORMAT) return status;
    m->row.bad = true;
    m->row.text = NULL;
    m->row.text_bytes = m->row.count = 0;
    keep_error(m->row.error, sizeof m->row.error, qlft_last_error());
    return QLFT_OK;
}

/* ---- too long rows ---- */

qlft_status row_fit(row_maker *m, row_pieces *out)
{
    int64_t limit = m->options->max_tokens;
    const made_row *row = &m->row;
    memset(out, 0, sizeof *out);
    if (limit == 0 || (int64_t)row->count <= limit) return QLFT_OK;
    data_on_long policy = m->options->on_long;
    /* A file of text is no sample that could be cut: its end would be lost without a word. */
    if (row->whole_file && policy == LONG_TRUNCATE) policy = LONG_SPLIT;
    if (policy == LONG_ERROR)
        return status_fail(QLFT_EFORMAT, "%zu tokens, and --seq is %lld: use a larger --seq, or --on-long truncate, drop or split", row->count,
                           (long long)limit);
    if (policy == LONG_SPLIT && row->format != FORMAT_TEXT)
        return status_fail(QLFT_EFORMAT,
                           "%zu tokens, and --seq is %lld: --on-long split cuts text rows only, and this is a row of the format %s; use truncate or drop",
                           row->count, (long long)limit, format_name(row->format));
    if (policy == LONG_SPLIT && !m->piece_ids) {
        m->piece_ids = malloc((size_t)limit * sizeof *m->piece_ids);
        m->piece_labels = malloc((size_t)limit * sizeof *m->piece_labels);
        if (!m->piece_ids || !m->piece_labels) return status_fail(QLFT_ENOMEM, "out of memory for pieces of %lld tokens", (long long)limit);
    }
    out->fate = policy == LONG_TRUNCATE ? ROW_TRUNCATED : policy == LONG_DROP ? ROW_DROPPED : ROW_SPLIT;
    return QLFT_OK;
}

static bool next_split(row_maker *m, row_pieces *p)
{
    const made_row *row = &m->row;
    size_t limit = (size_t)m->options->max_tokens, head = 0;
    /* Pieces behind the first begin with BOS too, as the tokenizer would begin any text. */
    if (p->next > 0 && tokenizer_adds_bos(m->tok) && row->ids[0] == tokenizer_bos(m->tok)) {
        m->piece_ids[0] = row->ids[0];
        m->piece_labels[0] = -100;
        head = 1;
    }
    size_t take = row->count - p->next < limit - head ? row->count - p->next : limit - head;
    memcpy(m->piece_ids + head, row->ids + p->next, take * sizeof *m->piece_ids);
    memcpy(m->piece_labels + head, row->labels + p->next, take * sizeof *m->piece_labels);
    p->ids = m->piece_ids;
    p->labels = m->piece_labels;
    p->count = head + take;
    p->next += take;
    return p->count > 1;
}

bool row_next_piece(row_maker *m, row_pieces *p)
{
    const made_row *row = &m->row;
    if (p->fate == ROW_DROPPED || p->next >= row->count) return false;
    if (p->fate == ROW_SPLIT) return next_split(m, p);
    p->ids = row->ids;
    p->labels = row->labels;
    p->count = p->fate == ROW_TRUNCATED ? (size_t)m->options->max_tokens : row->count;
    p->next = row->count;
    return true;
}
