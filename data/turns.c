#include "data/turns.h"

#include <string.h>

/* What an assistant is asked to produce in a turn: everything behind the generation prompt (for Qwen3 that includes an empty thinking block), to the token that
 * ends the turn. The template says neither in so many words; both are found from what it writes:
 *   start: where the rendering of the messages before, with the generation prompt, ends, if it is a beginning of the whole; else where the content begins;
 *   end:   behind the first special token after the content if that token ends generations, or ends the whole conversation. */

static bool is_assistant(const json_t *list, size_t i)
{
    const json_t *role = json_object_get(json_array_get(list, i), "role");
    return json_is_string(role) && strcmp(json_string_value(role), "assistant") == 0;
}

/* The first `count` messages, as a list of its own. */
static qlft_status first_messages(json_t **out, const json_t *list, size_t count)
{
    *out = json_array();
    bool failed = !*out;
    for (size_t k = 0; k < count && !failed; k++) failed = json_array_append(*out, json_array_get(list, k)) != 0;
    if (!failed) return QLFT_OK;
    json_decref(*out);
    *out = NULL;
    return status_fail(QLFT_ENOMEM, "out of memory for a conversation");
}

/* Length of the prompt of message `i` as it would be served, or `missing` if the conversation does not begin like that. */
static qlft_status prompt_bytes(size_t *out, size_t missing, const chat_text *whole, const json_t *list, size_t i, const json_t *object, const chat *c)
{
    json_t *before;
    chat_text prompt = {0};
    *out = missing;
    QLFT_TRY(first_messages(&before, list, i));
    qlft_status status = chat_render(&prompt, c, before, object, true);
    if (status == QLFT_OK && prompt.bytes <= missing && prompt.bytes <= whole->bytes && memcmp(prompt.text, whole->text, prompt.bytes) == 0)
        *out = prompt.bytes;
    /* A template may refuse a conversation that ends there (no user turn yet); the whole one it has taken. */
    if (status == QLFT_EFORMAT) status = QLFT_OK;
    chat_text_free(&prompt);
    json_decref(before);
    return status;
}

/* The bytes that message `i` says in the whole text, from the first piece to the last; false if it says nothing there. */
static bool said_by(row_span *out, const chat_text *whole, size_t i)
{
    bool found = false;
    for (size_t k = 0; k < whole->span_count; k++) {
        const chat_span *s = &whole->spans[k];
        if ((size_t)s->message != i) continue;
        if (!found) out->start = s->start;
        out->end = s->end;
        found = true;
    }
    return found;
}

static qlft_status put_turn(row_text *out, const chat_text *whole, const json_t *list, size_t i, const json_t *object, const chat *c)
{
    row_span said;
    bool found = said_by(&said, whole, i), asks = strstr(chat_source(c), "add_generation_prompt") != NULL;
    size_t start = found ? said.start : whole->bytes + 1;
    /* Without a generation prompt the rendering of what came before ends in front of the turn's own header. */
    if (asks) QLFT_TRY(prompt_bytes(&start, start, whole, list, i, object, c));
    if (!found && start > whole->bytes) return QLFT_OK;
    return row_text_span(out, start, found ? said.end : start);
}

qlft_status turns_render(row_text *out, const json_t *list, const json_t *object, size_t first, data_train_on train_on, const chat *c)
{
    chat_text whole = {0};
    qlft_status status = chat_render(&whole, c, list, object, false);
    if (status == QLFT_OK) status = row_text_put(out, whole.text, whole.bytes);
    for (size_t k = 0; k < whole.span_count && status == QLFT_OK; k++) status = row_text_said(out, whole.spans[k].start, whole.spans[k].end);
    out->flags = TOKENIZE_SPECIAL; /* the template writes BOS itself, as for transformers */
    out->turns = train_on != TRAIN_ON_ALL;
    if (status == QLFT_OK && train_on == TRAIN_ON_ALL) status = row_text_span(out, 0, whole.bytes);
    for (size_t i = first; i < json_array_size(list) && status == QLFT_OK && train_on != TRAIN_ON_ALL; i++)
        if (is_assistant(list, i)) status = put_turn(out, &whole, list, i, object, c);
    chat_text_free(&whole);
    return status;
}

qlft_status turns_prompt(row_text *out, const json_t *list, const json_t *object, const chat *c)
{
    size_t count = json_array_size(list);
    json_t *asked;
    chat_text prompt = {0};
    if (count > 0 && is_assistant(list, count - 1)) count--;
    if (count == 0) return status_fail(QLFT_EFORMAT, "the conversation has no message in front of the answer");
    QLFT_TRY(first_messages(&asked, list, count));
    qlft_status status = chat_render(&prompt, c, asked, object, true);
    if (status == QLFT_OK) status = row_text_put(out, prompt.text, prompt.bytes);
    for (size_t k = 0; k < prompt.span_count && status == QLFT_OK; k++) status = row_text_said(out, prompt.spans[k].start, prompt.spans[k].end);
    out->flags = TOKENIZE_SPECIAL;
    chat_text_free(&prompt);
    json_decref(asked);
    return status;
}

/* ---- ends of turns ---- */

enum { MAX_ENDS = 32 };

typedef struct turn_ends {
    int32_t ids[MAX_ENDS + 1];
    int count;
} turn_ends;

/* Nothing begins behind the last message: a special token that follows it ends a turn, even where no list says so. */
static void find_ends(turn_ends *ends, const row_text *t, const token_list *tokens, const tokenizer *tok)
{
    int count = tokenizer_stops(tok, ends->ids, MAX_ENDS);
    ends->count = count < MAX_ENDS ? count : MAX_ENDS;
    if (t->said_count == 0) return;
    size_t last = t->said[t->said_count - 1].end, at = tokens->count;
    while (at > 0 && tokens->items[at - 1].start >= last) at--;
    for (; at < tokens->count; at++) {
        if (!tokenizer_is_special(tok, tokens->items[at].id)) continue;
        ends->ids[ends->count++] = tokens->items[at].id;
        return;
    }
}

static bool is_end(const turn_ends *ends, int32_t id)
{
    for (int i = 0; i < ends->count; i++)
        if (ends->ids[i] == id) return true;
    return false;
}

bool turns_extend(row_text *t, const token_list *tokens, const tokenizer *tok)
{
    turn_ends ends;
    bool all = true;
    size_t at = 0, next_said = 0;
    find_ends(&ends, t, tokens, tok);
    for (size_t i = 0; i < t->span_count; i++) {
        size_t from = t->spans[i].end, limit = t->bytes;
        while (next_said < t->said_count && t->said[next_said].start < from) next_said++;
        /* An empty piece of this message may lie at its end; the next one's begins behind the header. */
        for (size_t k = next_said; k < t->said_count; k++) {
            if (t->said[k].start <= from) continue;
            limit = t->said[k].start;
            break;
        }
        while (at < tokens->count && tokens->items[at].start < from) at++;
        bool ended = false;
        for (size_t k = at; k < tokens->count && tokens->items[k].start < limit && !ended; k++) {
            if (!tokenizer_is_special(tok, tokens->items[k].id)) continue;
            ended = is_end(&ends, tokens->items[k].id);
            if (!ended) break;
            t->spans[i].end = tokens->items[k].end;
        }
        all &= ended;
    }
    return all;
}
