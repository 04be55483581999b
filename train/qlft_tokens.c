/* qlft tokens: what the model will see. Needs a tokenizer, not a model. */
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/log.h"
#include "train/run.h"

enum { CONFIG_LIMIT_BYTES = 16 << 20 };

typedef struct token_sink {
    const qlft_config *config;
    tokenizer *tok;
    bool (*row)(void *payload, const qlft_token_row *row);
    void *payload;
    const volatile sig_atomic_t *stop;
    int64_t given, bad;
    char *first_bad; /* what is wrong with the first bad row; owned */
    qlft_status status;
} token_sink;

/* Where the tokenizer of a base lies: the file itself for GGUF and tokenizer files, the folder for weights. Yours. */
static char *tokenizer_place(const char *base)
{
    return name_ends_with(base, ".safetensors") || name_ends_with(base, ".index.json") ? path_folder(base) : strdup(base);
}

/* vocab_size of config.json beside the tokenizer, or the rows of GGUF's embedding; 0 if nothing tells. */
static qlft_status vocabulary_of(int64_t *out, const char *place)
{
    *out = 0;
    if (name_ends_with(place, ".gguf")) {
        gguf g;
        QLFT_TRY(gguf_open(&g, place));
        const gguf_tensor *embed = gguf_find_tensor(&g, "token_embd.weight");
        if (embed && embed->rank == 2) *out = embed->shape[0];
        gguf_close(&g);
        return QLFT_OK;
    }
    char *path = file_is_folder(place) ? path_join(place, "config.json") : NULL;
    if (!path || !file_exists(path)) {
        free(path);
        return QLFT_OK;
    }
    json_t *config = NULL;
    qlft_status status = json_read_file(&config, path, CONFIG_LIMIT_BYTES);
    if (status == QLFT_OK) status = json_get_int(out, config, "vocab_size", 0, path);
    json_decref(config);
    free(path);
    return status;
}

/* ---- one row ---- */

/* The bytes of each token, one after the other in `store`; false without memory. */
static bool fill_pieces(token_sink *s, qlft_token_row *row, char **store, const char **pieces, size_t *sizes, bool *special)
{
    size_t used = 0, capacity = 0;
    *store = NULL;
    for (size_t i = 0; i < row->count; i++) {
        char *piece = NULL;
        size_t bytes = 0;
        if (tokenizer_decode(s->tok, &row->ids[i], 1, false, &piece, &bytes) != QLFT_OK) return false;
        if (used + bytes > capacity) {
            capacity = 2 * (used + bytes) + 256;
            char *grown = realloc(*store, capacity);
            if (!grown) {
                free(piece);
                return false;
            }
            *store = grown;
        }
        memcpy(*store + used, piece, bytes);
        free(piece);
        sizes[i] = bytes;
        used += bytes;
        special[i] = tokenizer_is_special(s->tok, row->ids[i]);
    }
    for (size_t i = 0, at = 0; i < row->count; at += sizes[i++]) pieces[i] = *store + at;
    return true;
}

static bool give_row(token_sink *s, qlft_token_row *row)
{
    char *store = NULL;
    const char **pieces = calloc(row->count + 1, sizeof *pieces);
    size_t *sizes = calloc(row->count + 1, sizeof *sizes);
    bool *special = calloc(row->count + 1, sizeof *special), go_on = false;
    if (!pieces || !sizes || !special || (s->tok && !fill_pieces(s, row, &store, pieces, sizes, special))) {
        s->status = status_fail(QLFT_ENOMEM, "out of memory for the row of line %lld", (long long)row->line);
    } else {
        row->pieces = pieces;
        row->piece_bytes = sizes;
        row->special = special;
        go_on = s->row(s->payload, row);
    }
    free(store);
    free(pieces);
    free(sizes);
    free(special);
    s->given++;
    return go_on && !(s->config->limit && s->given >= s->config->limit) && !(s->stop && *s->stop);
}

static bool each_row(void *payload, const data_row *from)
{
    token_sink *s = payload;
    qlft_token_row row;
    const char *file = s->config->data[from->file];
    memset(&row, 0, sizeof row);
    row.line = from->line;
    row.file = file;
    row.text = from->text;
    row.text_bytes = from->text_bytes;
    row.ids = from->ids;
    row.labels = from->labels;
    row.count = from->count;
    if (!from->bad) return give_row(s, &row);
    row.text = NULL;
    row.error = from->error;
    row.count = 0;
    bool go_on = give_row(s, &row);
    s->bad++;
    if (s->first_bad || s->config->on_bad_row != BAD_ROW_STOP) return go_on;
    if (asprintf(&s->first_bad, "%s line %lld: %s", file, (long long)from->line, from->error) < 0) s->first_bad = NULL;
    if (!s->first_bad) s->status = status_fail(QLFT_ENOMEM, "out of memory for the row of line %lld", (long long)from->line);
    return go_on && s->first_bad;
}

/* Every row is shown before the bad ones end the command: whoever mends a file wants to know all of them. */
static qlft_status bad_rows(const token_sink *s)
{
    if (!s->first_bad) return s->status;
    if (s->bad == 1) return status_fail(QLFT_EFORMAT, "%s (correct the row, or leave it out with --on-bad-row skip)", s->first_bad);
    return status_fail(QLFT_EFORMAT, "%s (the first of %lld bad rows: correct them, or leave them out with --on-bad-row skip)", s->first_bad,
                       (long long)s->bad);
}

/* ---- --text ---- */

static qlft_status tokens_of_text(token_sink *s, const char *text)
{
    token_list list = {NULL, 0, 0};
    qlft_token_row row;
    unsigned flags = (s->config->no_special ? 0u : (unsigned)TOKENIZE_SPECIAL) | (s->config->raw ? 0u : (unsigned)TOKENIZE_ADD);
    QLFT_TRY(tokenizer_encode(s->tok, text, strlen(text), flags, &list));
    int32_t *ids = calloc(2 * list.count + 1, sizeof *ids);
    if (!ids) {
        token_list_free(&list);
        return status_fail(QLFT_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < list.count; i++) {
        ids[i] = list.items[i].id;
        ids[list.count + i] = i ? ids[i] : -100; /* nothing predicts the first token */
    }
    memset(&row, 0, sizeof row);
    row.line = 1;
    row.text = text;
    row.text_bytes = strlen(text);
    row.ids = ids;
    row.labels = ids + list.count;
    row.count = list.count;
    give_row(s, &row);
    free(ids);
    token_list_free(&list);
    return s->status;
}

qlft_status qlft_tokens(const qlft_config *c, bool (*row)(void *payload, const qlft_token_row *row), void *payload, const qlft_observer *observer)
{
    token_sink s;
    memset(&s, 0, sizeof s);
    s.config = c;
    s.row = row;
    s.payload = payload;
    s.stop = observer ? observer->stop : NULL;
    QLFT_TRY(qlft_config_check(c));
    char *place = tokenizer_place(c->base);
    if (!place) return status_fail(QLFT_ENOMEM, "out of memory");
    data_options o;
    memset(&o, 0, sizeof o);
    qlft_status status = tokenizer_open(&s.tok, place);
    if (status != QLFT_OK && c->format == FORMAT_TOKENS) status = QLFT_OK; /* rows of ids need none */
    if (status == QLFT_OK) status = vocabulary_of(&o.vocabulary, place);
    if (status == QLFT_OK && c->text) {
        status = tokens_of_text(&s, c->text);
    } else if (status == QLFT_OK) {
        o.paths = (const char *const *)c->data;
        o.path_count = c->data_count;
        o.format = (data_format)c->format;
        o.template_path = c->template_path;
        o.train_on = (data_train_on)c->train_on;
        o.max_tokens = c->seq;
        o.on_long = (data_on_long)c->on_long;
        o.on_bad_row = BAD_ROW_SKIP; /* every bad row is given; what follows is decided in each_row */
        o.raw = c->raw;
        o.no_special = c->no_special;
        status = data_each_row(&o, s.tok, each_row, &s);
        if (status == QLFT_OK || s.status != QLFT_OK) status = bad_rows(&s);
        if (status == QLFT_OK && s.stop && *s.stop) status = status_fail(QLFT_ESIGNAL, "stopped after %lld rows", (long long)s.given);
        if (status == QLFT_OK && !s.given) log_warning("%s%s: no rows", c->data[0], c->data_count > 1 ? " and the other files" : "");
    }
    tokenizer_close(s.tok);
    free(s.first_bad);
    free(place);
    return status;
}
