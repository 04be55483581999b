#include "data/formats.h"

#include <string.h>

#include "data/turns.h"

const char *format_name(data_format format)
{
    static const char *const names[] = {"auto", "text", "prompt", "alpaca", "sharegpt", "messages", "tokens"};
    return names[format];
}

const char *format_type(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_STRING] = "a string", [JSON_INTEGER] = "a number",
        [JSON_REAL] = "a number",    [JSON_TRUE] = "true",    [JSON_FALSE] = "false",     [JSON_NULL] = "null",
    };
    return value ? names[json_typeof(value)] : "missing";
}

/* ---- which format ---- */

/* In the order in which they are tried: all keys with values, then, so that a row with half of them is reported by the field it lacks, any of them. A null
 * is no value: sets made from tables have all columns in each row. */
static const struct {
    data_format format;
    const char *keys[2];
} formats[] = {
    {FORMAT_TOKENS, {"input_ids", NULL}},       {FORMAT_MESSAGES, {"messages", NULL}},     {FORMAT_SHAREGPT, {"conversations", NULL}},
    {FORMAT_ALPACA, {"instruction", "output"}}, {FORMAT_PROMPT, {"prompt", "completion"}}, {FORMAT_TEXT, {"text", NULL}},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static bool has_key(const json_t *object, const char *key)
{
    return key && json_object_get(object, key) != NULL;
}

static bool has_value(const json_t *object, const char *key)
{
    return has_key(object, key) && !json_is_null(json_object_get(object, key));
}

data_format format_detect(const json_t *object, data_format preferred)
{
    data_format all = FORMAT_AUTO, any = FORMAT_AUTO;
    for (int i = FORMATS - 1; i >= 0; i--) {
        const char *const *keys = formats[i].keys;
        if (has_key(object, keys[0]) || has_key(object, keys[1])) any = formats[i].format;
        if (!has_value(object, keys[0]) || (keys[1] && !has_value(object, keys[1]))) continue;
        all = formats[i].format;
        if (all == preferred) return preferred;
    }
    return all != FORMAT_AUTO ? all : any;
}

/* ---- fields ---- */

static qlft_status field(const json_t **out, const json_t *object, const char *key)
{
    *out = json_object_get(object, key);
    if (json_is_string(*out)) return QLFT_OK;
    if (!*out) return status_fail(QLFT_EFORMAT, "field \"%s\" is missing; a string is expected", key);
    return status_fail(QLFT_EFORMAT, "field \"%s\" is %s; a string is expected", key, format_type(*out));
}

static qlft_status put_string(row_text *out, const json_t *value)
{
    return row_text_put(out, json_string_value(value), json_string_length(value));
}

static qlft_status put_text(row_text *out, const char *text)
{
    return row_text_put(out, text, strlen(text));
}

/* ---- text, prompt ---- */

static qlft_status render_text(row_text *out, const json_t *object, const format_context *context)
{
    const json_t *text;
    QLFT_TRY(field(&text, object, "text"));
    QLFT_TRY(put_string(out, text));
    if (context->prompt_only) return QLFT_OK;
    out->end = true;
    return row_text_span(out, 0, out->bytes);
}

/* The answer: what is trained on, but for --train-on all. */
static qlft_status put_answer(row_text *out, const json_t *answer, const format_context *context)
{
    size_t start = context->train_on == TRAIN_ON_ALL ? 0 : out->bytes;
    QLFT_TRY(put_string(out, answer));
    out->end = true;
    return row_text_span(out, start, out->bytes);
}

/* ---- conversations ---- */

/* The content of a message as one string, yours: parts of the type text are joined without anything between. */
static qlft_status join_parts(json_t **out, const json_t *parts, size_t number)
{
    row_text joined = {0};
    qlft_status status = QLFT_OK;
    *out = NULL;
    for (size_t i = 0; i < json_array_size(parts) && status == QLFT_OK; i++) {
        const json_t *part = json_array_get(parts, i), *type = json_object_get(part, "type"), *text = json_object_get(part, "text");
        if (json_is_string(part))
            status = put_string(&joined, part);
        else if (!json_is_object(part))
            status = status_fail(QLFT_EFORMAT, "message %zu: part %zu of its content is %s", number, i + 1, format_type(part));
        else if (!json_is_string(type) || strcmp(json_string_value(type), "text") != 0)
            status = status_fail(QLFT_EFORMAT, "message %zu: part %zu of its content has the type \"%.60s\"; only \"text\" can be used", number, i + 1,
                                 json_is_string(type) ? json_string_value(type) : format_type(type));
        else if (!json_is_string(text))
            status = status_fail(QLFT_EFORMAT, "message %zu: \"text\" of part %zu is %s; a string is expected", number, i + 1, format_type(text));
        else
            status = put_string(&joined, text);
    }
    if (status == QLFT_OK) {
        *out = json_stringn(joined.text ? joined.text : "", joined.bytes);
        if (!*out) status = status_fail(QLFT_ENOMEM, "out of memory for a message");
    }
    row_text_free(&joined);
    return status;
}

static qlft_status content_string(json_t **out, json_t *content, const char *key, const json_t *message, size_t number)
{
    *out = NULL;
    if (json_is_array(content)) return join_parts(out, content, number);
    /* A turn that only calls tools says nothing. */
    bool calls = json_array_size(json_object_get(message, "tool_calls")) > 0;
    if (json_is_string(content))
        *out = json_incref(content);
    else if (calls && (!content || json_is_null(content)))
        *out = json_string("");
    else
        return status_fail(QLFT_EFORMAT, "message %zu: \"%s\" is %s; a string is expected", number, key, format_type(content));
    return *out ? QLFT_OK : status_fail(QLFT_ENOMEM, "out of memory for a message");
}

/* What data sets call the speakers, and what templates call them. */
static const struct {
    const char *said, *role;
} roles[] = {
    {"system", "system"},       {"user", "user"},         {"human", "user"},        {"assistant", "assistant"}, {"gpt", "assistant"},
    {"model", "assistant"},     {"bot", "assistant"},     {"chatgpt", "assistant"}, {"tool", "tool"},           {"observation", "tool"},
    {"developer", "developer"}, {"function", "function"}, {"ipython", "ipython"},
};

static const char *role_of(const char *said)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i].said, said) == 0) return roles[i].role;
    return NULL;
}

/* A message {"role", "content"} or {"from", "value"} with a plain string as content, appended to `list`; other members are kept for the template. */
static qlft_status add_message(json_t *list, json_t *message, size_t number)
{
    if (!json_is_object(message))
        return status_fail(QLFT_EFORMAT, "message %zu is %s; an object with role and content is expected", number, format_type(message));
    bool from = !has_key(message, "role") && has_key(message, "from");
    const char *role_key = from ? "from" : "role", *content_key = from && !has_key(message, "content") ? "value" : "content";
    const json_t *said = json_object_get(message, role_key);
    if (!json_is_string(said)) return status_fail(QLFT_EFORMAT, "message %zu: \"%s\" is %s; a string is expected", number, role_key, format_type(said));
    const char *role = role_of(json_string_value(said));
    if (!role)
        return status_fail(QLFT_EFORMAT, "message %zu has the unknown role \"%.60s\"; common ones are system, user, assistant and tool", number,
                           json_string_value(said));
    json_t *content, *copy = json_copy(message);
    qlft_status status = content_string(&content, json_object_get(message, content_key), content_key, message, number);
    if (status == QLFT_OK && (!copy || json_object_set_new(copy, "role", json_string(role)) != 0 || json_object_set(copy, "content", content) != 0 ||
                              json_array_append(list, copy) != 0))
        status = status_fail(QLFT_ENOMEM, "out of memory for a message");
    json_decref(content);
    json_decref(copy);
    return status;
}

static qlft_status add_messages(json_t *list, const json_t *object, const char *key)
{
    const json_t *messages = json_object_get(object, key);
    if (!json_is_array(messages)) return status_fail(QLFT_EFORMAT, "field \"%s\" is %s; a list of messages is expected", key, format_type(messages));
    for (size_t i = 0; i < json_array_size(messages); i++) QLFT_TRY(add_message(list, json_array_get(messages, i), i + 1));
    return QLFT_OK;
}

/* A turn of a row that is no conversation itself. */
static qlft_status add_turn(json_t *list, const char *role, json_t *content_taken)
{
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content_taken);
    if (!message || json_array_append_new(list, message) != 0) return status_fail(QLFT_ENOMEM, "out of memory for a message");
    return QLFT_OK;
}

/* Renders the list; the answers among the messages from `first` on (0-based) are targets. */
static qlft_status put_conversation(row_text *out, const json_t *list, const json_t *object, size_t first, const format_context *context)
{
    if (!context->template_of)
        return status_fail(QLFT_EARG,
                           "the model has no chat template, which conversations need: name one with --template FILE, or use prompt and completion rows");
    if (context->prompt_only) return turns_prompt(out, list, object, context->template_of);
    return turns_render(out, list, object, first, context->train_on, context->template_of);
}

static qlft_status with_list(row_text *out, const json_t *object, const format_context *context,
                             qlft_status (*fill)(json_t *list, const json_t *object, size_t *first))
{
    json_t *list = json_array();
    size_t first = 0;
    if (!list) return status_fail(QLFT_ENOMEM, "out of memory for a conversation");
    qlft_status status = fill(list, object, &first);
    if (status == QLFT_OK && json_array_size(list) == 0) status = status_fail(QLFT_EFORMAT, "the conversation has no message");
    if (status == QLFT_OK) status = put_conversation(out, list, object, first, context);
    json_decref(list);
    return status;
}

static qlft_status fill_messages(json_t *list, const json_t *object, size_t *first)
{
    (void)first;
    return add_messages(list, object, "messages");
}

static qlft_status fill_sharegpt(json_t *list, const json_t *object, size_t *first)
{
    (void)first;
    json_t *system = json_object_get(object, "system");
    if (system && !json_is_null(system)) {
        const json_t *checked;
        QLFT_TRY(field(&checked, object, "system"));
        if (json_string_length(system) > 0) QLFT_TRY(add_turn(list, "system", json_incref(system)));
    }
    return add_messages(list, object, "conversations");
}

static qlft_status fill_prompt(json_t *list, const json_t *object, size_t *first)
{
    QLFT_TRY(add_messages(list, object, "prompt"));
    *first = json_array_size(list);
    return has_value(object, "completion") ? add_messages(list, object, "completion") : QLFT_OK;
}

static qlft_status render_messages(row_text *out, const json_t *object, const format_context *context)
{
    return with_list(out, object, context, fill_messages);
}

static qlft_status render_sharegpt(row_text *out, const json_t *object, const format_context *context)
{
    return with_list(out, object, context, fill_sharegpt);
}

static qlft_status render_prompt(row_text *out, const json_t *object, const format_context *context)
{
    const json_t *prompt, *completion;
    if (json_is_array(json_object_get(object, "prompt")) && (context->prompt_only || json_is_array(json_object_get(object, "completion"))))
        return with_list(out, object, context, fill_prompt);
    QLFT_TRY(field(&prompt, object, "prompt"));
    if (context->prompt_only) return put_string(out, prompt);
    QLFT_TRY(field(&completion, object, "completion"));
    QLFT_TRY(put_string(out, prompt));
    return put_answer(out, completion, context);
}

/* ---- alpaca ---- */

static qlft_status alpaca_fields(const json_t **instruction, const json_t **input, const json_t **output, const json_t *object, bool prompt_only)
{
    QLFT_TRY(field(instruction, object, "instruction"));
    *output = NULL; /* where only the prompt is wanted */
    if (!prompt_only) QLFT_TRY(field(output, object, "output"));
    *input = json_object_get(object, "input");
    if (json_is_null(*input)) *input = NULL;
    if (*input) QLFT_TRY(field(input, object, "input"));
    if (*input && json_string_length(*input) == 0) *input = NULL;
    return QLFT_OK;
}

static qlft_status fill_alpaca(json_t *list, const json_t *object, size_t *first)
{
    const json_t *instruction, *input, *output;
    (void)first;
    QLFT_TRY(alpaca_fields(&instruction, &input, &output, object, !has_value(object, "output")));
    row_text asked = {0};
    qlft_status status = put_string(&asked, instruction);
    if (status == QLFT_OK && input) status = put_text(&asked, "\n\n");
    if (status == QLFT_OK && input) status = put_string(&asked, input);
    if (status == QLFT_OK) status = add_turn(list, "user", json_stringn(asked.text ? asked.text : "", asked.bytes));
    if (status == QLFT_OK && output) status = add_turn(list, "assistant", json_stringn(json_string_value(output), json_string_length(output)));
    row_text_free(&asked);
    return status;
}

/* The prompts of tatsu-lab/stanford_alpaca, train.py, PROMPT_DICT, to the byte. */
static qlft_status render_alpaca(row_text *out, const json_t *object, const format_context *context)
{
    const json_t *instruction, *input, *output;
    QLFT_TRY(alpaca_fields(&instruction, &input, &output, object, context->prompt_only));
    if (context->template_of) return with_list(out, object, context, fill_alpaca);
    QLFT_TRY(put_text(out, input ? "Below is an instruction that describes a task, paired with an input that provides further context. "
                                   "Write a response that appropriately completes the request.\n\n### Instruction:\n"
                                 : "Below is an instruction that describes a task. "
                                   "Write a response that appropriately completes the request.\n\n### Instruction:\n"));
    QLFT_TRY(put_string(out, instruction));
    if (input) {
        QLFT_TRY(put_text(out, "\n\n### Input:\n"));
        QLFT_TRY(put_string(out, input));
    }
    QLFT_TRY(put_text(out, "\n\n### Response:"));
    return context->prompt_only ? QLFT_OK : put_answer(out, output, context);
}

/* ---- rendering ---- */

qlft_status format_render(row_text *out, data_format format, const json_t *object, const format_context *context)
{
    static qlft_status (*const render[])(row_text *, const json_t *, const format_context *) = {
        [FORMAT_TEXT] = render_text,         [FORMAT_PROMPT] = render_prompt,     [FORMAT_ALPACA] = render_alpaca,
        [FORMAT_SHAREGPT] = render_sharegpt, [FORMAT_MESSAGES] = render_messages,
    };
    out->flags = TOKENIZE_ADD | TOKENIZE_SPECIAL;
    return render[format](out, object, context);
}
