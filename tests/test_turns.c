/* Conversations of every format to text, ids and labels. Expected values are those of cases.json, written out; the tokenizers are the cases' own. */
#include "kept_rows.h"

TestSuite(chat_rows, .init = test_begin, .fini = test_end);

/* The targets of a row in case B14's tokenizer, which has a token a byte (id - 5) and <end_of_turn> (4), shown as '|'; others as '?'. */
static const char *targets_text(const kept_row *r)
{
    static char text[256];
    size_t used = 0;
    for (size_t i = 1; i < r->count && used + 1 < sizeof text; i++)
        if (r->labels[i] != -100) text[used++] = r->labels[i] == 4 ? '|' : r->labels[i] >= 5 ? (char)(r->labels[i] - 5) : '?';
    text[used] = '\0';
    return text;
}

#define TURN(role, content) "<start_of_turn>" role "\n" content "<end_of_turn>\n"

Test(chat_rows, a11_sharegpt)
{
    tokenizer *t = open_case("b14");
    kept_rows rows;
    read_rows(&rows, t, case_path("a11_sharegpt.jsonl"), no_options);
    cr_assert_eq(rows.count, 4);
    ASSERT_TEXT(&rows.row[0], "<bos>" TURN("system", "Be brief.") TURN("user", "one?") TURN("model", "1") TURN("user", "two?") TURN("model", "2"));
    ASSERT_TEXT(&rows.row[1], "<bos>" TURN("system", "Be brief.") TURN("user", "three?") TURN("model", "3"));
    ASSERT_TEXT(&rows.row[2], "<bos>" TURN("user", "four?") TURN("model", "4"));
    cr_assert_str_eq(targets_text(&rows.row[0]), "1|2|");
    cr_assert_str_eq(targets_text(&rows.row[1]), "3|");
    cr_assert_str_eq(targets_text(&rows.row[2]), "4|");
    cr_assert(rows.row[3].bad);
    cr_assert_eq(rows.row[3].line, 4);
    cr_assert(strstr(rows.row[3].error, "narrator"), "%s", rows.row[3].error);
    free_rows(&rows);
    tokenizer_close(t);
}

Test(chat_rows, a13_content_parts)
{
    tokenizer *t = open_case("b14");
    kept_rows rows;
    read_rows(&rows, t, case_path("a13_content_parts.jsonl"), no_options);
    cr_assert_eq(rows.count, 5);
    for (int i = 0; i < 2; i++) {
        assert_ids(rows.row[i].ids, rows.row[i].count, rows.row[4].ids, rows.row[4].count);
        assert_ids(rows.row[i].labels, rows.row[i].count, rows.row[4].labels, rows.row[4].count);
    }
    cr_assert_str_eq(targets_text(&rows.row[4]), "Hi|");
    cr_assert(rows.row[2].bad);
    cr_assert(strstr(rows.row[2].error, "image_url"), "%s", rows.row[2].error);
    ASSERT_TEXT(&rows.row[3], "<bos>" TURN("user", "") TURN("model", "Hi"));
    cr_assert_str_eq(targets_text(&rows.row[3]), "Hi|");
    free_rows(&rows);
    tokenizer_close(t);
}

Test(chat_rows, a14_last_of_equal_keys)
{
    tokenizer *t = open_case("b14");
    kept_rows rows;
    read_rows(&rows, t, case_path("a14_duplicate_keys.jsonl"), no_options);
    ASSERT_TEXT(&rows.row[0], "second");
    ASSERT_TEXT(&rows.row[1], "<bos>" TURN("user", "a") TURN("model", "c"));
    cr_assert_str_eq(targets_text(&rows.row[1]), "c|");
    free_rows(&rows);
    tokenizer_close(t);
}

Test(chat_rows, a18_empty_turns)
{
    tokenizer *t = open_case("b14");
    const char *path = case_path("a18_empty_turns.jsonl");
    kept_rows rows;
    read_rows(&rows, t, path, no_options);
    cr_assert_str_eq(targets_text(&rows.row[0]), "|");
    cr_assert_str_eq(targets_text(&rows.row[1]), "|ok|");
    cr_assert_str_eq(targets_text(&rows.row[2]), "?"); /* EOS */
    free_rows(&rows);
    data_options o = {.paths = &path, .path_count = 1};
    dataset *s;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_OK);
    cr_assert_eq(dataset_size(s), 3);
    cr_assert_eq(dataset_counts(s).unsupervised, 1);
    cr_assert_eq(dataset_counts(s).supervised, 1 + 4 + 1);
    dataset_close(s);
    tokenizer_close(t);
}

Test(chat_rows, b01_template_writes_bos)
{
    tokenizer *t = open_case("b01");
    kept_rows rows;
    read_rows(&rows, t, case_path("b01_rows.jsonl"), no_options);
    ASSERT_TEXT(&rows.row[0], "<|bos|><|hdr|>user<|/hdr|>\nhi<|eot|><|hdr|>assistant<|/hdr|>\nok<|eot|>");
    ASSERT_IDS(rows.row[0].ids, rows.row[0].count, 258, 260, 117, 115, 101, 114, 261, 10, 256, 262, 260, 97, 115, 115, 105, 115, 116, 97, 110, 116, 261, 10,
               257, 262);
    ASSERT_IDS(rows.row[0].labels, rows.row[0].count, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100,
               -100, -100, -100, -100, -100, 257, 262);
    free_rows(&rows);
    tokenizer_close(t);
}

Test(chat_rows, b14_end_of_turn_is_learned_under_any_limit)
{
    tokenizer *t = open_case("b14");
    const int64_t limits[] = {0, 8192, 22};
    for (int i = 0; i < 3; i++) {
        data_options o = {.max_tokens = limits[i]};
        kept_rows rows;
        read_rows(&rows, t, case_path("b14_rows.jsonl"), o);
        ASSERT_TEXT(&rows.row[0], "<bos><start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\nyo<end_of_turn>\n");
        ASSERT_IDS(rows.row[0].ids, rows.row[0].count, 2, 3, 122, 120, 106, 119, 15, 109, 110, 4, 15, 3, 114, 116, 105, 106, 113, 15, 126, 116, 4, 15);
        ASSERT_IDS(rows.row[0].labels, rows.row[0].count, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100,
                   -100, 126, 116, 4, -100);
        free_rows(&rows);
    }
    tokenizer_close(t);
}

Test(chat_rows, other_forms_of_conversations)
{
    tokenizer *t = open_case("b14");
    kept_rows rows;
    read_rows(
        &rows, t,
        write_text(
            "forms.jsonl",
            /* 0: prompt and completion as messages: the prompt's answers are no targets */
            "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\"}], "
            "\"completion\": [{\"role\": \"assistant\", \"content\": \"d\"}]}\n"
            /* 1, 2: alpaca by the template */
            "{\"instruction\": \"i\", \"output\": \"o\"}\n"
            "{\"instruction\": \"i\", \"input\": \"n\", \"output\": \"o\"}\n"
            /* 3: no answer */
            "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"
            /* 4: the text of a special token inside a message is that token, as with transformers */
            "{\"messages\": [{\"role\": \"user\", \"content\": \"a<eos>\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n"),
        no_options);
    cr_assert_str_eq(targets_text(&rows.row[0]), "d|");
    ASSERT_TEXT(&rows.row[1], "<bos>" TURN("user", "i") TURN("model", "o"));
    ASSERT_TEXT(&rows.row[2], "<bos>" TURN("user", "i\n\nn") TURN("model", "o"));
    cr_assert_str_eq(targets_text(&rows.row[2]), "o|");
    cr_assert_eq(targets_of(&rows.row[3]), 0);
    cr_assert_eq(rows.row[4].ids[8], 1);
    cr_assert_str_eq(targets_text(&rows.row[4]), "b|");
    free_rows(&rows);
    const char *path = test_path("forms.jsonl");
    data_options o = {.paths = &path, .path_count = 1};
    dataset *s;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_OK);
    cr_assert_eq(dataset_counts(s).unsupervised, 1);
    cr_assert_eq(dataset_counts(s).marked, 1);
    dataset_close(s);
    tokenizer_close(t);
}

Test(chat_rows, bad_conversations_are_named)
{
    static const struct {
        const char *row, *said[2];
    } bad[] = {
        {"{\"messages\": 3}", {"\"messages\"", "a number"}},
        {"{\"messages\": []}", {"no message", ""}},
        {"{\"messages\": [\"x\"]}", {"message 1", "a string"}},
        {"{\"messages\": [{\"content\": \"x\"}]}", {"\"role\"", "missing"}},
        {"{\"messages\": [{\"role\": 1, \"content\": \"x\"}]}", {"\"role\"", "a number"}},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\"}]}", {"message 2: \"content\"", "missing"}},
        {"{\"messages\": [{\"role\": \"user\", \"content\": null}]}", {"message 1: \"content\"", "null"}},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": 3}]}]}", {"part 1", "a number"}},
        {"{\"conversations\": [{\"from\": \"human\", \"value\": {}}]}", {"\"value\"", "an object"}},
        {"{\"system\": 3, \"conversations\": [{\"from\": \"human\", \"value\": \"x\"}]}", {"\"system\"", "a number"}},
    };
    tokenizer *t = open_case("b14");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kept_rows rows;
        read_rows(&rows, t, write_text("bad.jsonl", bad[i].row), no_options);
        cr_assert_eq(rows.count, 1);
        cr_assert(rows.row[0].bad, "%s", bad[i].row);
        for (int k = 0; k < 2; k++) cr_assert(strstr(rows.row[0].error, bad[i].said[k]), "%s: %s", bad[i].row, rows.row[0].error);
        free_rows(&rows);
    }
    tokenizer_close(t);
}

Test(chat_rows, without_a_template_the_remedy_is_named)
{
    tokenizer *t = open_case("b10");
    const char *path = case_path("b14_rows.jsonl");
    data_options o = {.paths = &path, .path_count = 1};
    dataset *s;
    cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_EARG);
    assert_message("--template");
    tokenizer_close(t);
}

/* What an answer is made of by the template, and what ends it, is found from how the template renders; these templates were written for this test. */
Test(chat_rows, turns_begin_and_end_where_generation_does)
{
    static const struct {
        const char *of, *source, *targets;
    } templates[] = {
        /* a thinking block that the model has to write itself stands behind the generation prompt */
        {"b14",
         "{%- for m in messages %}{{- '<start_of_turn>' + m.role + '\\n' }}{%- if m.role == 'assistant' %}{{- '<t>\\n</t>' }}{%- endif %}"
         "{{- m.content + '<end_of_turn>\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<start_of_turn>assistant\\n' }}{%- endif %}",
         "<t>\n</t>A|<t>\n</t>B|"},
        /* a space between the answer and its end */
        {"b14", "{%- for m in messages %}{{- m.role + ': ' + m.content + ' <end_of_turn>' }}{%- endfor %}", "A |B |"},
        /* nothing ends an answer: what begins the next turn is not its end */
        {"b14", "{%- for m in messages %}{{- '<start_of_turn>' + m.role + ':' + m.content }}{%- endfor %}", "AB"},
        {"b14", "{%- for m in messages %}{{- m.role + ': ' + m.content + '\\n' }}{%- endfor %}", "AB"},
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        tokenizer *t = open_case(templates[i].of);
        data_options o = {.template_path = write_text("t.jinja", templates[i].source)};
        kept_rows rows;
        read_rows(&rows, t,
                  write_text("turns.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"A\"}, "
                                            "{\"role\": \"user\", \"content\": \"r\"}, {\"role\": \"assistant\", \"content\": \"B\"}]}"),
                  o);
        cr_assert(!rows.row[0].bad, "%s", rows.row[0].error);
        cr_assert_str_eq(targets_text(&rows.row[0]), templates[i].targets, "template %zu: %s", i, targets_text(&rows.row[0]));
        free_rows(&rows);
        const char *path = test_path("turns.jsonl");
        o.paths = &path;
        o.path_count = 1;
        dataset *s;
        test_log[0] = '\0';
        cr_assert_eq(dataset_open(&s, &o, t, NULL, NULL, NULL), QLFT_OK);
        cr_assert_eq(strstr(test_log, "where to stop") != NULL, strchr(templates[i].targets, '|') == NULL, "%s", test_log);
        dataset_close(s);
        tokenizer_close(t);
    }
}

/* The token that ends the conversation ends its turns, also where no list of stop tokens says so. */
Test(chat_rows, end_of_turn_without_a_list)
{
    tokenizer *t = open_case("b14");
    tokenizer_close(t);
    cr_assert_eq(unlink(test_path("b14/generation_config.json")), 0);
    cr_assert_eq(tokenizer_open(&t, test_path("b14")), QLFT_OK);
    kept_rows rows;
    read_rows(&rows, t, case_path("b14_rows.jsonl"), no_options);
    cr_assert_str_eq(targets_text(&rows.row[0]), "yo|");
    free_rows(&rows);
    tokenizer_close(t);
}

Test(chat_rows, prompts_for_generation)
{
    tokenizer *t = open_case("b01");
    data_options o = {.prompt_only = true};
    kept_rows rows;
    read_rows(&rows, t,
              write_text("p.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n"
                                    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"
                                    "{\"instruction\": \"a\"}\n"
                                    "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"a\"}\n"
                                    "{\"text\": \"a\"}\n"
                                    "{\"input_ids\": [1, 2, 3], \"labels\": [-100, -100, 3]}\n"
                                    "{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}]}\n"),
              o);
    cr_assert_eq(rows.count, 8);
    for (int i = 0; i < 3; i++) ASSERT_TEXT(&rows.row[i], "<|bos|><|hdr|>user<|/hdr|>\na<|eot|><|hdr|>assistant<|/hdr|>\n");
    for (int i = 3; i < 6; i++) ASSERT_IDS(rows.row[i].ids, rows.row[i].count, 258, 'a');
    ASSERT_IDS(rows.row[6].ids, rows.row[6].count, 1, 2);
    for (int i = 0; i < 7; i++) cr_assert_eq(targets_of(&rows.row[i]), 0);
    cr_assert(rows.row[7].bad);
    free_rows(&rows);
    tokenizer_close(t);
}
