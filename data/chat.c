#include "data/chat.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEMPLATE_BYTES = 4 << 20, MAX_MESSAGES = 30000, MAX_NESTING = 64 };

/* Marks of the trace: 2 i + 1 for the content of message i, 2 i + 2 for what else it says (reasoning, tool calls). */
static int message_of(uint16_t mark)
{
    return (mark - 1) / 2;
}

struct chat {
    const tokenizer *tok;
    jinja_template *template_of;
    char *source;
    time_t now;
};

typedef struct origin_list {
    jinja_origin *items;
    size_t count, capacity;
} origin_list;

/* ---- opening ---- */
qlft_status chat_open(chat **out, const tokenizer *tok, const char *template_path)
{
    bool own = !template_path || strcmp(template_path, "auto") == 0;
    *out = NULL;
    if (own && (!tok || !tokenizer_chat_template(tok))) {
        return status_fail(QLFT_EUNSUPPORTED,
                           "the model has no chat template, which conversations need: name one with --template FILE, or use prompt and completion rows");
    }
    chat *c = calloc(1, sizeof *c);
    if (!c) return status_fail(QLFT_ENOMEM, "out of memory for a chat template");
    size_t bytes = 0;
    qlft_status status = QLFT_OK;
    c->tok = tok;
    c->now = time(NULL);
    if (own) {
        c->source = strdup(tokenizer_chat_template(tok));
        if (!c->source) {
            status = status_fail(QLFT_ENOMEM, "out of memory for a chat template");
        } else {
            bytes = strlen(c->source);
        }
    } else {
        status = file_read_text(&c->source, &bytes, template_path, MAX_TEMPLATE_BYTES);
    }
    if (status == QLFT_OK) status = jinja_compile(&c->template_of, c->source, bytes, own ? "the model's chat template" : template_path);
    if (status != QLFT_OK) {
        chat_close(c);
        return status;
    }
    *out = c;
    return QLFT_OK;
}

void chat_close(chat *c)
{
    if (!c) return;
    jinja_free(c->template_of);
    free(c->source);
    free(c);
}

const char *chat_source(const chat *c)
{
    return c->source;
}

void chat_text_free(chat_text *t)
{
    free(t->text);
    free(t->spans);
    memset(t, 0, sizeof *t);
}

/* ---- what is traced ---- */
static qlft_status add_origin(origin_list *list, const json_t *string, int mark)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        jinja_origin *items = realloc(list->items, capacity * sizeof *items);
        if (!items) return status_fail(QLFT_ENOMEM, "out of memory for %zu strings of a conversation", capacity);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count].string = string;
    list->items[list->count++].mark = (uint16_t)mark;
    return QLFT_OK;
}

static qlft_status add_strings(origin_list *list, const json_t *value, int mark, int depth)
{
    if (json_is_string(value)) return add_origin(list, value, mark);
    if (depth > MAX_NESTING) return status_fail(QLFT_EFORMAT, "message %d: nested more than %d deep", message_of((uint16_t)mark) + 1, MAX_NESTING);
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) QLFT_TRY(add_strings(list, json_array_get(value, i), mark, depth + 1));
    json_t *object = (json_t *)value, *item; /* jansson's iteration takes no const */
    const char *key;
    json_object_foreach(object, key, item) QLFT_TRY(add_strings(list, item, mark, depth + 1));
    return QLFT_OK;
}

static qlft_status trace_messages(origin_list *list, const json_t *messages)
{
    static const char *const others[] = {"reasoning_content", "reasoning", "thinking", "tool_calls"};
    size_t count = json_array_size(messages);
    if (!json_is_array(messages)) return status_fail(QLFT_EFORMAT, "the messages are not a list");
    if (count > MAX_MESSAGES) return status_fail(QLFT_EFORMAT, "a conversation of %zu messages is too long: %d at most", count, MAX_MESSAGES);
    for (size_t i = 0; i < count; i++) {
        const json_t *message = json_array_get(messages, i);
        if (!json_is_string(json_object_get(message, "role"))) return status_fail(QLFT_EFORMAT, "message %zu has no role", i + 1);
        QLFT_TRY(add_strings(list, json_object_get(message, "content"), 2 * (int)i + 1, 0));
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) QLFT_TRY(add_strings(list, json_object_get(message, others[k]), 2 * (int)i + 2, 0));
    }
    return QLFT_OK;
}

/* ---- rendering ---- */
/* A special token's text as a variable; left out if the model has none, as transformers does. */
static int set_token(json_t *variables, const char *name, const tokenizer *tok, int32_t id)
{
    const char *text = tok && id >= 0 ? tokenizer_token(tok, id) : NULL;
    return text ? json_object_set_new(variables, name, json_string(text)) : 0;
}

static qlft_status set_list(json_t *variables, const char *name, const json_t *row)
{
    json_t *list = json_object_get(row, name);
    if (list && !json_is_null(list) && !json_is_array(list)) return status_fail(QLFT_EFORMAT, "`%s` is not a list", name);
    int failed = list ? json_object_set(variables, name, list) : json_object_set_new(variables, name, json_null());
    return failed ? status_fail(QLFT_ENOMEM, "out of memory for a conversation") : QLFT_OK;
}

static qlft_status render(jinja_output *out, const chat *c, const json_t *messages, const json_t *row, bool generation_prompt, const origin_list *traced)
{
    json_t *variables = json_object();
    int failed = !variables || json_object_set(variables, "messages", (json_t *)messages) ||
                 json_object_set_new(variables, "add_generation_prompt", json_boolean(generation_prompt)) ||
                 set_token(variables, "bos_token", c->tok, c->tok ? tokenizer_bos(c->tok) : -1) ||
                 set_token(variables, "eos_token", c->tok, c->tok ? tokenizer_eos(c->tok) : -1);
    qlft_status status = failed ? status_fail(QLFT_ENOMEM, "out of memory for a conversation") : QLFT_OK;
    if (status == QLFT_OK) status = set_list(variables, "tools", row);
    if (status == QLFT_OK) status = set_list(variables, "documents", row);
    if (status == QLFT_OK) status = jinja_render(out, c->template_of, variables, traced ? traced->items : NULL, traced ? traced->count : 0, NULL, c->now);
    json_decref(variables);
    return status;
}

/* ---- spans ---- */
static int compare_spans(const void *a, const void *b)
{
    const chat_span *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* One span a stretch of bytes of one message; for a message with none, an empty one at the last place where it would stand. */
static qlft_status find_spans(chat_text *out, const jinja_output *rendered, size_t messages)
{
    size_t room = rendered->empty_count, count = 0;
    for (size_t i = 0; i < rendered->bytes; i++) room += rendered->origins[i] && (i == 0 || rendered->origins[i] != rendered->origins[i - 1]);
    chat_span *spans = calloc(room + 1, sizeof *spans);
    bool *seen = calloc(messages + 1, sizeof *seen);
    if (!spans || !seen) {
        free(spans);
        free(seen);
        return status_fail(QLFT_ENOMEM, "out of memory for %zu pieces of a conversation", room);
    }
    for (size_t i = 0; i < rendered->bytes; i++) {
        uint16_t mark = rendered->origins[i];
        if (!mark) continue;
        int message = message_of(mark);
        seen[message] = true;
        if (count && spans[count - 1].message == message && spans[count - 1].end == i) {
            spans[count - 1].end++;
        } else {
            spans[count++] = (chat_span){i, i + 1, message};
        }
    }
    for (size_t i = rendered->empty_count; i-- > 0;) {
        int message = message_of(rendered->empties[i].mark);
        if (seen[message]) continue;
        seen[message] = true;
        spans[count++] = (chat_span){rendered->empties[i].at, rendered->empties[i].at, message};
    }
    qsort(spans, count, sizeof *spans, compare_spans);
    free(seen);
    out->spans = spans;
    out->span_count = count;
    return QLFT_OK;
}

/* ---- checks ---- */
static bool is_blank(const char *text, size_t bytes)
{
    return text[strspn(text, " \t\r\n")] == 0 && strlen(text) == bytes;
}

/* How often the whole of `content`, trimmed, stands in the bytes that come from it. */
static int times_written(const jinja_output *rendered, const json_t *content, uint16_t mark)
{
    const char *text = json_string_value(content);
    size_t bytes = json_string_length(content);
    int times = 0;
    while (bytes && strchr(" \t\r\n", text[0]) && text[0]) text++, bytes--;
    while (bytes && strchr(" \t\r\n", text[bytes - 1]) && text[bytes - 1]) bytes--;
    for (size_t i = 0, end; bytes && i < rendered->bytes; i = end) {
        for (end = i; end < rendered->bytes && rendered->origins[end] == rendered->origins[i];) end++;
        if (rendered->origins[i] != mark) continue;
        for (const char *at = rendered->text + i; (at = memmem(at, (size_t)(rendered->text + end - at), text, bytes)); at += bytes) times++;
    }
    return times;
}

/* Whether the text is another one without what message `index` says: then the template took it for a switch ("/no_think") and did not lose it. */
static qlft_status check_matters(const chat *c, const json_t *messages, size_t index, const json_t *row, bool generation_prompt, const jinja_output *rendered)
{
    jinja_output other = {0};
    json_t *copy = json_deep_copy(messages);
    if (!copy) return status_fail(QLFT_ENOMEM, "out of memory for a conversation");
    json_t *message = json_array_get(copy, index);
    const char *role = json_string_value(json_object_get(message, "role"));
    qlft_status status = QLFT_OK;
    if (json_object_set_new(message, "content", json_string(""))) status = status_fail(QLFT_ENOMEM, "out of memory for a conversation");
    if (status == QLFT_OK) status = render(&other, c, copy, row, generation_prompt, NULL);
    bool same = status == QLFT_OK && other.bytes == rendered->bytes && memcmp(other.text, rendered->text, other.bytes) == 0;
    if (status == QLFT_EFORMAT) status = QLFT_OK; /* refused without it: it matters */
    if (same) {
        status = status_fail(
            QLFT_EFORMAT,
            "the chat template drops message %zu (%s): its content is nowhere in the text. Remove the message, or name another template with --template",
            index + 1, role);
    }
    jinja_output_free(&other);
    json_decref(copy);
    return status;
}

static qlft_status check_messages(const chat *c, const json_t *messages, const json_t *row, bool generation_prompt, const jinja_output *rendered)
{
    size_t count = json_array_size(messages);
    bool *written = calloc(count + 1, sizeof *written);
    if (!written) return status_fail(QLFT_ENOMEM, "out of memory for a conversation");
    qlft_status status = QLFT_OK;
    for (size_t i = 0; i < rendered->bytes; i++) {
        if (rendered->origins[i] & 1) written[message_of(rendered->origins[i])] = true;
    }
    for (size_t i = 0; i < count && status == QLFT_OK; i++) {
        const json_t *message = json_array_get(messages, i), *content = json_object_get(message, "content");
        const char *role = json_string_value(json_object_get(message, "role"));
        if (!json_is_string(content) || is_blank(json_string_value(content), json_string_length(content))) continue;
        bool assistant = strcmp(role, "assistant") == 0;
        if (!written[i] && assistant) {
            status = status_fail(
                QLFT_EFORMAT,
                "the chat template drops message %zu (%s): its content is nowhere in the text. Remove the message, or name another template with --template",
                i + 1, role);
        } else if (!written[i]) {
            status = check_matters(c, messages, i, row, generation_prompt, rendered);
        } else if (assistant && times_written(rendered, content, (uint16_t)(2 * i + 1)) > 1) {
            status = status_fail(QLFT_EFORMAT, "the chat template writes the content of message %zu (%s) more than once, so which one to learn is not clear",
                                 i + 1, role);
        }
    }
    free(written);
    return status;
}

qlft_status chat_render(chat_text *out, const chat *c, const json_t *messages, const json_t *row, bool generation_prompt)
{
    origin_list traced = {0};
    jinja_output rendered = {0};
    memset(out, 0, sizeof *out);
    qlft_status status = trace_messages(&traced, messages);
    if (status == QLFT_OK) status = render(&rendered, c, messages, row, generation_prompt, &traced);
    if (status == QLFT_OK) status = check_messages(c, messages, row, generation_prompt, &rendered);
    if (status == QLFT_OK) status = find_spans(out, &rendered, json_array_size(messages));
    if (status == QLFT_OK) {
        out->text = rendered.text;
        out->bytes = rendered.bytes;
        rendered.text = NULL;
    }
    jinja_output_free(&rendered);
    free(traced.items);
    return status;
}
