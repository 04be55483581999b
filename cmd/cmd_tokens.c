#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

typedef struct tokens_out {
    call *c;
    bool colour, terminal;
    bool several; /* several files: rows say which */
} tokens_out;

/* ---- --json: exactly the object that is documented ---- */

static json_t *ids_json(const int32_t *ids, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, json_integer(ids[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static void row_json(const qlft_token_row *row)
{
    json_t *object = json_object();
    json_object_set_new(object, "line", json_integer(row->line));
    if (row->error) {
        json_object_set_new(object, "error", json_string(row->error));
    } else {
        json_object_set_new(object, "ids", ids_json(row->ids, row->count));
        json_object_set_new(object, "labels", ids_json(row->labels, row->count));
        if (row->text) json_object_set_new(object, "text", json_stringn(row->text, row->text_bytes));
    }
    json_dumpf(object, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(object);
}

/* ---- for people ---- */

/* The first token is never learned, whatever its label says: nothing stands before it that could predict it. */
static bool is_learned(const qlft_token_row *row, size_t i)
{
    return i > 0 && row->labels[i] >= 0;
}

/* Neighbouring tokens differ in shade, learned ones are green, special ones are reversed, as SGR parameters. */
static const char *shade_of(const qlft_token_row *row, size_t i)
{
    static const char *const shades[2][2] = {{"0;90", "0"}, {"0;32", "0;1;92"}};
    bool learned = is_learned(row, i);
    if (row->special && row->special[i]) return learned ? "0;30;42" : "0;100";
    return shades[learned][i % 2];
}

static bool continues_character(const qlft_token_row *row, size_t i)
{
    return row->piece_bytes[i] > 0 && ((unsigned char)row->pieces[i][0] & 0xC0) == 0x80;
}

static void row_coloured(const qlft_token_row *row)
{
    for (size_t i = 0; i < row->count; i++) {
        /* A character that two tokens share keeps one shade: an escape inside it would break it. */
        if (i == 0 || !continues_character(row, i)) printf("\033[%sm", shade_of(row, i));
        show_text(stdout, row->pieces[i], row->piece_bytes[i], true);
    }
    printf("\033[0m\n");
}

static void row_plain(const qlft_token_row *row, bool terminal)
{
    bool inside = false;
    for (size_t i = 0; i < row->count; i++) {
        bool learned = is_learned(row, i);
        if (learned != inside) fputs(learned ? ">>" : "<<", stdout);
        inside = learned;
        if (terminal)
            show_text(stdout, row->pieces[i], row->piece_bytes[i], true);
        else
            fwrite(row->pieces[i], 1, row->piece_bytes[i], stdout);
    }
    puts(inside ? "<<" : "");
}

static bool on_row(void *payload, const qlft_token_row *row)
{
    tokens_out *out = payload;
    char a[SHOWN_BYTES], b[SHOWN_BYTES];
    progress_clear(out->c->shown);
    if (out->c->json) {
        row_json(row);
        return !ferror(stdout);
    }
    const char *bold = out->colour ? "\033[1m" : "", *red = out->colour ? "\033[1;31m" : "", *end = out->colour ? "\033[0m" : "";
    const char *file = out->several && row->file ? row->file : "", *gap = *file ? " " : "";
    if (row->error) {
        printf("%s--- %s%sline %lld: ", red, file, gap, (long long)row->line);
        show_text(stdout, row->error, strlen(row->error), true);
        printf("%s\n", end);
        return !ferror(stdout);
    }
    int64_t learned = 0;
    for (size_t i = 0; i < row->count; i++) learned += is_learned(row, i);
    printf("%s--- %s%sline %lld: %s token%s, %s learned%s\n", bold, file, gap, (long long)row->line, show_count(a, (int64_t)row->count),
           row->count == 1 ? "" : "s", show_count(b, learned), end);
    if (out->colour)
        row_coloured(row);
    else
        row_plain(row, out->terminal);
    return !ferror(stdout);
}

qlft_status cmd_tokens(call *c)
{
    tokens_out out = {.c = c, .colour = show_colour(stdout), .terminal = isatty(STDOUT_FILENO)};
    char *data = NULL;
    qlft_status status = qlft_config_get(&data, c->config, "data");
    if (status != QLFT_OK) return status;
    out.several = strchr(data, ' ') != NULL;
    qlft_free(data);
    return qlft_tokens(c->config, on_row, &out, &c->observer);
}
