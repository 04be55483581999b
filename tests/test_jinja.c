/* The template engine against jinja2: goldens of tests/golden/make_jinja.py, the templates of published models (../shared), limits, and mutated templates. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/file.h"
#include "core/json.h"
#include "data/jinja.h"

/* ---- helpers ---- */
static json_t *read_json(const char *path)
{
    json_t *value = NULL;
    cr_assert_eq(json_read_file(&value, path, 64 << 20), QLFT_OK, "%s", qlft_last_error());
    return value;
}

/* "2024-07-26T12:34:56" in local time. */
static time_t read_time(const char *text)
{
    struct tm tm = {0};
    cr_assert_not_null(strptime(text, "%Y-%m-%dT%H:%M:%S", &tm));
    tm.tm_isdst = -1;
    return mktime(&tm);
}

static qlft_status render_text(jinja_output *out, const char *source, size_t bytes, const json_t *variables, time_t now)
{
    jinja_template *t;
    memset(out, 0, sizeof *out);
    qlft_status status = jinja_compile(&t, source, bytes, "test");
    if (status != QLFT_OK) return status;
    status = jinja_render(out, t, variables, NULL, 0, NULL, now);
    jinja_free(t);
    return status;
}

static int unsupported;

/* The names of jinja2's exceptions whose text must be ours too; of others only that there is one. */
static bool text_counts(const char *exception)
{
    return exception && (strcmp(exception, "UndefinedError") == 0 || strcmp(exception, "TemplateError") == 0 || strcmp(exception, "TemplateRuntimeError") == 0);
}

/* Renders one row of a golden file; counts what differs and prints it. */
static int check_row(const json_t *row, const char *source, size_t bytes, const json_t *variables, time_t now)
{
    jinja_output out;
    qlft_status status = render_text(&out, source, bytes, variables, now);
    const json_t *text = json_object_get(row, "text");
    const char *error = json_string_value(json_object_get(row, "error")), *exception = json_string_value(json_object_get(row, "exception"));
    int wrong = 0;
    if (status == QLFT_EUNSUPPORTED) {
        unsupported++;
        if (getenv("JINJA_SHOW")) fprintf(stderr, "unsupported: %s\n", qlft_last_error());
    } else if (text) {
        wrong = status != QLFT_OK || out.bytes != json_string_length(text) || memcmp(out.text, json_string_value(text), out.bytes) != 0;
        if (wrong) fprintf(stderr, "TEMPLATE %s\n  want: %s\n  have: %s\n", source, json_string_value(text), status == QLFT_OK ? out.text : qlft_last_error());
    } else {
        wrong = status != QLFT_EFORMAT || ((!exception || text_counts(exception)) && !strstr(qlft_last_error(), error));
        if (wrong) fprintf(stderr, "TEMPLATE %s\n  want error: %s\n  have: %s\n", source, error, status == QLFT_OK ? out.text : qlft_last_error());
    }
    jinja_output_free(&out);
    return wrong;
}

static void check_file(const char *path, int max_unsupported)
{
    json_t *file = read_json(path), *rows = json_object_get(file, "rows");
    time_t now = read_time(json_string_value(json_object_get(file, "now")));
    int wrong = 0;
    unsupported = 0;
    cr_assert_gt(json_array_size(rows), 100);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *source = json_object_get(row, "template");
        wrong += check_row(row, json_string_value(source), json_string_length(source), json_object_get(file, "variables"), now);
    }
    cr_expect_eq(wrong, 0, "%s: %d rows differ", path, wrong);
    cr_expect_eq(unsupported, max_unsupported, "%s: %d rows are refused as unsupported, %d are known", path, unsupported, max_unsupported);
    json_decref(file);
}

/* ---- against jinja2 ---- */
Test(jinja, expressions)
{
    check_file(TEST_GOLDEN "/jinja/expressions.json", 0);
}

Test(jinja, templates)
{
    check_file(TEST_GOLDEN "/jinja/templates.json", 2); /* recursive loops; printing `self` */
}

/* Refused in 9 of them: printing a generator; methods, filters and slices of a string marked safe. */
Test(jinja, random_templates)
{
    check_file(TEST_GOLDEN "/jinja/random.json", 9);
}

Test(jinja, published_templates)
{
    const char *folder = TEST_SHARED "/golden/templates";
    char path[1024];
    snprintf(path, sizeof path, "%s/templates.json", folder);
    if (!file_exists(path)) cr_skip_test("skipped: %s is not there", path);
    json_t *file = read_json(path), *rows = json_object_get(file, "rows"), *templates = json_object_get(file, "templates");
    time_t now = read_time(json_string_value(json_object_get(file, "now")));
    int wrong = 0;
    unsupported = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i), *t = NULL;
        const char *name = json_string_value(json_object_get(row, "template"));
        for (size_t k = 0; k < json_array_size(templates); k++) {
            if (strcmp(json_string_value(json_object_get(json_array_get(templates, k), "name")), name) == 0) t = json_array_get(templates, k);
        }
        char *source;
        size_t bytes;
        snprintf(path, sizeof path, "%s/%s", folder, json_string_value(json_object_get(t, "file")));
        cr_assert_eq(file_read_text(&source, &bytes, path, 1 << 20), QLFT_OK, "%s", qlft_last_error());
        json_t *conversation = json_object_get(json_object_get(file, "conversations"), json_string_value(json_object_get(row, "conversation")));
        json_t *eos = json_object_get(t, "eos_token");
        json_t *variables = json_pack("{s:O, s:n, s:n, s:O, s:O, s:O, s:s, s:O}", "messages", conversation, "tools", "documents", "add_generation_prompt",
                                      json_object_get(row, "add_generation_prompt"), "bos_token", json_object_get(t, "bos_token"), "eos_token", eos,
                                      "unk_token", "<unk>", "pad_token", eos);
        int differs = check_row(row, source, bytes, variables, now);
        if (differs) fprintf(stderr, "  in %s\n", name);
        wrong += differs;
        json_decref(variables);
        free(source);
    }
    cr_expect_eq(json_array_size(rows), 252);
    cr_expect_eq(wrong, 0, "%d rows differ", wrong);
    cr_expect_eq(unsupported, 0);
    json_decref(file);
}

/* ---- case B12 ---- */
Test(jinja, case_b12)
{
    static const char *const want[2][2] = {
        {"<sys>You are a test.</sys>\n<u1> hi\n\n<a>one</s>\n<u3>q & <b>\n<a!>two</s>\n",
         "<sys>You are a test.</sys>\n<u1> hi\n\n<a>one</s>\n<u3>q & <b>\n<a!>two</s>\n<a>"},
        {"<sys>S</sys>\n<u1>x\n<t>{\"role\": \"tool\", \"content\": \"\u00e9<&'\\\"\"}</t>\n<a!>y</s>\n",
         "<sys>S</sys>\n<u1>x\n<t>{\"role\": \"tool\", \"content\": \"\u00e9<&'\\\"\"}</t>\n<a!>y</s>\n<a>"},
    };
    char *source, *rows;
    size_t bytes, row_bytes;
    cr_assert_eq(file_read_text(&source, &bytes, TEST_GOLDEN "/cases/b12_template.jinja", 1 << 20), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(file_read_text(&rows, &row_bytes, TEST_GOLDEN "/cases/b12_rows.jsonl", 1 << 20), QLFT_OK, "%s", qlft_last_error());
    char *line = strtok(rows, "\n");
    for (int i = 0; i < 2; i++, line = strtok(NULL, "\n")) {
        json_t *row;
        cr_assert_not_null(line);
        cr_assert_eq(json_parse(&row, line, strlen(line), "row"), QLFT_OK);
        for (int generation = 0; generation < 2; generation++) {
            jinja_output out;
            json_t *variables =
                json_pack("{s:O, s:b, s:s}", "messages", json_object_get(row, "messages"), "add_generation_prompt", generation, "eos_token", "</s>");
            cr_assert_eq(render_text(&out, source, bytes, variables, 0), QLFT_OK, "%s", qlft_last_error());
            cr_expect_str_eq(out.text, want[i][generation]);
            jinja_output_free(&out);
            json_decref(variables);
        }
        json_decref(row);
    }
    free(source);
    free(rows);
}

/* ---- origins ---- */
typedef struct origin_case {
    const char *template_text, *c, *d; /* c is marked 1, d is marked 2 */
    const char *text, *origins;        /* one character a byte: '.', '1', '2' */
    const char *empties;               /* "AT:MARK ..." */
} origin_case;

static void check_origins(const origin_case *o)
{
    json_t *variables = json_pack("{s:s, s:s, s:[{s:s}]}", "c", o->c, "d", o->d, "m", "content", o->c);
    json_t *inner = json_object_get(json_array_get(json_object_get(variables, "m"), 0), "content");
    const jinja_origin origins[] = {{json_object_get(variables, "c"), 1}, {json_object_get(variables, "d"), 2}, {inner, 1}};
    jinja_template *t;
    jinja_output out;
    char have[256] = "", empties[256] = "";
    cr_assert_eq(jinja_compile(&t, o->template_text, strlen(o->template_text), "test"), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(jinja_render(&out, t, variables, origins, 3, NULL, 0), QLFT_OK, "%s", qlft_last_error());
    cr_assert_lt(out.bytes, sizeof have);
    for (size_t i = 0; i < out.bytes; i++) have[i] = out.origins[i] ? (char)('0' + out.origins[i]) : '.';
    for (size_t i = 0; i < out.empty_count; i++) {
        size_t used = strlen(empties);
        snprintf(empties + used, sizeof empties - used, "%s%zu:%d", used ? " " : "", out.empties[i].at, out.empties[i].mark);
    }
    cr_expect_str_eq(out.text, o->text, "%s\n have %s\n want %s", o->template_text, out.text, o->text);
    cr_expect_str_eq(have, o->origins, "%s\n have %s\n want %s", o->template_text, have, o->origins);
    cr_expect_str_eq(empties, o->empties, "%s\n have empties \"%s\"\n want \"%s\"", o->template_text, empties, o->empties);
    jinja_output_free(&out);
    jinja_free(t);
    json_decref(variables);
}

Test(jinja, origins_follow_every_operation)
{
    static const origin_case cases[] = {
        {"x{{ c }}y", " hi ", "", "x hi y", ".1111.", ""},
        {"{{ 'a' + c + 'b' + d }}", "hi", "ho", "ahibho", ".11.22", ""},
        {"{{ 'a' ~ c ~ d }}", "hi", "ho", "ahiho", ".1122", ""},
        {"{{ m[0].content | trim }}", " hi ", "", "hi", "11", ""},
        {"{{ ('<' + c + '>').strip('<') }}", "hi", "", "hi>", "11.", ""},
        {"{{ c.split('|')[-1].lstrip() }}", "a| hi", "", "hi", "11", ""},
        {"{{ c.split('|') | join('--') }}", "a|b", "", "a--b", "1..1", ""},
        {"{{ [c, d] | join }}", "a", "b", "ab", "12", ""},
        {"{{ c | replace('h', 'JJ') }}", "hah", "", "JJaJJ", "..1..", ""},
        {"{{ c.replace('h', d) }}", "hah", "xy", "xyaxy", "22122", ""},
        {"{{ ('(' + c + ')')[::-1] }}", "abc", "", ")cba(", ".111.", ""},
        {"{{ ('(' + c + ')')[1:3] }}", "\u00e9bc", "", "\u00e9b", "111", ""},
        {"{{ ('(' + c + ')')[1] }}", "abc", "", "a", "1", ""},
        {"{{ ('x' + c) | upper }}", "\u00df", "", "XSS", ".11", ""},
        {"{{ ('x' + c) | title }}", "aB", "", "Xab", ".11", ""},
        {"{{ {'k': c} | tojson }}", "a\n\"", "", "{\"k\": \"a\\n\\\"\"}", ".......11111..", ""},
        {"{{ '%s!%5s' % (c, d) }}", "ab", "cd", "ab!   cd", "11....22", ""},
        {"{{ '{}-{x}'.format(c, x=d) }}", "ab", "cd", "ab-cd", "11.22", ""},
        {"{{ c | indent(1) }}", "a\nb", "", "a\n b", "1..1", ""},
        {"{{ c | escape }}", "a<", "", "a&lt;", "11111", ""},
        {"{{ [c] }}", "a'\t", "", "[\"a'\\t\"]", "..1111..", ""},
        {"{% for x in c %}{{ x }}.{% endfor %}", "ab", "", "a.b.", "1.1.", ""},
        {"{% set x %}<{{ c }}>{% endset %}{{ x }}", "ab", "", "<ab>", ".11.", ""},
        {"{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f(c) }}", "ab", "", "[ab]", ".11.", ""},
        {"{% set ns = namespace(x=c) %}{{ ns.x | reverse }}", "ab", "", "ba", "11", ""},
        {"{{ c | default('z') }}{{ c or d }}{{ d if c else 1 }}", "a", "b", "aab", "112", ""},
        {"{{ c.splitlines() | last }}{{ c.partition(' ')[2] }}", "a b\nc", "", "cb\nc", "1111", ""},
        {"{{ [c, d] | map('trim') | select | list | first }}", " a ", "b", "a", "1", ""},
        {"{{ c * 2 }}", "a", "", "aa", "11", ""},
        {"{{ c | length }}{{ c == 'a' }}", "a", "", "1True", ".....", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_origins(&cases[i]);
}

Test(jinja, empty_strings_leave_their_place)
{
    static const origin_case cases[] = {
        {"<{{ c }}>", "", "", "<>", "..", "1:1"},
        {"{{ '<' + c + '>' }}", "", "", "<>", "..", "1:1"},
        {"{{ '<' ~ (c | trim) ~ '>' }}", " \n ", "", "<>", "..", "1:1"},
        {"{{ ('< ' + c + ' ').strip() }}>", "  ", "", "<>", "..", "1:1"},
        {"{{ (c + ' x').strip() }}", "  ", "", "x", ".", "0:1"},
        {"{{ ('x ' + c).strip() }}", "  ", "", "x", ".", "1:1"},
        {"<{{ c.split('|')[-1] }}>", "a|", "", "<>", "..", "1:1"},
        {"<{{ c.replace('a', '') }}>", "aa", "", "<>", "..", "1:1"},
        {"<{{ [c, d] | join(',') }}>", "", "x", "<,x>", "..2.", "1:1"},
        {"<{{ c | upper }}{{ d }}>", "", "", "<>", "..", "1:1 1:2"},
        {"<{{ c | tojson }}>", "", "", "<\"\">", "....", "2:1"},
        {"{% set x %}<{{ c }}>{% endset %}{{ x | replace('<', '[') }}", "", "", "[>", "..", "1:1"},
        {"{{ '%s' | format(c) }}.", "", "", ".", ".", "0:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_origins(&cases[i]);
}

/* ---- messages ---- */
static void check_refused(const char *source, qlft_status want, const char *const *words)
{
    json_t *variables = json_object();
    jinja_output out;
    qlft_status status = render_text(&out, source, strlen(source), variables, 0);
    cr_expect_eq(status, want, "%s: %s", source, qlft_last_error());
    for (; *words; words++) cr_expect_not_null(strstr(qlft_last_error(), *words), "%s\n  misses \"%s\": %s", source, *words, qlft_last_error());
    jinja_output_free(&out);
    json_decref(variables);
}

Test(jinja, messages_name_construct_line_and_text)
{
    check_refused("a\nb {% include 'x' %} c\n", QLFT_EUNSUPPORTED, (const char *const[]){"test line 2", "include", "b {% include 'x' %} c", NULL});
    check_refused("a\n\n  {{ 'x' | urlencode }}", QLFT_EUNSUPPORTED, (const char *const[]){"line 3", "'urlencode'", "{{ 'x' | urlencode }}", NULL});
    check_refused("{{ 'x'.zfill(3) }}", QLFT_EUNSUPPORTED, (const char *const[]){"line 1", "str.zfill", NULL});
    check_refused("{{ ''.__class__ }}", QLFT_EUNSUPPORTED, (const char *const[]){"__class__", NULL});
    check_refused("{% call f() %}{% endcall %}", QLFT_EUNSUPPORTED, (const char *const[]){"{% call %}", NULL});
    check_refused("{% if true %}\nx\n{{ raise_exception('No more!') }}{% endif %}", QLFT_EFORMAT, (const char *const[]){"line 3", "No more!", NULL});
    check_refused("x\n{{ 'a' 1 }}", QLFT_EFORMAT, (const char *const[]){"line 2", "{{ 'a' 1 }}", NULL});
    check_refused("{% if x %}\n\ny", QLFT_EFORMAT, (const char *const[]){"endif", "the end of the template", NULL});
    check_refused("\xff", QLFT_EFORMAT, (const char *const[]){"UTF-8", NULL});
}

/* ---- limits ---- */
static qlft_status render_within(const char *source, jinja_limits limits)
{
    jinja_template *t;
    jinja_output out = {0};
    json_t *variables = json_object();
    qlft_status status = jinja_compile(&t, source, strlen(source), "test");
    if (status == QLFT_OK) {
        status = jinja_render(&out, t, variables, NULL, 0, &limits, 0);
        jinja_free(t);
    }
    jinja_output_free(&out);
    json_decref(variables);
    return status;
}

Test(jinja, limits)
{
    const jinja_limits none = {0}, output = {.output_bytes = 100}, steps = {.steps = 1000}, depth = {.depth = 10};
    cr_expect_eq(render_within("{% for i in range(99) %}x{% endfor %}", output), QLFT_OK, "%s", qlft_last_error());
    cr_expect_eq(render_within("{% for i in range(101) %}x{% endfor %}", output), QLFT_EFORMAT);
    cr_expect_eq(render_within("{{ 'x' * 1000000000000 }}", none), QLFT_EFORMAT);
    cr_expect_eq(render_within("{% for i in range(2000) %}{% endfor %}", steps), QLFT_EFORMAT);
    cr_expect_eq(render_within("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", none), QLFT_EFORMAT);
    const char *recursive = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}";
    char source[200];
    snprintf(source, sizeof source, "%s{{ f(8) }}", recursive);
    cr_expect_eq(render_within(source, depth), QLFT_OK, "%s", qlft_last_error());
    snprintf(source, sizeof source, "%s{{ f(12) }}", recursive);
    cr_expect_eq(render_within(source, depth), QLFT_EFORMAT);
    snprintf(source, sizeof source, "%s{{ f(100000) }}", recursive);
    cr_expect_eq(render_within(source, none), QLFT_EFORMAT);
    /* a value that holds itself, and one nested deep */
    cr_expect_eq(render_within("{% set a = namespace() %}{% set a.a = a %}{{ a }}", none), QLFT_EFORMAT);
    cr_expect_eq(render_within("{% set a = namespace(l=[]) %}{% for i in range(50000) %}{% set a.l = [a.l] %}{% endfor %}{{ a.l | tojson }}", none),
                 QLFT_EFORMAT);
    cr_expect_eq(
        render_within("{% set a = namespace(l=[], m=[]) %}{% for i in range(50000) %}{% set a.l = [a.l] %}{% set a.m = [a.m] %}{% endfor %}{{ a.l == a.m }}",
                      none),
        QLFT_EFORMAT);
}

/* `count` times `open`, then `inner`, then `count` times `close`, is refused and not followed into the stack's end. */
static void check_deep(const char *begin, const char *open, const char *inner, const char *close, const char *end, int count)
{
    char *source = calloc((size_t)count * (strlen(open) + strlen(close)) + strlen(begin) + strlen(inner) + strlen(end) + 1, 1), *at = source;
    at = stpcpy(at, begin);
    for (int i = 0; i < count; i++) at = stpcpy(at, open);
    at = stpcpy(at, inner);
    for (int i = 0; i < count; i++) at = stpcpy(at, close);
    stpcpy(at, end);
    jinja_limits none = {0};
    cr_expect_eq(render_within(source, none), QLFT_EFORMAT, "%s... x %d: %s", open, count, qlft_last_error());
    free(source);
}

Test(jinja, deep_nesting_is_refused)
{
    check_deep("{{ ", "(", "1", ")", " }}", 100000);
    check_deep("{{ ", "[", "1", "]", " }}", 150);
    check_deep("{{ ", "not ", "1", "", " }}", 100000);
    check_deep("{{ ", "-", "1", "", " }}", 100000);
    check_deep("{{ ", "1 if 1 else ", "1", "", " }}", 100000);
    check_deep("{{ ", "1 + ", "1", "", " }}", 100000);
    check_deep("{{ ", "1 ~ ", "1", "", " }}", 100000);
    check_deep("{{ ", "1 and ", "1", "", " }}", 100000);
    check_deep("{{ x", ".a", "", "", " }}", 100000);
    check_deep("{{ 1", "|abs", "", "", " }}", 100000);
    check_deep("{% set x ", "|trim", "%}", "", "{% endset %}", 100000);
    check_deep("", "{% if 1 %}", "", "{% endif %}", "", 100000);
    check_deep("", "{% for x in [1] %}", "", "{% endfor %}", "", 100000);
}

/* ---- mutated templates ---- */
static uint64_t random_state;
static uint32_t random_below(uint32_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 32) % limit);
}

static const char *const pieces[] = {"{{",
                                     "}}",
                                     "{%",
                                     "%}",
                                     "{#",
                                     "#}",
                                     "-",
                                     "|",
                                     "(",
                                     ")",
                                     "[",
                                     "]",
                                     "'",
                                     "\"",
                                     "\\",
                                     ".",
                                     ":",
                                     ",",
                                     "{% endif %}",
                                     "{% endfor %}",
                                     "{% else %}",
                                     "{% raw %}",
                                     "{% endraw %}",
                                     "{% set x = ",
                                     " in ",
                                     " not ",
                                     " is ",
                                     " if ",
                                     " else ",
                                     "loop.",
                                     "loop.last",
                                     "messages",
                                     "namespace()",
                                     "range(9)",
                                     "[::-1]",
                                     "[-1]",
                                     "|tojson(indent=",
                                     "|join",
                                     "|list",
                                     "|sort",
                                     "|trim",
                                     "|title",
                                     "|indent",
                                     ".split(",
                                     ".strip(",
                                     ".items()",
                                     "%s",
                                     "% (1, 2)",
                                     "*",
                                     "**",
                                     "//",
                                     "~",
                                     "1e9",
                                     "9223372036854775807",
                                     "-1",
                                     "''",
                                     "\xc3\xa9",
                                     "\xff",
                                     "none",
                                     "true",
                                     "{% break %}",
                                     "{% macro f(a) %}",
                                     "{% endmacro %}",
                                     "f(f)"};

static size_t mutate(char *text, size_t bytes, size_t capacity)
{
    for (uint32_t times = 1 + random_below(4); times; times--) {
        size_t at = random_below((uint32_t)bytes + 1), count = random_below(12);
        const char *piece = pieces[random_below(sizeof pieces / sizeof *pieces)];
        size_t length = strlen(piece);
        switch (random_below(4)) {
        case 0: /* cut */
            if (count > bytes - at) count = bytes - at;
            memmove(text + at, text + at + count, bytes - at - count);
            bytes -= count;
            break;
        case 1: /* put */
            if (bytes + length > capacity) break;
            memmove(text + at + length, text + at, bytes - at);
            memcpy(text + at, piece, length);
            bytes += length;
            break;
        case 2: /* change */
            if (at < bytes) text[at] = (char)random_below(256);
            break;
        default: /* repeat */
            if (count > bytes - at) count = bytes - at;
            if (bytes + count > capacity) break;
            memmove(text + at + count, text + at, bytes - at);
            bytes += count;
            break;
        }
    }
    return bytes;
}

static void fuzz_one(const char *seed, size_t seed_bytes, const json_t *variables)
{
    const jinja_limits limits = {.output_bytes = 1 << 16, .steps = 20000};
    size_t capacity = seed_bytes + 256;
    char *text = malloc(capacity);
    memcpy(text, seed, seed_bytes);
    size_t bytes = mutate(text, seed_bytes, capacity);
    text = realloc(text, bytes ? bytes : 1); /* so that a byte read behind the template is seen */
    json_t *content = json_object_get(json_array_get(json_object_get(variables, "messages"), 0), "content");
    const jinja_origin origin = {content, 7};
    jinja_template *t;
    jinja_output out = {0};
    qlft_status status = jinja_compile(&t, text, bytes, "test");
    if (status == QLFT_OK) {
        status = jinja_render(&out, t, variables, &origin, 1, &limits, 1);
        for (size_t i = 0; i < out.bytes; i++) cr_assert(out.origins[i] == 0 || out.origins[i] == 7);
        for (size_t i = 0; i < out.empty_count; i++) cr_assert(out.empties[i].at <= out.bytes && out.empties[i].mark == 7);
        jinja_free(t);
    }
    cr_assert(status == QLFT_OK || status == QLFT_EFORMAT || status == QLFT_EUNSUPPORTED, "%d: %s", status, qlft_last_error());
    jinja_output_free(&out);
    free(text);
}

static void fuzz_file(const char *path, uint64_t seed, int times)
{
    json_t *file = read_json(path), *rows = json_object_get(file, "rows");
    random_state = seed;
    for (int i = 0; i < times; i++) {
        const json_t *source = json_object_get(json_array_get(rows, random_below((uint32_t)json_array_size(rows))), "template");
        fuzz_one(json_string_value(source), json_string_length(source), json_object_get(file, "variables"));
    }
    json_decref(file);
}

Test(jinja, mutated_snippets)
{
    fuzz_file(TEST_GOLDEN "/jinja/templates.json", 1, 4000);
    fuzz_file(TEST_GOLDEN "/jinja/expressions.json", 2, 4000);
}

Test(jinja, mutated_published_templates)
{
    const char *folder = TEST_SHARED "/golden/templates";
    char path[1024];
    snprintf(path, sizeof path, "%s/templates.json", folder);
    if (!file_exists(path)) cr_skip_test("skipped: %s is not there", path);
    json_t *file = read_json(path), *templates = json_object_get(file, "templates");
    json_t *variables = json_pack("{s:O, s:b, s:s, s:s}", "messages", json_object_get(json_object_get(file, "conversations"), "blanks"),
                                  "add_generation_prompt", 1, "bos_token", "<s>", "eos_token", "</s>");
    random_state = 3;
    for (size_t i = 0; i < json_array_size(templates); i++) {
        char *source;
        size_t bytes;
        snprintf(path, sizeof path, "%s/%s", folder, json_string_value(json_object_get(json_array_get(templates, i), "file")));
        cr_assert_eq(file_read_text(&source, &bytes, path, 1 << 20), QLFT_OK, "%s", qlft_last_error());
        for (int k = 0; k < 150; k++) fuzz_one(source, bytes, variables);
        free(source);
    }
    json_decref(variables);
    json_decref(file);
}
