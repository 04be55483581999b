/* qlft generate: answers to a prompt, in a conversation, or to the rows of a file. */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "data/chat.h"
#include "infer/decode.h"
#include "train/prompts.h"

enum { PASS_TOKENS = 256, CHAT_TOKENS = 8192, MAX_STOPS = 64 };

typedef struct talk {
    run *r;
    const qlft_conversation *io;
    chat *template; /* NULL: the model has none, prompts are plain text */
    decoder dec;
    int32_t stops[MAX_STOPS];
    int stop_count;
    id_list fed;              /* ids in the cache */
    id_list answer;           /* ids of the answer in the making */
    char *text;               /* it decoded; yours */
    size_t text_bytes, given; /* bytes of text handed out */
    bool streaming;
    qlft_status status;
    int64_t prompt_tokens, tokens;
    double seconds;
    const char *end;
} talk;

static qlft_status ids_of_text(id_list *out, const tokenizer *tok, const char *text, size_t bytes, unsigned flags)
{
    token_list list = {NULL, 0, 0};
    out->count = 0;
    QLFT_TRY(tokenizer_encode(tok, text, bytes, flags, &list));
    qlft_status status = QLFT_OK;
    for (size_t i = 0; i < list.count && status == QLFT_OK; i++) status = id_list_add(out, &list.items[i].id, 1);
    token_list_free(&list);
    return status;
}

/* ---- prompts ---- */

/* The conversation with the generation prompt, tokenised as it is trained. */
static qlft_status ids_of_messages(id_list *out, const talk *t, const json_t *messages)
{
    chat_text rendered;
    memset(&rendered, 0, sizeof rendered);
    QLFT_TRY(chat_render(&rendered, t->template, messages, NULL, true));
    qlft_status status = ids_of_text(out, t->r->tok, rendered.text, rendered.bytes, TOKENIZE_SPECIAL);
    chat_text_free(&rendered);
    return status;
}

static qlft_status add_message(json_t *messages, const char *role, const char *content)
{
    if (json_array_append_new(messages, json_pack("{s:s, s:s}", "role", role, "content", content)) == 0) return QLFT_OK;
    return status_fail(QLFT_EFORMAT, "what the %s says is not UTF-8, or memory is out", role);
}

static qlft_status begin_messages(json_t **out, const talk *t)
{
    *out = json_array();
    if (!*out) return status_fail(QLFT_ENOMEM, "out of memory");
    return t->r->config->system ? add_message(*out, "system", t->r->config->system) : QLFT_OK;
}

static qlft_status ids_of_prompt(id_list *out, const talk *t)
{
    const char *prompt = t->r->config->prompt;
    json_t *messages = NULL;
    if (!t->template) return ids_of_text(out, t->r->tok, prompt, strlen(prompt), TOKENIZE_SPECIAL | TOKENIZE_ADD);
    qlft_status status = begin_messages(&messages, t);
    if (status == QLFT_OK) status = add_message(messages, "user", prompt);
    if (status == QLFT_OK) status = ids_of_messages(out, t, messages);
    json_decref(messages);
    return status;
}

/* Conversations need a template, prompts use it if there is one; --raw ones do not. */
static qlft_status open_template(talk *t)
{
    const qlft_config *c = t->r->config;
    bool named = c->template_path && strcmp(c->template_path, "auto") != 0;
    if (c->data_count || c->raw) return QLFT_OK; /* rows are rendered by data/ */
    if (!named && !c->chat && !tokenizer_chat_template(t->r->tok)) {
        if (c->system)
            return status_fail(QLFT_EARG,
                               "--system needs a chat template, and this model has none; name one with --template FILE, or put the text into --prompt");
        log_warning("this model has no chat template: the prompt is continued as it is (--template FILE names one, --raw says that this is meant)");
        return QLFT_OK;
    }
    return chat_open(&t->template, t->r->tok, c->template_path);
}

/* ---- answers ---- */

/* Decodes the answer so far and hands out what is new of it. */
static qlft_status hand_out(talk *t, bool ended)
{
    free(t->text);
    t->text = NULL;
    QLFT_TRY(answer_text(&t->text, &t->text_bytes, t->r->tok, &t->answer, ended));
    if (!t->streaming || !t->io || !t->io->text || t->text_bytes <= t->given) return QLFT_OK;
    t->io->text(t->io->payload, t->text + t->given, t->text_bytes - t->given);
    t->given = t->text_bytes;
    return QLFT_OK;
}

static bool take_token(void *payload, int32_t id)
{
    talk *t = payload;
    t->status = id_list_add(&t->answer, &id, 1);
    if (t->status == QLFT_OK) t->status = hand_out(t, false);
    return t->status == QLFT_OK;
}

static const char *const end_names[] = {"stop", "length", "interrupted"};

/* Feeds what is new of the ids (the cache keeps what it shares with them) and draws an answer. */
static qlft_status answer_to(talk *t, const id_list *ids)
{
    const qlft_config *c = t->r->config;
    decode_options o = {{c->temperature, c->top_p, c->top_k, (uint64_t)c->seed}, c->max_tokens, t->stops, t->stop_count, run_stop_flag(t->r)};
    double started = clock_seconds();
    int64_t shared = 0, drawn = 0;
    decode_end end;
    while (shared < t->fed.count && shared + 1 < ids->count && t->fed.ids[shared] == ids->ids[shared]) shared++;
    t->dec.cache->length = shared;
    t->fed.count = shared;
    t->answer.count = 0;
    t->given = 0;
    QLFT_TRY(decoder_feed(&t->dec, ids->ids + shared, ids->count - shared));
    QLFT_TRY(decoder_generate(&t->dec, &o, take_token, t, &drawn, &end));
    QLFT_TRY(t->status);
    QLFT_TRY(id_list_add(&t->fed, ids->ids + shared, ids->count - shared));
    QLFT_TRY(id_list_add(&t->fed, t->answer.ids, t->answer.count));
    if (t->dec.cache->length < t->fed.count) t->fed.count = t->dec.cache->length;
    QLFT_TRY(hand_out(t, true));
    t->end = end_names[end];
    t->tokens += drawn;
    t->prompt_tokens += ids->count - shared;
    t->seconds += clock_seconds() - started;
    return end == DECODE_STOPPED ? status_fail(QLFT_ESIGNAL, "stopped while generating") : QLFT_OK;
}

/* ---- one prompt, a conversation, rows ---- */

static qlft_status converse(talk *t)
{
    json_t *messages = NULL;
    id_list ids = {NULL, 0, 0};
    char *said = NULL;
    qlft_status status = begin_messages(&messages, t);
    while (status == QLFT_OK && t->io && t->io->turn && t->io->turn(t->io->payload, &said)) {
        status = add_message(messages, "user", said);
        free(said);
        said = NULL;
        int64_t before = t->tokens;
        if (status == QLFT_OK) status = ids_of_messages(&ids, t, messages);
        if (status == QLFT_OK) status = answer_to(t, &ids);
        if (status == QLFT_OK) status = add_message(messages, "assistant", t->text ? t->text : "");
        if (status == QLFT_OK && t->io->turn_end) t->io->turn_end(t->io->payload, t->tokens - before, t->end);
    }
    json_decref(messages);
    free(ids.ids);
    return status;
}

static qlft_status answer_rows(talk *t, const prompt_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        const prompt_row *row = &list->rows[i];
        qlft_answer a;
        int64_t before = t->tokens;
        memset(&a, 0, sizeof a);
        a.line = row->line;
        a.file = t->r->config->data[row->file];
        a.error = row->error;
        if (!row->error) {
            QLFT_TRY(answer_to(t, &row->ids));
            a.prompt = row->text;
            a.prompt_bytes = row->bytes;
            a.text = t->text ? t->text : "";
            a.text_bytes = t->text_bytes;
            a.tokens = t->tokens - before;
            a.end = t->end;
        }
        if (t->io && t->io->answer && !t->io->answer(t->io->payload, &a)) return QLFT_OK;
    }
    return QLFT_OK;
}

/* ---- the command ---- */

/* Tokens the cache must hold. An answer ends where the model's positions do, so that a large --max-tokens does not take memory that no answer can use. */
static int64_t context_of(const run *r, const prompt_list *rows, const id_list *prompt)
{
    const qlft_config *c = r->config;
    int64_t most = r->m->dims.max_positions;
    if (c->chat) return most > 0 && most < CHAT_TOKENS ? most : CHAT_TOKENS;
    int64_t longest = c->data_count ? rows->longest : prompt->count, wanted = longest + c->max_tokens;
    if (most <= 0 || wanted <= most) return wanted;
    if (longest < most) {
        log_info("the model was made for %lld tokens, prompt and answer together: answers end there", (long long)most);
        return most;
    }
    log_warning("a prompt has %lld tokens, the model was made for %lld: expect it to do badly", (long long)longest, (long long)most);
    return wanted;
}

static qlft_status generate(talk *t, prompt_list *rows, id_list *prompt)
{
    run *r = t->r;
    const qlft_config *c = r->config;
    QLFT_TRY(run_open_model(r, RUN_FORWARD));
    QLFT_TRY(tokenizer_open(&r->tok, r->m->source.folder));
    QLFT_TRY(open_template(t));
    if (c->data_count)
        QLFT_TRY(prompt_list_read(rows, r, c->data, c->data_count, 0));
    else if (!c->chat)
        QLFT_TRY(ids_of_prompt(prompt, t));
    r->choice.cache_tokens = context_of(r, rows, prompt);
    QLFT_TRY(kv_cache_open(&r->cache, r->m));
    QLFT_TRY(plan_make(r, r->choice.cache_tokens < PASS_TOKENS ? r->choice.cache_tokens : PASS_TOKENS));
    QLFT_TRY(run_reserve(r));
    QLFT_TRY(run_load(r));
    QLFT_TRY(decoder_open(&t->dec, r->m, &r->cache));
    t->stop_count = tokenizer_stops(r->tok, t->stops, MAX_STOPS);
    if (t->stop_count > MAX_STOPS) t->stop_count = MAX_STOPS;
    t->streaming = !c->data_count;
    if (c->data_count) return answer_rows(t, rows);
    return c->chat ? converse(t) : answer_to(t, prompt);
}

qlft_status qlft_generate(char **json_text, const qlft_config *c, const qlft_conversation *io, const qlft_observer *observer)
{
    run r;
    talk t;
    prompt_list rows;
    id_list prompt = {NULL, 0, 0};
    memset(&t, 0, sizeof t);
    memset(&rows, 0, sizeof rows);
    *json_text = NULL;
    t.r = &r;
    t.io = io;
    t.end = "";
    qlft_status status = run_start(&r, c, observer);
    if (status == QLFT_OK) status = generate(&t, &rows, &prompt);
    if (status == QLFT_OK) {
        json_t *figures = json_pack("{s:I, s:I, s:f, s:f, s:s}", "prompt_tokens", (json_int_t)t.prompt_tokens, "tokens", (json_int_t)t.tokens, "seconds",
                                    t.seconds, "tokens_per_second", t.seconds > 0.0 ? (double)t.tokens / t.seconds : 0.0, "end", t.end);
        *json_text = figures ? json_dumps(figures, JSON_INDENT(1)) : NULL;
        json_decref(figures);
        if (!*json_text) status = status_fail(QLFT_ENOMEM, "out of memory");
    }
    decoder_close(&t.dec);
    chat_close(t.template);
    free(t.fed.ids);
    free(t.answer.ids);
    free(t.text);
    free(prompt.ids);
    prompt_list_free(&rows);
    run_close(&r);
    return status;
}
