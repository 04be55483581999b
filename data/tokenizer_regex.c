/* Patterns of tokenizers: written for Oniguruma, matched by PCRE2. Where the two read the same text differently (measured with the package tokenizers), the
 * pattern is translated; where there is no such form, it is refused:
 *   ^ $       at every line, "." all but a line feed; (?m) lets "." match that too, which is (?s) in PCRE2
 *   \s \S     White_Space; PCRE2 adds U+180E
 *   \w \W     letters, marks, decimal digits, letter numbers, connectors, circled letters and the digits of Latin-1; PCRE2 10.42 has letters, numbers, "_"
 *   \b \B     by that \w
 *   \h \H     hexadecimal digits; PCRE2 has horizontal white space
 *   \v        the vertical tab; PCRE2 has all vertical white space
 *   \u00e9    a code point
 *   x{,3}     x{0,3}; PCRE2 10.42 has the characters themselves
 *   x{1,3}+   one or more of x{1,3}; PCRE2 has the possessive form: refused
 *   \p{Han}   a script; PCRE2 10.40 and later mean script extensions by it, so it becomes \p{sc:Han}
 *   [a&&b], [a[b]], [[:alpha:]]   set operations and POSIX classes: refused
 *   \p{L}     with the letters of Unicode 15 and 16, which PCRE2 10.42 does not know; also \p{M}, \p{N} and their parts
 * (?i:ss) matches U+00DF in Oniguruma only. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"

enum {
    PATTERN_LIMIT = 1 << 20,    /* bytes of a regular expression */
    STACK_START = 32 << 10,     /* bytes of the JIT's own stack, made when the machine stack's 32 KiB do not do */
    STACK_LIMIT = 64 << 20,     /* bytes */
    MATCH_LIMIT = 100 << 20,    /* backtracking steps of one match */
    HEAP_LIMIT_KIB = 512 << 10, /* of the interpreter, used where there is no JIT */
};

typedef struct writer {
    char *text;
    size_t bytes, capacity;
} writer;

static qlft_status put(writer *w, const char *text, size_t bytes)
{
    QLFT_TRY(tokenizer_grow(&w->text, &w->capacity, w->bytes, bytes, 1));
    memcpy(w->text + w->bytes, text, bytes);
    w->bytes += bytes;
    return QLFT_OK;
}

/* Characters that Unicode 15, 15.1 and 16 added to a category (measured with tokenizers 0.23, which has 16; PCRE2 10.42 has 14). */
#define NEWER_LETTERS                                                                                                                                          \
    "\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d65}\\x{10d6f}-\\x{10d85}"                                 \
    "\\x{10ec2}-\\x{10ec4}\\x{1123f}-\\x{11240}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}"                             \
    "\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}"                                       \
    "\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}"                                       \
    "\\x{1e030}-\\x{1e06d}\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"
#define NEWER_MARKS                                                                                                                                            \
    "\\x{897}\\x{cf3}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}\\x{113b8}-\\x{113c0}\\x{113c2}\\x{113c5}"                                    \
    "\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d0}\\x{113d2}\\x{113e1}-\\x{113e2}\\x{11f00}-\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}"                            \
    "\\x{11f3e}-\\x{11f42}\\x{11f5a}\\x{13440}\\x{13447}-\\x{13455}\\x{1611e}-\\x{1612f}\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}"                                       \
    "\\x{1e5ee}-\\x{1e5ef}"
#define NEWER_DIGITS                                                                                                                                           \
    "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}"                           \
    "\\x{1ccf0}-\\x{1ccf9}\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}"
#define WORD_MEMBERS                                                                                                                                           \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}" NEWER_LETTERS NEWER_MARKS NEWER_DIGITS
/* Alone \w also has the other numbers of Latin-1; inside a class it has not. */
#define WORD_ALONE WORD_MEMBERS "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
/* Escapes of one letter; `members` go between brackets. An upper-case letter is the complement. */
typedef struct escape_class {
    char letter;
    const char *members;
} escape_class;
static const escape_class escape_classes[] = {
    {'s', "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"},
    {'w', WORD_MEMBERS},
    {'d', "\\p{Nd}" NEWER_DIGITS},
    {'h', "0-9a-fA-F"},
};
/* The complements inside a class, where "[^...]" cannot stand; \S: all between the members of \s. */
static const escape_class escape_complements[] = {
    {'S', "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}"
          "\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"},
    {'D', "\\P{Nd}"},
    {'H', "\\x{0}-\\x{2f}\\x{3a}-\\x{40}\\x{47}-\\x{60}\\x{67}-\\x{10ffff}"},
};

#define WORD "[" WORD_ALONE "]"
/* Escapes that stand for something else outside a class, and those that have no form here. */
static const escape_class escape_others[] = {
    {'b', "(?:(?<=" WORD ")(?!" WORD ")|(?<!" WORD ")(?=" WORD "))"},
    {'B', "(?:(?<=" WORD ")(?=" WORD ")|(?<!" WORD ")(?!" WORD "))"},
    {'v', "\\x{b}"},
};
static const char escapes_refused[] = "QEKXyYOk";

static const char *find_class(const escape_class *classes, size_t count, char letter)
{
    for (size_t i = 0; i < count; i++)
        if (classes[i].letter == letter) return classes[i].members;
    return NULL;
}

typedef struct newer_members {
    const char *category, *members;
} newer_members;
static const newer_members newer[] = {
    {"L", NEWER_LETTERS},
    {"Lu", "\\x{1c89}\\x{a7cb}-\\x{a7cc}\\x{a7da}\\x{a7dc}\\x{10d50}-\\x{10d65}"},
    {"Ll", "\\x{1c8a}\\x{a7cd}\\x{a7db}\\x{10d70}-\\x{10d85}\\x{1df25}-\\x{1df2a}"},
    {"Lm", "\\x{10d4e}\\x{10d6f}\\x{16d40}-\\x{16d42}\\x{16d6b}-\\x{16d6c}\\x{1e030}-\\x{1e06d}\\x{1e4eb}"},
    {"Lo", "\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d4d}\\x{10d4f}\\x{10ec2}-\\x{10ec4}\\x{1123f}-\\x{11240}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-"
           "\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}"
           "\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d43}-\\x{16d6a}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1e4d0}-\\x{1e4ea}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}"
           "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"M", NEWER_MARKS},
    {"N", "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}"
          "\\x{1d2c0}-\\x{1d2d3}\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}"},
    {"Nd", NEWER_DIGITS},
};

/* True if PCRE2 was built with a Unicode before 16. */
static bool has_older_unicode(void)
{
    char version[32] = "";
    return pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, NULL) <= (int)sizeof version && pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version) >= 0 &&
           atoi(version) < 16;
}

/* What a category lacks in PCRE2; NULL: nothing. */
static const char *find_newer(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof newer / sizeof *newer; i++)
        if (strlen(newer[i].category) == length && memcmp(newer[i].category, name, length) == 0) return has_older_unicode() ? newer[i].members : NULL;
    return NULL;
}

/* \p{L} and the like with the newer members; *done false: no such category, or a complement inside a class, which has no form. */
static qlft_status put_newer(writer *w, const char *name, size_t length, bool complement, bool in_class, bool *done)
{
    const char *members = find_newer(name, length);
    *done = members && !(in_class && complement);
    if (!*done) return QLFT_OK;
    if (!in_class) QLFT_TRY(put(w, complement ? "[^" : "[", complement ? 2 : 1));
    QLFT_TRY(put(w, "\\p{", 3));
    QLFT_TRY(put(w, name, length));
    QLFT_TRY(put(w, "}", 1));
    QLFT_TRY(put(w, members, strlen(members)));
    return in_class ? QLFT_OK : put(w, "]", 1);
}

/* \p{Name} of three letters or more that is no property of PCRE2 that means the same: a category by its long name, or a script. */
static qlft_status put_property(writer *w, const char *text, size_t bytes, size_t *at, bool in_class)
{
    static const char *const same[] = {"Any", "Alphabetic", "Alpha", "Lowercase", "Uppercase", "White_Space"};
    static const char *const categories[] = {"Letter", "Mark", "Number", "Punctuation", "Symbol"};
    size_t start = *at + 2;
    const char *end = start < bytes && text[start] == '{' ? memchr(text + start, '}', bytes - start) : NULL;
    if (!end) {
        *at += 2;
        return put(w, text + *at - 2, 2);
    }
    size_t name = start + 1;
    if (text[name] == '^') name++;
    size_t length = (size_t)(end - text) - name, written = length;
    bool script = length > 2 && !memchr(text + name, ':', length) && !memchr(text + name, '=', length) && !memchr(text + name, '&', length);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (length == strlen(same[i]) && memcmp(text + name, same[i], length) == 0) script = false;
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (length == strlen(categories[i]) && memcmp(text + name, categories[i], length) == 0) written = 1;
    bool done;
    QLFT_TRY(put_newer(w, text + name, written, (text[*at + 1] == 'P') != (text[name - 1] == '^'), in_class, &done));
    if (done) {
        *at = name + length + 1;
        return QLFT_OK;
    }
    QLFT_TRY(put(w, text + *at, name - *at));
    if (script && written == length) QLFT_TRY(put(w, "sc:", 3));
    QLFT_TRY(put(w, text + name, written));
    *at = name + length + 1;
    return put(w, "}", 1);
}

/* \uHHHH, which is \x{HHHH} here. */
static bool is_code_point(const char *text, size_t bytes, size_t at)
{
    if (bytes - at < 6) return false;
    for (size_t i = at + 2; i < at + 6; i++)
        if (!isxdigit((unsigned char)text[i])) return false;
    return true;
}

static qlft_status put_code_point(writer *w, const char *text, size_t *at)
{
    QLFT_TRY(put(w, "\\x{", 3));
    QLFT_TRY(put(w, text + *at + 2, 4));
    *at += 6;
    return put(w, "}", 1);
}

/* \s, \w, \h and their complements. */
static qlft_status put_class(writer *w, char letter, const char *members, bool in_class, const char *what)
{
    bool complement = letter >= 'A' && letter <= 'Z';
    if (in_class && complement) {
        members = find_class(escape_complements, sizeof escape_complements / sizeof *escape_complements, letter);
        if (!members) return status_fail(QLFT_EUNSUPPORTED, "%s: the regular expression uses \\%c inside a class, which is not supported", what, letter);
    }
    if (in_class) return put(w, members, strlen(members));
    if (letter == 'w' || letter == 'W') members = WORD_ALONE;
    QLFT_TRY(put(w, complement ? "[^" : "[", complement ? 2 : 1));
    QLFT_TRY(put(w, members, strlen(members)));
    return put(w, "]", 1);
}

static qlft_status put_escape(writer *w, const char *text, size_t bytes, size_t *at, bool in_class, const char *what)
{
    char letter = *at + 1 < bytes ? text[*at + 1] : '\0';
    if (letter == 'p' || letter == 'P') return put_property(w, text, bytes, at, in_class);
    if (letter == 'u' && is_code_point(text, bytes, *at)) return put_code_point(w, text, at);
    if (letter && strchr(escapes_refused, letter))
        return status_fail(QLFT_EUNSUPPORTED, "%s: the regular expression uses \\%c, which is not supported", what, letter);
    size_t length = letter ? 2 : 1;
    const char *source = text + *at;
    *at += length;
    const char *members = find_class(escape_classes, sizeof escape_classes / sizeof *escape_classes, (char)tolower((unsigned char)letter));
    if (members) return put_class(w, letter, members, in_class, what);
    const char *other = find_class(escape_others, sizeof escape_others / sizeof *escape_others, letter);
    if (other && (!in_class || letter == 'v')) return put(w, other, strlen(other));
    return put(w, source, length);
}

/* The options of (?im-x: or (?im-x), where m becomes s; of any other group only "(" is put. */
static qlft_status put_group(writer *w, const char *text, size_t bytes, size_t *at, const char *what)
{
    size_t end = *at + 2;
    while (end < bytes && (isalpha((unsigned char)text[end]) || text[end] == '-')) end++;
    bool options = *at + 1 < bytes && text[*at + 1] == '?' && end > *at + 2 && end < bytes && (text[end] == ':' || text[end] == ')');
    if (!options) {
        *at += 1;
        return put(w, "(", 1);
    }
    for (; *at < end; ++*at) {
        char c = text[*at];
        if (c == 's') return status_fail(QLFT_EUNSUPPORTED, "%s: the regular expression uses the option s, which Oniguruma does not have", what);
        QLFT_TRY(put(w, c == 'm' ? "s" : &c, 1));
    }
    return QLFT_OK;
}

/* {n}, {n,m} or {,m}; anything else in braces is text. */
static qlft_status put_brace(writer *w, const char *text, size_t bytes, size_t *at, const char *what)
{
    size_t end = *at + 1, commas = 0, digits = 0;
    for (; end < bytes && (text[end] == ',' || isdigit((unsigned char)text[end])); end++) {
        commas += text[end] == ',';
        digits += text[end] != ',';
    }
    bool quantifier = end < bytes && text[end] == '}' && commas <= 1 && digits > 0;
    if (!quantifier) {
        *at += 1;
        return put(w, "{", 1);
    }
    if (end + 1 < bytes && text[end + 1] == '+')
        return status_fail(QLFT_EUNSUPPORTED, "%s: the regular expression repeats a repetition (%.*s+), which is not supported", what, (int)(end + 1 - *at),
                           text + *at);
    QLFT_TRY(put(w, text[*at + 1] == ',' ? "{0" : "{", text[*at + 1] == ',' ? 2 : 1));
    QLFT_TRY(put(w, text + *at + 1, end - *at));
    *at = end + 1;
    return QLFT_OK;
}

static qlft_status translate(writer *w, const char *text, size_t bytes, const char *what)
{
    bool in_class = false;
    size_t class_start = 0; /* first place of the class where "]" ends it */
    for (size_t at = 0; at < bytes;) {
        char c = text[at];
        if (c == '\\') {
            QLFT_TRY(put_escape(w, text, bytes, &at, in_class, what));
            continue;
        }
        if (!in_class && (c == '(' || c == '{')) {
            QLFT_TRY((c == '(' ? put_group : put_brace)(w, text, bytes, &at, what));
            continue;
        }
        if (!in_class && c == '[') {
            in_class = true;
            class_start = at + 1;
            if (class_start < bytes && text[class_start] == '^') class_start++;
            if (class_start < bytes && text[class_start] == ']') class_start++;
        } else if (in_class && c == ']' && at >= class_start) {
            in_class = false;
        } else if (in_class && c == '[') {
            return status_fail(QLFT_EUNSUPPORTED, "%s: the regular expression has a class inside a class, which is not supported", what);
        } else if (in_class && c == '&' && at + 1 < bytes && text[at + 1] == '&') {
            return status_fail(QLFT_EUNSUPPORTED, "%s: the regular expression intersects classes (&&), which is not supported", what);
        }
        QLFT_TRY(put(w, text + at, 1));
        at++;
    }
    return QLFT_OK;
}

static qlft_status compile_translated(pattern *out, const writer *w, const char *what)
{
    int code = 0;
    PCRE2_SIZE at = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return status_fail(QLFT_ENOMEM, "out of memory for a pattern");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    out->compiled = pcre2_compile((PCRE2_SPTR)w->text, w->bytes, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &at, context);
    pcre2_compile_context_free(context);
    if (!out->compiled) {
        PCRE2_UCHAR message[200];
        pcre2_get_error_message(code, message, sizeof message);
        return status_fail(QLFT_EUNSUPPORTED, "%s: the regular expression \"%.200s\" cannot be used: %s", what, out->text, (char *)message);
    }
    /* Without a JIT (forbidden, or none for this processor) the interpreter gives the same matches. */
    pcre2_jit_compile(out->compiled, PCRE2_JIT_COMPLETE);
    return QLFT_OK;
}

qlft_status pattern_compile(pattern *out, const char *text, size_t bytes, bool literal, const char *what)
{
    memset(out, 0, sizeof *out);
    if (bytes > PATTERN_LIMIT) return status_fail(QLFT_EUNSUPPORTED, "%s: a pattern of %zu bytes is too long (%d at most)", what, bytes, PATTERN_LIMIT);
    out->text = malloc(bytes + 1);
    if (!out->text) return status_fail(QLFT_ENOMEM, "out of memory for a pattern");
    memcpy(out->text, text, bytes);
    out->text[bytes] = '\0';
    out->bytes = bytes;
    if (literal) return QLFT_OK;
    writer w = {0};
    qlft_status status = translate(&w, text, bytes, what);
    if (status == QLFT_OK) status = compile_translated(out, &w, what);
    free(w.text);
    if (status != QLFT_OK) pattern_free(out);
    return status;
}

void pattern_free(pattern *p)
{
    pcre2_code_free(p->compiled);
    free(p->text);
    memset(p, 0, sizeof *p);
}

void pattern_scratch_free(pattern_scratch *scratch)
{
    pcre2_match_data_free(scratch->data);
    pcre2_match_context_free(scratch->context);
    pcre2_jit_stack_free(scratch->stack);
    memset(scratch, 0, sizeof *scratch);
}

static qlft_status prepare(pattern_scratch *scratch)
{
    if (scratch->data) return QLFT_OK;
    scratch->data = pcre2_match_data_create(1, NULL);
    scratch->context = pcre2_match_context_create(NULL);
    if (!scratch->data || !scratch->context) return status_fail(QLFT_ENOMEM, "out of memory in the tokenizer");
    pcre2_set_match_limit(scratch->context, MATCH_LIMIT);
    pcre2_set_heap_limit(scratch->context, HEAP_LIMIT_KIB);
    return QLFT_OK;
}

static qlft_status next_expression(const pattern *p, pattern_scratch *scratch, const char *text, size_t bytes, size_t at, bool *found, size_t *start,
                                   size_t *end)
{
    QLFT_TRY(prepare(scratch));
    int code = pcre2_match(p->compiled, (PCRE2_SPTR)text, bytes, at, PCRE2_NO_UTF_CHECK, scratch->data, scratch->context);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT && !scratch->stack) {
        scratch->stack = pcre2_jit_stack_create(STACK_START, STACK_LIMIT, NULL);
        if (!scratch->stack) return status_fail(QLFT_ENOMEM, "out of memory in the tokenizer");
        pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
        code = pcre2_match(p->compiled, (PCRE2_SPTR)text, bytes, at, PCRE2_NO_UTF_CHECK, scratch->data, scratch->context);
    }
    *found = false;
    if (code == PCRE2_ERROR_NOMATCH) return QLFT_OK;
    if (code < 0) {
        PCRE2_UCHAR message[200];
        pcre2_get_error_message(code, message, sizeof message);
        return status_fail(QLFT_EUNSUPPORTED, "the tokenizer's regular expression \"%.200s\" failed on a text of %zu bytes: %s", p->text, bytes,
                           (char *)message);
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(scratch->data);
    *found = true;
    *start = range[0];
    /* \K in a lookahead may put the start behind the end. */
    *end = range[1] < range[0] ? range[0] : range[1];
    return QLFT_OK;
}

qlft_status pattern_next(const pattern *p, pattern_scratch *scratch, const char *text, size_t bytes, size_t at, bool *found, size_t *start, size_t *end)
{
    *found = false;
    if (at > bytes) return QLFT_OK;
    if (p->compiled) return next_expression(p, scratch, text, bytes, at, found, start, end);
    const char *hit = p->bytes ? memmem(text + at, bytes - at, p->text, p->bytes) : NULL;
    if (!hit) return QLFT_OK;
    *found = true;
    *start = (size_t)(hit - text);
    *end = *start + p->bytes;
    return QLFT_OK;
}
