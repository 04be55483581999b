#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

static double real_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static int64_t whole_at(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}

/* The loss on held-out rows before and after, and of the first and last steps. */
static void show_losses(const json_t *report)
{
    const json_t *eval = json_object_get(report, "eval"), *steps = json_object_get(report, "steps");
    size_t count = json_array_size(eval);
    if (count > 0) {
        const json_t *first = json_array_get(eval, 0), *last = json_array_get(eval, count - 1);
        double before = real_at(first, "loss"), after = real_at(last, "loss");
        char tokens[SHOWN_BYTES];
        printf("  held-out loss   %.4f -> %.4f   perplexity %.2f -> %.2f, %s tokens\n", before, after, exp(before), exp(after),
               show_count(tokens, whole_at(last, "tokens")));
    }
    count = json_array_size(steps);
    if (count > 0)
        printf("  training loss   %.4f -> %.4f   first and last step\n", real_at(json_array_get(steps, 0), "loss"),
               real_at(json_array_get(steps, count - 1), "loss"));
}

static void show_run(const json_t *report)
{
    const json_t *memory = json_object_get(report, "memory"), *data = json_object_get(report, "data");
    char a[SHOWN_BYTES], b[SHOWN_BYTES], c[SHOWN_BYTES];
    printf("  memory          %s planned, %s used; the process took %s\n", show_bytes(a, real_at(memory, "planned_peak_bytes")),
           show_bytes(b, real_at(memory, "used_peak_bytes")), show_bytes(c, real_at(memory, "process_peak_bytes")));
    printf("  data            %s sample%s, %s tokens learned", show_count(a, whole_at(data, "samples")), whole_at(data, "samples") == 1 ? "" : "s",
           show_count(b, whole_at(data, "supervised_tokens")));
    if (whole_at(data, "skipped")) printf(", %s rows skipped", show_count(a, whole_at(data, "skipped")));
    if (whole_at(data, "truncated")) printf(", %s cut at --seq", show_count(a, whole_at(data, "truncated")));
    putchar('\n');
}

static bool inside_character(const char *text, size_t at)
{
    return ((unsigned char)text[at] & 0xC0) == 0x80;
}

/* The end of the prompt, where the question is: in front of it stands what the template says to each. */
static void show_asked(const json_t *prompt)
{
    enum { SHOWN = 160 };
    const char *text = json_string_value(prompt);
    size_t bytes = json_string_length(prompt);
    while (bytes > 0 && text[bytes - 1] == '\n') bytes--;
    size_t from = bytes > SHOWN ? bytes - SHOWN : 0;
    while (from > 0 && from < bytes && inside_character(text, from)) from++;
    printf("  asked   %s", from ? "..." : "");
    show_text(stdout, text + from, bytes - from, false);
    putchar('\n');
}

static void show_answer(const char *label, const json_t *answer)
{
    enum { SHOWN = 300 };
    const char *text = json_string_value(answer);
    size_t bytes = json_string_length(answer), shown = bytes < SHOWN ? bytes : SHOWN;
    while (shown < bytes && shown > 0 && inside_character(text, shown)) shown--;
    printf("  %-7s ", label);
    show_text(stdout, text, shown, false);
    puts(shown < bytes ? "..." : "");
}

static void show_samples(const json_t *report)
{
    const json_t *sample = json_array_get(json_object_get(report, "samples"), 0);
    if (!json_is_string(json_object_get(sample, "prompt")) || !json_is_string(json_object_get(sample, "after"))) return;
    putchar('\n');
    show_asked(json_object_get(sample, "prompt"));
    if (json_is_string(json_object_get(sample, "before"))) show_answer("before", json_object_get(sample, "before"));
    show_answer("after", json_object_get(sample, "after"));
}

/* By the run's own recipe: base, --quant, --compute and template are then those of the training. */
static void show_next(const call *c, const char *out)
{
    printf("\nnext\n  ");
    show_shell_word(stdout, c->program);
    printf(" generate --recipe ");
    show_shell_word(stdout, out);
    printf("/recipe.yaml --adapter ");
    show_shell_word(stdout, out);
    printf(" --prompt \"...\"\n");
    if (qlft_config_is(c->config, "gguf", "on")) return;
    printf("  ");
    show_shell_word(stdout, c->program);
    printf(" export --recipe ");
    show_shell_word(stdout, out);
    printf("/recipe.yaml --adapter ");
    show_shell_word(stdout, out);
    printf(" --format gguf --out adapter.gguf\n");
}

static qlft_status show_summary(const call *c, const json_t *report, const char *report_path)
{
    const json_t *throughput = json_object_get(report, "throughput");
    char *out = NULL, count[SHOWN_BYTES], time[SHOWN_BYTES], rate[SHOWN_BYTES];
    qlft_status status = qlft_config_get(&out, c->config, "out");
    if (status != QLFT_OK) return status;
    size_t steps = json_array_size(json_object_get(report, "steps"));
    double speed = real_at(throughput, "tokens_per_second");
    if (speed < 99.95)
        snprintf(rate, sizeof rate, "%.1f", speed);
    else
        show_count(rate, llround(speed));
    printf("trained %s step%s in %s, %s tokens/s\n", show_count(count, (int64_t)steps), steps == 1 ? "" : "s", show_time(time, real_at(throughput, "seconds")),
           rate);
    show_losses(report);
    show_run(report);
    /* report.html lies beside report.json. */
    const char *slash = strrchr(report_path, '/');
    printf("  adapter         %s\n  report          %.*sreport.html\n", out, slash ? (int)(slash - report_path) + 1 : 0, report_path);
    show_samples(report);
    show_next(c, out);
    qlft_free(out);
    return QLFT_OK;
}

qlft_status cmd_train(call *c)
{
    char *report_path = NULL;
    json_t *report = NULL;
    qlft_status status = qlft_train(&report_path, c->config, &c->observer);
    progress_clear(c->shown);
    /* A stopped run has saved a report too; its message is on standard error, so only programs are given more. */
    if (report_path && (status == QLFT_OK || c->json)) {
        json_error_t error;
        report = json_load_file(report_path, 0, &error);
        if (!report) {
            if (status == QLFT_OK) status = say_error(QLFT_EIO, "%s: %s", report_path, error.text);
        } else if (c->json) {
            json_dumpf(report, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
            putchar('\n');
        } else {
            status = show_summary(c, report, report_path);
        }
    }
    json_decref(report);
    qlft_free(report_path);
    return status;
}

qlft_status cmd_later(call *c)
{
    return qlft_config_check(c->config);
}
