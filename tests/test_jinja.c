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
