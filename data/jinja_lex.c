/* A template's text to tokens. The white space rules are those of jinja2's lexer with trim_blocks and lstrip_blocks. */
#include "data/jinja_impl.h"

#include <errno.h>
#include <stdlib.h>

enum { MAX_BRACKETS = 200 };

typedef struct lexer {
    jinja_machine *m;
    jinja_tokens tokens;
    const jinja_text *source;
    size_t at;
    int line;
    bool line_starting; /* the last thing read ended in a line end */
    char brackets[MAX_BRACKETS];
    int bracket_count;
} lexer;

/* ---- helpers ---- */
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static char peek(const lexer *l, size_t ahead)
{
    return l->at + ahead < l->source->bytes ? l->source->data[l->at + ahead] : 0;
}

static bool looking_at(const lexer *l, size_t at, const char *word)
{
    size_t bytes = strlen(word);
    return l->source->bytes - at >= bytes && at <= l->source->bytes && memcmp(l->source->data + at, word, bytes) == 0;
}

static size_t skip_space(const lexer *l, size_t at)
{
    for (size_t next; at < l->source->bytes && jinja_is_space(jinja_code_at(l->source, at, &next)); at = next) {}
    return at;
}

/* Moves to `to`, counting lines. */
static void move(lexer *l, size_t to)
{
    for (; l->at < to; l->at++) l->line += l->source->data[l->at] == '\n';
    l->m->line = l->line;
}

static jinja_token *add(lexer *l, jinja_token_kind kind)
{
    jinja_tokens *t = &l->tokens;
    if (t->count == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 64;
        jinja_token *items = jinja_take(l->m, capacity * sizeof *items);
        if (t->count) memcpy(items, t->items, t->count * sizeof *items);
        t->items = items;
        t->capacity = capacity;
    }
    jinja_token *token = &t->items[t->count++];
    token->kind = kind;
    token->line = l->line;
    return token;
}

/* ---- template data ---- */
/* Adds source[from, to) as data, its end stripped as the sign of the tag behind it says. */
static void add_data(lexer *l, size_t from, size_t to, char sign, bool is_output)
{
    const jinja_text *s = l->source;
    size_t end = to;
    if (sign == '-') {
        const jinja_text *kept = jinja_strip(l->m, jinja_part(l->m, s, from, to), NULL, STRIP_RIGHT);
        end = from + kept->bytes;
    } else if (sign != '+' && !is_output) {
        size_t line = to;
        while (line > from && s->data[line - 1] != '\n') line--;
        if ((line > from || l->line_starting) && skip_space(l, line) >= to) end = line;
    }
    if (end > from) add(l, TOKEN_DATA)->text = jinja_part(l->m, s, from, end);
}

/* Reads the end of a tag at `at`: an optional sign, then `close`. Returns where the text goes on, 0 if there is no end of a tag here. */
static size_t tag_end(lexer *l, size_t at, const char *close, bool plus, bool trims)
{
    char sign = at < l->source->bytes ? l->source->data[at] : 0;
    if ((sign == '-' || (plus && sign == '+')) && looking_at(l, at + 1, close)) {
        size_t end = at + 1 + strlen(close);
        return sign == '-' ? skip_space(l, end) : end;
    }
    if (!looking_at(l, at, close)) return 0;
    size_t end = at + strlen(close);
    return end + (trims && looking_at(l, end, "\n"));
}

static void finish_tag(lexer *l, size_t end)
{
    move(l, end);
    l->line_starting = l->source->data[end - 1] == '\n';
}

/* The sign and the place behind "{% SIGN raw %}" at `at`, or 0. */
static size_t raw_begin(lexer *l, size_t at)
{
    size_t name = at + 2;
    name += looking_at(l, name, "-") || looking_at(l, name, "+");
    name = skip_space(l, name);
    return looking_at(l, name, "raw") ? tag_end(l, skip_space(l, name + 3), "%}", false, false) : 0;
}

static void lex_raw(lexer *l)
{
    size_t from = l->at;
    for (size_t at = from; at + 1 < l->source->bytes; at++) {
        if (!looking_at(l, at, "{%")) continue;
        char sign = looking_at(l, at + 2, "-") ? '-' : looking_at(l, at + 2, "+") ? '+' : 0;
        size_t name = skip_space(l, at + 2 + (sign != 0));
        if (!looking_at(l, name, "endraw")) continue;
        size_t end = tag_end(l, skip_space(l, name + 6), "%}", true, true);
        if (!end) continue;
        add_data(l, from, at, sign, false);
        finish_tag(l, end);
        return;
    }
    jinja_fail(l->m, QLFT_EFORMAT, "the end of {%% raw %%} is missing");
}

static void lex_comment(lexer *l)
{
    size_t from = l->at;
    for (size_t at = from; at + 1 < l->source->bytes; at++) {
        size_t end = tag_end(l, at, "#}", true, true);
        if (!end) continue;
        finish_tag(l, end);
        return;
    }
    jinja_fail(l->m, QLFT_EFORMAT, "the end of a comment is missing");
}

/* ---- inside tags ---- */
static uint32_t hex_digits(lexer *l, const char *at, const char *end, int count)
{
    uint32_t code = 0;
    for (int i = 0; i < count; i++) {
        char c = at + i < end ? at[i] : 0;
        int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) jinja_fail(l->m, QLFT_EFORMAT, "truncated escape in a string");
        code = code << 4 | (uint32_t)digit;
    }
    return code;
}

/* One escape at *at (behind the backslash), as Python's unicode-escape codec reads it. */
static void put_escape(lexer *l, jinja_writer *w, const char **at, const char *end)
{
    static const char plain[128] = {
        ['n'] = '\n', ['t'] = '\t', ['r'] = '\r', ['a'] = '\a', ['b'] = '\b', ['f'] = '\f', ['v'] = '\v', ['\\'] = '\\', ['\''] = '\'', ['"'] = '"'};
    unsigned char c = (unsigned char)*(*at)++;
    if (c == '\n') return;
    if (c < 128 && plain[c]) {
        jinja_put(w, &plain[c], 1, 0);
    } else if (c >= '0' && c <= '7') {
        int32_t code = c - '0';
        for (int i = 0; i < 2 && *at < end && **at >= '0' && **at <= '7'; i++) code = code * 8 + (*(*at)++ - '0');
        jinja_put_code(w, code, 0);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        int count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        uint32_t code = hex_digits(l, *at, end, count);
        *at += count;
        if (code >= 0xd800 && code < 0xe000) jinja_unsupported(l->m, "a lone surrogate \\u%04x in a string", code);
        if (code > 0x10ffff) jinja_fail(l->m, QLFT_EFORMAT, "illegal Unicode character in a string");
        jinja_put_code(w, (int32_t)code, 0);
    } else if (c == 'N') {
        jinja_unsupported(l->m, "\\N escapes in strings");
    } else {
        jinja_put(w, "\\", 1, 0);
        (*at)--;
    }
}

static void lex_string(lexer *l)
{
    const char *data = l->source->data;
    size_t from = l->at + 1, to = from;
    while (to < l->source->bytes && data[to] != data[l->at]) to += data[to] == '\\' ? 2 : 1;
    if (to >= l->source->bytes) jinja_fail(l->m, QLFT_EFORMAT, "a string does not end");
    jinja_token *token = add(l, TOKEN_STRING);
    jinja_writer w = {.m = l->m};
    const char *at = data + from, *end = data + to;
    while (at < end) {
        const char *slash = memchr(at, '\\', (size_t)(end - at));
        if (!slash) slash = end;
        jinja_put(&w, at, (size_t)(slash - at), 0);
        at = slash;
        if (at < end) {
            at++;
            put_escape(l, &w, &at, end);
        }
    }
    token->text = jinja_written(&w);
    move(l, to + 1);
}

/* Digits with single underscores between them, from `at`; returns the end. */
static size_t digits_end(const lexer *l, size_t at)
{
    const char *s = l->source->data;
    size_t bytes = l->source->bytes;
    while (at < bytes && (is_digit(s[at]) || (s[at] == '_' && at + 1 < bytes && is_digit(s[at + 1])))) at++;
    return at;
}

static size_t based_end(const lexer *l, size_t at, int base)
{
    for (; at < l->source->bytes; at++) {
        char c = l->source->data[at] | 0x20;
        int digit = is_digit(l->source->data[at]) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
        if (digit >= base && l->source->data[at] != '_') break;
    }
    return at;
}

static void lex_number(lexer *l, char before)
{
    size_t end = digits_end(l, l->at);
    char next = end < l->source->bytes ? l->source->data[end] : 0;
    char second = l->at + 1 < l->source->bytes ? (char)(l->source->data[l->at + 1] | 0x20) : 0;
    int base = l->source->data[l->at] != '0' ? 10 : second == 'x' ? 16 : second == 'o' ? 8 : second == 'b' ? 2 : 10;
    bool is_float = false;
    if (base != 10) {
        end = based_end(l, l->at + 2, base);
    } else if (before != '.') {
        size_t fraction = next == '.' && end + 1 < l->source->bytes && is_digit(l->source->data[end + 1]) ? digits_end(l, end + 1) : end;
        size_t exponent = fraction;
        if (exponent < l->source->bytes && (l->source->data[exponent] | 0x20) == 'e') {
            exponent++;
            if (exponent < l->source->bytes && (l->source->data[exponent] == '+' || l->source->data[exponent] == '-')) exponent++;
            if (exponent < l->source->bytes && is_digit(l->source->data[exponent])) {
                fraction = digits_end(l, exponent);
            }
        }
        is_float = fraction > end;
        end = fraction;
    }
    char text[64];
    size_t bytes = 0;
    for (size_t i = l->at + (base != 10 ? 2 : 0); i < end; i++) {
        if (l->source->data[i] == '_') continue;
        if (bytes + 1 >= sizeof text) jinja_unsupported(l->m, "a number of so many digits");
        text[bytes++] = l->source->data[i];
    }
    text[bytes] = 0;
    if (base == 10 && !is_float && bytes > 1 && text[0] == '0' && strspn(text, "0") != bytes) jinja_fail(l->m, QLFT_EFORMAT, "an integer with a leading zero");
    jinja_token *token = add(l, is_float ? TOKEN_FLOAT : TOKEN_INT);
    errno = 0;
    token->number = is_float ? strtod(text, NULL) : 0;
    token->integer = is_float ? 0 : strtoll(text, NULL, base);
    if (!is_float && errno == ERANGE) jinja_unsupported(l->m, "the integer %s, which is beyond 64 bits", text);
    if (bytes == 0) jinja_fail(l->m, QLFT_EFORMAT, "a number without digits");
    move(l, end);
}

static void lex_operator(lexer *l)
{
    static const char *const pairs[] = {"//", "**", "==", "!=", ">=", "<="};
    static const char singles[] = "+-/*%~[](){}<>=.:|,;";
    char c = peek(l, 0);
    int code = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (looking_at(l, l->at, pairs[i])) code = JINJA_TWO(pairs[i][0], pairs[i][1]);
    }
    if (!code) {
        if (!c || !strchr(singles, c)) {
            size_t next;
            jinja_code_at(l->source, l->at, &next);
            if ((unsigned char)c >= 0x80) jinja_unsupported(l->m, "names beyond ASCII: %.*s", (int)(next - l->at), l->source->data + l->at);
            jinja_fail(l->m, QLFT_EFORMAT, "unexpected character '%c'", c);
        }
        code = c;
    }
    if (c == '(' || c == '[' || c == '{') {
        if (l->bracket_count == MAX_BRACKETS) jinja_fail(l->m, QLFT_EFORMAT, "brackets nested more than %d deep", MAX_BRACKETS);
        l->brackets[l->bracket_count++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (!l->bracket_count) jinja_fail(l->m, QLFT_EFORMAT, "unexpected '%c'", c);
        if (l->brackets[--l->bracket_count] != c) jinja_fail(l->m, QLFT_EFORMAT, "unexpected '%c', expected '%c'", c, l->brackets[l->bracket_count]);
    }
    add(l, TOKEN_OPERATOR)->operation = code;
    move(l, l->at + (code > 255 ? 2 : 1));
}

static void lex_tag(lexer *l, bool is_output)
{
    while (l->at < l->source->bytes) {
        if (!l->bracket_count) {
            size_t end = tag_end(l, l->at, is_output ? "}}" : "%}", !is_output, !is_output);
            if (end) {
                add(l, is_output ? TOKEN_OUTPUT_END : TOKEN_BLOCK_END);
                finish_tag(l, end);
                return;
            }
        }
        char c = peek(l, 0);
        size_t blank = skip_space(l, l->at);
        if (blank > l->at) {
            move(l, blank);
        } else if (is_digit(c)) {
            lex_number(l, l->at ? l->source->data[l->at - 1] : 0);
        } else if (is_name(c)) {
            size_t end = l->at;
            while (end < l->source->bytes && is_name(l->source->data[end])) end++;
            add(l, TOKEN_NAME)->text = jinja_part(l->m, l->source, l->at, end);
            move(l, end);
        } else if (c == '\'' || c == '"') {
            lex_string(l);
        } else {
            lex_operator(l);
        }
    }
}

jinja_tokens jinja_lex(jinja_machine *m)
{
    jinja_text *source = jinja_take(m, sizeof *source); /* in the arena: a token may be the whole of it */
    source->data = m->source;
    source->bytes = m->source_bytes;
    lexer l = {.m = m, .source = source, .line = 1, .line_starting = true};
    m->line = 1;
    while (l.at < source->bytes) {
        size_t from = l.at, at = from;
        while (at < source->bytes && !(looking_at(&l, at, "{%") || looking_at(&l, at, "{{") || looking_at(&l, at, "{#"))) at++;
        if (at == source->bytes) {
            add(&l, TOKEN_DATA)->text = jinja_part(m, source, from, at);
            break;
        }
        char what = source->data[at + 1];
        char sign = looking_at(&l, at + 2, "-") ? '-' : looking_at(&l, at + 2, "+") ? '+' : 0;
        size_t raw = what == '%' ? raw_begin(&l, at) : 0;
        add_data(&l, from, at, sign, what == '{');
        if (raw) {
            finish_tag(&l, raw);
            lex_raw(&l);
            continue;
        }
        move(&l, at + 2 + (sign != 0));
        l.line_starting = false;
        if (what == '#') {
            lex_comment(&l);
        } else {
            add(&l, what == '{' ? TOKEN_OUTPUT_BEGIN : TOKEN_BLOCK_BEGIN);
            lex_tag(&l, what == '{');
        }
    }
    add(&l, TOKEN_END);
    return l.tokens;
}
