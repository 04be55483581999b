#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

typedef struct answer_out {
    call *c;
    bool terminal;  /* of standard output: then control characters of an answer are made visible */
    bool questions; /* standard input and output are terminals: turns are asked for */
    bool greet;     /* how it works is still to be said */
    char *text;     /* the answer so far, for --json */
    size_t bytes, capacity;
    bool no_memory, at_line_start;
} answer_out;

static void keep_text(answer_out *out, const char *bytes, size_t count)
{
    if (out->bytes + count > out->capacity) {
        size_t capacity = 2 * (out->bytes + count);
        char *grown = realloc(out->text, capacity);
        out->no_memory = out->no_memory || !grown;
        if (!grown) return;
        out->text = grown;
        out->capacity = capacity;
    }
    memcpy(out->text + out->bytes, bytes, count);
    out->bytes += count;
}

static void on_text(void *payload, const char *bytes, size_t count)
{
    answer_out *out = payload;
    if (count == 0) return;
    if (out->c->json) {
        keep_text(out, bytes, count);
        return;
    }
    progress_clear(out->c->shown);
    if (out->terminal)
        show_text(stdout, bytes, count, true);
    else
        fwrite(bytes, 1, count, stdout);
    fflush(stdout);
    out->at_line_start = bytes[count - 1] == '\n';
}

static bool on_turn(void *payload, char **said)
{
    answer_out *out = payload;
    size_t capacity = 0;
    *said = NULL;
    progress_clear(out->c->shown);
    for (;;) {
        if (out->greet) fputs("One line is one turn; Ctrl-D ends.\n", stderr);
        out->greet = false;
        if (out->questions) fputs("> ", stdout);
        fflush(stdout);
        errno = 0;
        ssize_t length = getline(said, &capacity, stdin);
        if (length <= 0) break;
        while (length > 0 && ((*said)[length - 1] == '\n' || (*said)[length - 1] == '\r')) (*said)[--length] = 0;
        if (length > 0) return true;
    }
    free(*said);
    *said = NULL;
    if (out->questions) putchar('\n');
    return false;
}

static void print_json(json_t *object)
{
    json_dumpf(object, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    putchar('\n');
    fflush(stdout);
    json_decref(object);
}

static void on_turn_end(void *payload, int64_t tokens, const char *end)
{
    answer_out *out = payload;
    if (out->c->json) {
        print_json(json_pack("{s:s%,s:I,s:s}", "text", out->text ? out->text : "", out->bytes, "tokens", (json_int_t)tokens, "end", end));
        out->bytes = 0;
        return;
    }
    if (!out->at_line_start) putchar('\n');
    if (!strcmp(end, "length") && !out->c->quiet) fprintf(stderr, "(cut at --max-tokens)\n");
    out->at_line_start = true;
}

static bool on_answer(void *payload, const qlft_answer *a)
{
    answer_out *out = payload;
    progress_clear(out->c->shown);
    if (a->error) {
        print_json(json_pack("{s:I,s:s}", "line", (json_int_t)a->line, "error", a->error));
        return true;
    }
    print_json(json_pack("{s:I,s:s%,s:s%,s:I,s:s}", "line", (json_int_t)a->line, "prompt", a->prompt, a->prompt_bytes, "text", a->text, a->text_bytes, "tokens",
                         (json_int_t)a->tokens, "end", a->end));
    return !ferror(stdout);
}

/* --prompt --json: the answer and its figures in one object. */
static qlft_status print_prompt_json(const answer_out *out, const char *figures)
{
    json_t *object = NULL;
    qlft_status status = json_of_text(&object, figures);
    if (status == QLFT_OK && json_object_set_new(object, "text", json_stringn(out->text ? out->text : "", out->bytes)) != 0)
        status = say_error(QLFT_EFORMAT, "the answer is not UTF-8");
    if (status == QLFT_OK) print_json(json_incref(object));
    json_decref(object);
    return status;
}

static void show_figures(const call *c, const char *figures)
{
    json_t *object = NULL;
    char rate[SHOWN_BYTES], tokens[SHOWN_BYTES];
    if (c->quiet || json_of_text(&object, figures) != QLFT_OK) return;
    json_int_t made = json_integer_value(json_object_get(object, "tokens"));
    fprintf(stderr, "(%s token%s", show_count(tokens, (int64_t)made), made == 1 ? "" : "s");
    double speed = json_number_value(json_object_get(object, "tokens_per_second"));
    if (speed > 0) {
        snprintf(rate, sizeof rate, "%.1f", speed);
        fprintf(stderr, ", %s tokens/s", rate);
    }
    const char *end = json_string_value(json_object_get(object, "end"));
    fprintf(stderr, "%s)\n", end && !strcmp(end, "length") ? ", cut at --max-tokens" : "");
    json_decref(object);
}

qlft_status cmd_generate(call *c)
{
    answer_out out = {.c = c, .terminal = isatty(STDOUT_FILENO), .at_line_start = true};
    out.questions = out.terminal && isatty(STDIN_FILENO) && !c->json;
    out.greet = out.questions && !c->quiet;
    char *data = NULL, *figures = NULL;
    qlft_conversation io = {.payload = &out, .text = on_text, .turn = on_turn, .turn_end = on_turn_end, .answer = on_answer};
    qlft_status status = qlft_config_get(&data, c->config, "data");
    bool chat = qlft_config_is(c->config, "chat", "on"), rows = status == QLFT_OK && *data;
    if (status == QLFT_OK) status = qlft_generate(&figures, c->config, &io, &c->observer);
    progress_clear(c->shown);
    if (status == QLFT_OK && out.no_memory) status = say_error(QLFT_ENOMEM, "out of memory for the answer");
    if (!chat && !rows) {
        if (c->json && status == QLFT_OK)
            status = print_prompt_json(&out, figures);
        else if (!out.at_line_start)
            putchar('\n');
    }
    fflush(stdout);
    if (status == QLFT_OK && !c->json && !chat && !rows && figures) show_figures(c, figures);
    free(out.text);
    qlft_free(data);
    qlft_free(figures);
    return status;
}
