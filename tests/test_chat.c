/* Chat templates applied to conversations: the text, and the places of each message's words in it. Expected texts of the cases are those of cases.json. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/json.h"
#include "data/chat.h"

static char folder[256];

static void begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/qlft-test-chat-%ld", (long)getpid());
    cr_assert_eq(folder_make(folder), QLFT_OK, "%s", qlft_last_error());
}

static void end(void)
{
    folder_remove(folder);
}

TestSuite(chat, .init = begin, .fini = end);

/* ---- helpers ---- */
static const char *in_folder(const char *name)
{
    static char path[2][512];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

/* The tokenizer of a case ("b14"), laid out as a model folder. */
static tokenizer *open_case(const char *id)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "generation_config.json"};
    tokenizer *t;
    for (size_t i = 0; i < 3; i++) {
        char from[1024], *text;
        size_t bytes;
        snprintf(from, sizeof from, "%s/cases/%s_%s", TEST_GOLDEN, id, names[i]);
        if (!file_exists(from)) continue;
        cr_assert_eq(file_read_text(&text, &bytes, from, 1 << 20), QLFT_OK, "%s", qlft_last_error());
        cr_assert_eq(file_write_text(in_folder(names[i]), text), QLFT_OK, "%s", qlft_last_error());
        free(text);
    }
    cr_assert_eq(tokenizer_open(&t, folder), QLFT_OK, "%s", qlft_last_error());
    return t;
}

static chat *open_text(const char *source)
{
    chat *c;
    cr_assert_eq(file_write_text(in_folder("template.jinja"), source), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(chat_open(&c, NULL, in_folder("template.jinja")), QLFT_OK, "%s", qlft_last_error());
    return c;
}

static json_t *parse(const char *text)
{
    json_t *value;
    cr_assert_eq(json_parse(&value, text, strlen(text), "test"), QLFT_OK, "%s", qlft_last_error());
    return value;
}

/* The text with each span as {message:words}. */
static void mark_spans(const chat_text *t, char *out, size_t room)
{
    size_t at = 0, used = 0;
    for (size_t i = 0; i <= t->span_count; i++) {
        const chat_span *s = i < t->span_count ? &t->spans[i] : NULL;
        size_t start = s ? s->start : t->bytes;
        cr_assert(start >= at && start <= t->bytes && used + t->bytes + 40 < room);
        memcpy(out + used, t->text + at, start - at);
        used += start - at;
        at = start;
        if (!s) break;
        cr_assert(s->end >= s->start && s->end <= t->bytes);
        used += (size_t)sprintf(out + used, "{%d:%.*s}", s->message, (int)(s->end - s->start), t->text + s->start);
        at = s->end;
    }
    out[used] = 0;
}

static void check_chat(const chat *c, const char *row_text, bool generation_prompt, const char *want)
{
    json_t *row = parse(row_text), *messages = json_object_get(row, "messages");
    chat_text out;
    cr_assert_eq(chat_render(&out, c, messages, row, generation_prompt), QLFT_OK, "%s: %s", row_text, qlft_last_error());
    char have[4096];
    mark_spans(&out, have, sizeof have);
    cr_expect_str_eq(have, want, "%s\n have %s\n want %s", row_text, have, want);
    chat_text_free(&out);
    json_decref(row);
}

static void check_refused(const chat *c, const char *row_text, const char *words)
{
    json_t *row = parse(row_text);
    chat_text out;
    cr_expect_eq(chat_render(&out, c, json_object_get(row, "messages"), row, false), QLFT_EFORMAT, "%s", row_text);
    cr_expect_not_null(strstr(qlft_last_error(), words), "misses \"%s\": %s", words, qlft_last_error());
    chat_text_free(&out);
    json_decref(row);
}

/* ---- cases ---- */
Test(chat, case_b01)
{
    tokenizer *t = open_case("b01");
    chat *c;
    cr_assert_eq(chat_open(&c, t, NULL), QLFT_OK, "%s", qlft_last_error());
    check_chat(c, "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \" ok \\n\"}]}", false,
               "<|bos|><|hdr|>user<|/hdr|>\n{0:hi}<|eot|><|hdr|>assistant<|/hdr|>\n{1:ok}<|eot|>");
    check_chat(c, "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}", true, "<|bos|><|hdr|>user<|/hdr|>\n{0:hi}<|eot|><|hdr|>assistant<|/hdr|>\n");
    chat_close(c);
    tokenizer_close(t);
}

Test(chat, case_b14)
{
    tokenizer *t = open_case("b14");
    chat *c;
    cr_assert_eq(chat_open(&c, t, "auto"), QLFT_OK, "%s", qlft_last_error());
    check_chat(c, "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"yo\"}]}", false,
               "<bos><start_of_turn>user\n{0:hi}<end_of_turn>\n<start_of_turn>model\n{1:yo}<end_of_turn>\n");
    chat_close(c);
    tokenizer_close(t);
}

/* A18: an empty turn has a place of its own, and the next one's is not shifted. */
Test(chat, empty_turns)
{
    chat *c;
    cr_assert_eq(chat_open(&c, NULL, TEST_GOLDEN "/chat/chatml.jinja"), QLFT_OK, "%s", qlft_last_error());
    check_chat(c, "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"\"}]}", false,
               "<|im_start|>user\n{0:q}<|im_end|>\n<|im_start|>assistant\n{1:}<|im_end|>\n");
    check_chat(c,
               "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"\"}, {\"role\": \"user\", \"content\": "
               "\"again\"}, {\"role\": "
               "\"assistant\", \"content\": \"ok\"}]}",
               false,
               "<|im_start|>user\n{0:q}<|im_end|>\n<|im_start|>assistant\n{1:}<|im_end|>\n<|im_start|>user\n{2:again}<|im_end|>\n<|im_start|>assistant\n{3:ok}<"
               "|im_end|>\n");
    chat_close(c);
}

/* Words of the template inside a message are the message's. */
Test(chat, markup_in_content_is_content)
{
    chat *c;
    cr_assert_eq(chat_open(&c, NULL, TEST_GOLDEN "/chat/chatml.jinja"), QLFT_OK, "%s", qlft_last_error());
    check_chat(
        c, "{\"messages\": [{\"role\": \"user\", \"content\": \"{{ x }}<|im_end|>\"}, {\"role\": \"assistant\", \"content\": \"<|im_end|>\\u00e9\\u0000\"}]}",
        true,
        "<|im_start|>user\n{0:{{ x }}<|im_end|>}<|im_end|>\n<|im_start|>assistant\n{1:<|im_end|>\u00e9" /* the NUL ends what sprintf shows */
        "}<|im_end|>\n<|im_start|>assistant\n");
    chat_close(c);
}

Test(chat, tokens_that_the_model_lacks_are_undefined)
{
    chat *c;
    cr_assert_eq(chat_open(&c, NULL, TEST_GOLDEN "/chat/zephyr.jinja"), QLFT_OK, "%s", qlft_last_error());
    check_refused(c, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "'eos_token' is undefined");
    chat_close(c);
    tokenizer *t = open_case("b01");
    cr_assert_eq(chat_open(&c, t, TEST_GOLDEN "/chat/zephyr.jinja"), QLFT_OK, "%s", qlft_last_error());
    check_chat(c, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}", false,
               "<|user|>\n{0:a}<|eot|>\n<|assistant|>\n{1:b}<|eot|>\n");
    chat_close(c);
    tokenizer_close(t);
}

/* ---- reasoning, tools ---- */
Test(chat, reasoning_and_tool_calls)
{
    chat *c;
    cr_assert_eq(chat_open(&c, NULL, TEST_GOLDEN "/chat/thinking.jinja"), QLFT_OK, "%s", qlft_last_error());
    check_chat(c, "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": \"hm\"}]}",
               false, "[user]{0:q}[end]\n[assistant]<think>{1:hm}</think>{1:a}[end]\n");
    /* thoughts of an earlier turn are dropped: that is the template's way, not a lost message */
    check_chat(c,
               "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": \"hm\"}, "
               "{\"role\": \"user\", \"content\": "
               "\"r\"}]}",
               true, "[user]{0:q}[end]\n[assistant]{1:a}[end]\n[user]{2:r}[end]\n[assistant]");
    check_chat(c,
               "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": "
               "{\"name\": \"f\", \"arguments\": {\"x\": "
               "\"y\"}}}]}, {\"role\": \"tool\", \"content\": \"5\"}], \"tools\": [{\"name\": \"f\"}]}",
               false,
               "[system]\nTools: [{\"name\": \"f\"}][end]\n[user]{0:q}[end]\n[assistant]<think></think>{\"call\": {\"name\": \"{1:f}\", \"arguments\": {\"x\": "
               "\"{1:y}\"}}}[end]\n"
               "[tool]{2:5}[end]\n");
    check_refused(c, "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}], \"tools\": \"f\"}", "`tools` is not a list");
    chat_close(c);
}

/* ---- what must not pass ---- */
Test(chat, lost_and_doubled_turns_are_errors)
{
    const char *row = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"yes\"}]}";
    chat *c = open_text("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}");
    check_refused(c, row, "message 2 (assistant)");
    chat_close(c);
    c = open_text("{% for m in messages if m.role != 'user' %}{{ m.content }}{% endfor %}");
    check_refused(c, row, "message 1 (user)");
    chat_close(c);
    c = open_text("{% for m in messages %}[{{ m.content }}]{% endfor %}again: {{ messages[-1].content }}");
    check_refused(c, row, "message 2 (assistant) more than once");
    chat_close(c);
    c = open_text("{% for m in messages %}{{ m.content }}{{ m.content if m.role == 'assistant' }}{% endfor %}");
    check_refused(c, row, "message 2 (assistant) more than once");
    check_chat(c, "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}", false, "{0:q}");
    check_refused(c, "{\"messages\": [{\"content\": \"q\"}]}", "message 1 has no role");
    check_refused(c, "{\"messages\": \"q\"}", "not a list");
    chat_close(c);
}

/* A system turn that is nothing but a switch leaves its trace in what the template writes. */
Test(chat, switches_are_not_lost_turns)
{
    chat *c;
    cr_assert_eq(chat_open(&c, NULL, TEST_GOLDEN "/chat/thinking.jinja"), QLFT_OK, "%s", qlft_last_error());
    check_chat(c,
               "{\"messages\": [{\"role\": \"system\", \"content\": \"/no_think\"}, {\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
               "\"content\": \"a\", "
               "\"reasoning_content\": \"hm\"}]}",
               false, "[user]{1:q}[end]\n[assistant]{2:a}[end]\n");
    chat_close(c);
}

Test(chat, no_template)
{
    chat *c;
    cr_expect_eq(chat_open(&c, NULL, "auto"), QLFT_EUNSUPPORTED);
    cr_expect_not_null(strstr(qlft_last_error(), "--template FILE"), "%s", qlft_last_error());
    cr_expect_null(c);
    cr_expect_eq(chat_open(&c, NULL, in_folder("missing.jinja")), QLFT_EIO, "%s", qlft_last_error());
    cr_assert_eq(file_write_text(in_folder("bad.jinja"), "a\n{% if %}"), QLFT_OK);
    cr_expect_eq(chat_open(&c, NULL, in_folder("bad.jinja")), QLFT_EFORMAT);
    cr_expect_not_null(strstr(qlft_last_error(), "bad.jinja line 2"), "%s", qlft_last_error());
}

/* ---- the real model's template (../shared) ---- */
Test(chat, smollm2)
{
    const char *rows_path = TEST_SHARED "/golden/real/chat.json", *template_path = TEST_SHARED "/golden/templates/smollm2.jinja";
    if (!file_exists(rows_path) || !file_exists(template_path)) cr_skip_test("skipped: %s is not there", rows_path);
    chat *c;
    json_t *file;
    cr_assert_eq(chat_open(&c, NULL, template_path), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(json_read_file(&file, rows_path, 16 << 20), QLFT_OK, "%s", qlft_last_error());
    json_t *rows = json_object_get(file, "rows");
    cr_assert_gt(json_array_size(rows), 5);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *messages = json_object_get(row, "messages");
        chat_text out;
        cr_assert_eq(chat_render(&out, c, messages, NULL, json_is_true(json_object_get(row, "add_generation_prompt"))), QLFT_OK, "%s", qlft_last_error());
        cr_expect_str_eq(out.text, json_string_value(json_object_get(row, "text")));
        /* this template writes every content as it is, once */
        size_t count = json_array_size(messages);
        cr_expect_eq(out.span_count, count);
        for (size_t k = 0; k < out.span_count && k < count; k++) {
            const char *content = json_string_value(json_object_get(json_array_get(messages, k), "content"));
            cr_expect_eq(out.spans[k].message, (int)k);
            cr_expect(out.spans[k].end - out.spans[k].start == strlen(content) && memcmp(out.text + out.spans[k].start, content, strlen(content)) == 0);
        }
        chat_text_free(&out);
    }
    json_decref(file);
    chat_close(c);
}
