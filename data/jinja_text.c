/* Strings: every operation carries along which input its bytes come from. White space, lengths and cases are Python's, by code point. */
#include "data/jinja_impl.h"

#include <utf8proc.h>

/* ---- writing ---- */
static void put_run(jinja_writer *w, uint16_t mark, size_t begin)
{
    jinja_run *last = w->run_count ? &w->runs[w->run_count - 1] : NULL;
    if (!last && mark == 0) return; /* no runs at all: everything is the template's own */
    bool empty = begin == w->bytes;
    if (empty && mark == 0) return;
    if (last && last->mark == mark) {
        last->end = w->bytes;
        return;
    }
    if (w->run_count + 2 > w->run_capacity) {
        size_t capacity = w->run_capacity ? 2 * w->run_capacity : 8;
        jinja_run *runs = jinja_take(w->m, capacity * sizeof *runs);
        if (w->run_count) memcpy(runs, w->runs, w->run_count * sizeof *runs);
        w->runs = runs;
        w->run_capacity = capacity;
    }
    if (!last && begin > 0) w->runs[w->run_count++] = (jinja_run){begin, 0};
    w->runs[w->run_count++] = (jinja_run){w->bytes, mark};
}

void jinja_put(jinja_writer *w, const char *data, size_t bytes, uint16_t mark)
{
    if (bytes > w->m->output_limit - w->bytes) jinja_fail(w->m, QLFT_EFORMAT, "the template writes more than %zu bytes", w->m->output_limit);
    if (bytes > w->capacity - w->bytes || !w->data) {
        size_t capacity = w->capacity > 32 ? w->capacity : 32;
        while (capacity - w->bytes < bytes + 1) capacity *= 2;
        char *grown = jinja_take(w->m, capacity + 1);
        if (w->bytes) memcpy(grown, w->data, w->bytes);
        w->data = grown;
        w->capacity = capacity;
    }
    if (bytes) memcpy(w->data + w->bytes, data, bytes);
    w->bytes += bytes;
    put_run(w, mark, w->bytes - bytes);
    jinja_spend(w->m, bytes / 64);
}

void jinja_put_words(jinja_writer *w, const char *text)
{
    jinja_put(w, text, strlen(text), 0);
}

void jinja_put_text(jinja_writer *w, const jinja_text *t, size_t from, size_t to)
{
    if (!t->run_count) {
        jinja_put(w, t->data + from, to - from, 0);
        return;
    }
    size_t low = 0, high = t->run_count; /* the first run that ends at or behind from */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->runs[middle].end >= from) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    size_t begin = low ? t->runs[low - 1].end : 0;
    for (size_t i = low; i < t->run_count && begin <= to; begin = t->runs[i++].end) {
        size_t end = t->runs[i].end < to ? t->runs[i].end : to;
        size_t start = begin > from ? begin : from;
        /* An empty run stays, and so does what an empty part of a run leaves: "here a message's text would be". */
        if (start < end) {
            jinja_put(w, t->data + start, end - start, t->runs[i].mark);
        } else if (from == to || t->runs[i].end == begin) {
            jinja_put(w, "", 0, t->runs[i].mark);
        }
    }
}

void jinja_put_code(jinja_writer *w, int32_t code, uint16_t mark)
{
    utf8proc_uint8_t bytes[4];
    utf8proc_ssize_t count = utf8proc_encode_char(code, bytes);
    jinja_put(w, (const char *)bytes, (size_t)count, mark);
}

const jinja_text *jinja_written(jinja_writer *w)
{
    jinja_text *t = jinja_take(w->m, sizeof *t);
    t->data = w->data ? w->data : "";
    t->bytes = w->bytes;
    t->runs = w->runs;
    t->run_count = w->run_count;
    return t;
}

jinja_value jinja_written_value(jinja_writer *w)
{
    return jinja_string(jinja_written(w));
}

/* ---- code points ---- */
/* Texts are valid UTF-8: the template and JSON were checked, and no operation cuts inside a character. */
int32_t jinja_code_at(const jinja_text *t, size_t byte, size_t *next)
{
    const unsigned char *at = (const unsigned char *)t->data + byte;
    if (at[0] < 0x80) {
        *next = byte + 1;
        return at[0];
    }
    if (at[0] < 0xe0) {
        *next = byte + 2;
        return (at[0] & 0x1f) << 6 | (at[1] & 0x3f);
    }
    if (at[0] < 0xf0) {
        *next = byte + 3;
        return (at[0] & 0x0f) << 12 | (at[1] & 0x3f) << 6 | (at[2] & 0x3f);
    }
    *next = byte + 4;
    return (at[0] & 0x07) << 18 | (at[1] & 0x3f) << 12 | (at[2] & 0x3f) << 6 | (at[3] & 0x3f);
}

bool jinja_is_space(int32_t code)
{
    return (code >= 9 && code <= 13) || (code >= 28 && code <= 32) || code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

size_t jinja_code_count(const jinja_text *t)
{
    size_t count = 0;
    for (size_t i = 0; i < t->bytes; i++) count += ((unsigned char)t->data[i] & 0xc0) != 0x80;
    return count;
}

size_t jinja_code_offset(const jinja_text *t, size_t code)
{
    size_t at = 0;
    while (code > 0 && at < t->bytes) {
        jinja_code_at(t, at, &at);
        code--;
    }
    return at;
}

static size_t code_before(const jinja_text *t, size_t byte)
{
    do byte--;
    while (byte > 0 && ((unsigned char)t->data[byte] & 0xc0) == 0x80);
    return byte;
}

/* ---- parts ---- */
const jinja_text *jinja_part(jinja_machine *m, const jinja_text *t, size_t from, size_t to)
{
    if (from == 0 && to == t->bytes && !t->safe) return t;
    if (!t->run_count) return jinja_text_of(m, t->data + from, to - from, 0);
    jinja_writer w = {.m = m};
    jinja_put_text(&w, t, from, to);
    return jinja_written(&w);
}

static bool in_set(const jinja_text *set, int32_t code)
{
    if (!set) return jinja_is_space(code);
    for (size_t at = 0; at < set->bytes;) {
        if (jinja_code_at(set, at, &at) == code) return true;
    }
    return false;
}

/* Marked runs that lie wholly in what is cut off stay as empty ones, so that a message whose text was all white space is still found. */
static void put_vanished(jinja_writer *w, const jinja_text *t, size_t from, size_t to)
{
    size_t begin = 0;
    for (size_t i = 0; i < t->run_count; begin = t->runs[i++].end) {
        if (begin >= from && t->runs[i].end <= to) jinja_put(w, "", 0, t->runs[i].mark);
    }
}

const jinja_text *jinja_strip(jinja_machine *m, const jinja_text *t, const jinja_text *set, int sides)
{
    size_t from = 0, to = t->bytes, next;
    if (set) jinja_spend(m, set->bytes / 4);
    while (sides & STRIP_LEFT && from < to && in_set(set, jinja_code_at(t, from, &next))) from = next;
    while (sides & STRIP_RIGHT && from < to) {
        size_t before = code_before(t, to);
        if (!in_set(set, jinja_code_at(t, before, &next))) break;
        to = before;
    }
    jinja_spend(m, (t->bytes - (to - from)) * (set ? set->bytes / 16 + 1 : 1) / 64);
    jinja_writer w = {.m = m};
    put_vanished(&w, t, 0, from);
    jinja_put_text(&w, t, from, to);
    put_vanished(&w, t, to, t->bytes);
    return jinja_written(&w);
}

const jinja_text *jinja_concat(jinja_machine *m, const jinja_text *a, const jinja_text *b)
{
    bool safe = a->safe || b->safe;
    if (safe && !a->safe) a = jinja_escape(m, a);
    if (safe && !b->safe) b = jinja_escape(m, b);
    jinja_writer w = {.m = m};
    jinja_put_text(&w, a, 0, a->bytes);
    jinja_put_text(&w, b, 0, b->bytes);
    jinja_text *both = (jinja_text *)jinja_written(&w);
    both->safe = safe;
    return both;
}

const char *jinja_search(const jinja_text *t, size_t from, const jinja_text *part)
{
    if (part->bytes == 0) return t->data + from;
    return memmem(t->data + from, t->bytes - from, part->data, part->bytes);
}

static const char *search_last(const jinja_text *t, size_t to, const jinja_text *part)
{
    for (size_t at = to; at >= part->bytes; at--) {
        if (memcmp(t->data + at - part->bytes, part->data, part->bytes) == 0) return t->data + at - part->bytes;
    }
    return NULL;
}

const jinja_text *jinja_replace(jinja_machine *m, const jinja_text *t, const jinja_text *from, const jinja_text *to, int64_t limit)
{
    jinja_writer w = {.m = m};
    size_t at = 0;
    jinja_spend(m, t->bytes / 64);
    while (limit != 0) {
        if (from->bytes == 0) { /* an empty pattern is found before every character and at the end */
            jinja_put_text(&w, to, 0, to->bytes);
            if (at >= t->bytes) break;
            size_t next;
            jinja_code_at(t, at, &next);
            jinja_put_text(&w, t, at, next);
            at = next;
        } else {
            const char *found = jinja_search(t, at, from);
            if (!found) break;
            if (found > t->data + at) jinja_put_text(&w, t, at, (size_t)(found - t->data));
            if (to->bytes || to->run_count) jinja_put_text(&w, to, 0, to->bytes);
            at = (size_t)(found - t->data) + from->bytes;
        }
        limit -= limit > 0;
    }
    if (at < t->bytes) jinja_put_text(&w, t, at, t->bytes);
    if (w.bytes == 0) put_vanished(&w, t, 0, t->bytes);
    return jinja_written(&w);
}

/* ---- splitting ---- */
static void add_part(jinja_machine *m, jinja_value list, const jinja_text *t, size_t from, size_t to)
{
    jinja_list_add(m, list, jinja_string(jinja_part(m, t, from, to)));
}

static void reverse_items(jinja_list *l)
{
    for (size_t i = 0; i < l->count / 2; i++) {
        jinja_value swap = l->items[i];
        l->items[i] = l->items[l->count - 1 - i];
        l->items[l->count - 1 - i] = swap;
    }
}

static void split_blank(jinja_machine *m, jinja_value out, const jinja_text *t, int64_t limit)
{
    size_t at = 0, next;
    for (;;) {
        while (at < t->bytes && jinja_is_space(jinja_code_at(t, at, &next))) at = next;
        if (at == t->bytes) return;
        size_t end = at;
        if (limit == 0) { /* the rest, white space at its end included */
            add_part(m, out, t, at, t->bytes);
            return;
        }
        while (end < t->bytes && !jinja_is_space(jinja_code_at(t, end, &next))) end = next;
        add_part(m, out, t, at, end);
        at = end;
        limit -= limit > 0;
    }
}

static void split_blank_right(jinja_machine *m, jinja_value out, const jinja_text *t, int64_t limit)
{
    size_t end = t->bytes, next;
    for (;;) {
        for (size_t before; end > 0 && jinja_is_space(jinja_code_at(t, before = code_before(t, end), &next)); end = before) {}
        if (end == 0) break;
        size_t at = end;
        if (limit == 0) {
            add_part(m, out, t, 0, end); /* white space at its begin included */
            break;
        }
        for (size_t before; at > 0 && !jinja_is_space(jinja_code_at(t, before = code_before(t, at), &next)); at = before) {}
        add_part(m, out, t, at, end);
        end = at;
        limit -= limit > 0;
    }
    reverse_items(out.as.list);
}

jinja_value jinja_split(jinja_machine *m, const jinja_text *t, const jinja_text *separator, int64_t limit, bool from_right)
{
    jinja_value out = jinja_list_new(m, JINJA_LIST, NULL);
    jinja_spend(m, t->bytes / 64);
    if (!separator) {
        (from_right ? split_blank_right : split_blank)(m, out, t, limit);
        return out;
    }
    if (separator->bytes == 0) jinja_fail(m, QLFT_EFORMAT, "empty separator");
    if (from_right) {
        size_t end = t->bytes;
        for (const char *found; limit != 0 && (found = search_last(t, end, separator)); limit -= limit > 0) {
            add_part(m, out, t, (size_t)(found - t->data) + separator->bytes, end);
            end = (size_t)(found - t->data);
        }
        add_part(m, out, t, 0, end);
        reverse_items(out.as.list);
        return out;
    }
    size_t at = 0;
    for (const char *found; limit != 0 && (found = jinja_search(t, at, separator)); limit -= limit > 0) {
        add_part(m, out, t, at, (size_t)(found - t->data));
        at = (size_t)(found - t->data) + separator->bytes;
    }
    add_part(m, out, t, at, t->bytes);
    return out;
}

static bool ends_line(int32_t code)
{
    return (code >= 10 && code <= 13) || (code >= 28 && code <= 30) || code == 0x85 || code == 0x2028 || code == 0x2029;
}

jinja_value jinja_lines(jinja_machine *m, const jinja_text *t, bool keep_ends)
{
    jinja_value out = jinja_list_new(m, JINJA_LIST, NULL);
    jinja_spend(m, t->bytes / 16);
    for (size_t at = 0; at < t->bytes;) {
        size_t end = at, next = at;
        while (end < t->bytes && !ends_line(jinja_code_at(t, end, &next))) end = next;
        if (end < t->bytes && t->data[end] == '\r' && end + 1 < t->bytes && t->data[end + 1] == '\n') next = end + 2;
        if (end == t->bytes) next = end;
        add_part(m, out, t, at, keep_ends ? next : end);
        at = next;
    }
    return out;
}

const jinja_text *jinja_escape(jinja_machine *m, const jinja_text *t)
{
    static const char *const names[128] = {['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['\''] = "&#39;", ['"'] = "&#34;"};
    jinja_writer w = {.m = m};
    size_t from = 0;
    for (size_t i = 0; i < t->bytes; i++) {
        unsigned char c = (unsigned char)t->data[i];
        if (c > 127 || !names[c]) continue;
        jinja_put_text(&w, t, from, i);
        jinja_put(&w, names[c], strlen(names[c]), jinja_mark_at(t, i));
        from = i + 1;
    }
    jinja_put_text(&w, t, from, t->bytes);
    jinja_text *escaped = (jinja_text *)jinja_written(&w);
    escaped->safe = true;
    return escaped;
}
