/* Options, bounds, suggestions, sizes, recipes: what is given comes out, what is wrong is refused by name. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "data/dataset.h"
#include "optim/optim.h"
#include "train/config.h"

static qlft_config *config_for(const char *command)
{
    qlft_config *c = NULL;
    cr_assert_eq(qlft_config_new(&c, command), QLFT_OK, "%s", qlft_last_error());
    return c;
}

/* The option must be refused, and the message must name it and hold `hint`. */
static void refused(const char *key, const char *value, const char *hint)
{
    qlft_config *c = config_for("train");
    cr_expect_eq(qlft_config_set(c, key, value), QLFT_EARG, "--%s '%s' was taken", key, value);
    cr_expect(strstr(qlft_last_error(), key), "message does not name --%s: %s", key, qlft_last_error());
    cr_expect(strstr(qlft_last_error(), hint), "message lacks '%s': %s", hint, qlft_last_error());
    qlft_config_free(c);
}

static void expect_error(qlft_status status, qlft_status wanted, const char *hint)
{
    cr_expect_eq(status, wanted, "status %d, wanted %d: %s", status, wanted, qlft_last_error());
    cr_expect(strstr(qlft_last_error(), hint), "message lacks '%s': %s", hint, qlft_last_error());
}

Test(config, defaults_are_those_of_the_command_line)
{
    qlft_config *c = config_for(NULL);
    cr_expect_eq(c->quant, QUANT_NF4);
    cr_expect(c->double_quant && c->shuffle && c->packing && !c->rslora && !c->gguf);
    cr_expect_eq(c->compute, COMPUTE_BF16);
    cr_expect_eq(c->r, 16);
    cr_expect_eq(config_alpha(c), 32.0);
    cr_expect_eq(config_scale(c), 2.0);
    cr_expect_eq(c->dropout, 0.0);
    cr_expect_str_eq(c->targets, "all-linear");
    cr_expect_eq(c->seq, 2048);
    cr_expect_eq(c->epochs, 1);
    cr_expect_eq(c->steps, 0);
    cr_expect_eq(c->batch, 1);
    cr_expect_eq(c->accum, 8);
    cr_expect_eq(c->lr, 2e-4);
    cr_expect_eq(c->warmup, 0.03);
    cr_expect_eq(c->decay, 0.2);
    cr_expect_eq(c->clip, 1.0);
    cr_expect_eq(c->beta1, 0.9);
    cr_expect_eq(c->beta2, 0.999);
    cr_expect_eq(c->eps, 1e-8);
    cr_expect_eq(c->memory, 0u);
    cr_expect_eq(c->save_every, 100);
    cr_expect_eq(c->keep, 2);
    cr_expect_str_eq(c->out, "qlft-out");
    cr_expect_str_eq(c->device, "auto");
    cr_expect_str_eq(c->template_path, "auto");
    cr_expect_null(c->base);
    cr_expect_null(c->cache);
    cr_expect_eq(c->log_level, (int)QLFT_LOG_INFO);
    qlft_config_free(c);
}

/* The fields hold the values that other folders' enums and names have. */
Test(config, choices_match_the_enums_they_stand_for)
{
    static const struct {
        const char *key, *word;
        int value;
    } rows[] = {{"format", "auto", FORMAT_AUTO},
                {"format", "text", FORMAT_TEXT},
                {"format", "prompt", FORMAT_PROMPT},
                {"format", "alpaca", FORMAT_ALPACA},
                {"format", "sharegpt", FORMAT_SHAREGPT},
                {"format", "messages", FORMAT_MESSAGES},
                {"format", "tokens", FORMAT_TOKENS},
                {"train-on", "completion", TRAIN_ON_COMPLETION},
                {"train-on", "assistant", TRAIN_ON_ASSISTANT},
                {"train-on", "all", TRAIN_ON_ALL},
                {"on-bad-row", "stop", BAD_ROW_STOP},
                {"on-bad-row", "skip", BAD_ROW_SKIP},
                {"on-long", "truncate", LONG_TRUNCATE},
                {"on-long", "drop", LONG_DROP},
                {"on-long", "split", LONG_SPLIT},
                {"on-long", "error", LONG_ERROR},
                {"quant", "none", QUANT_NONE},
                {"compute", "f32", COMPUTE_F32},
                {"checkpointing", "block", CHECKPOINTING_BLOCK},
                {"page-optim", "off", CHOOSE_OFF},
                {"log-level", "debug", QLFT_LOG_DEBUG}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qlft_config *c = config_for("train");
        cr_assert_eq(qlft_config_set(c, rows[i].key, rows[i].word), QLFT_OK, "%s", qlft_last_error());
        const option_row *row = option_find(rows[i].key, COMMAND_TRAIN);
        cr_expect_eq(*(int *)(void *)((char *)c + row->offset), rows[i].value, "--%s %s", rows[i].key, rows[i].word);
        qlft_config_free(c);
    }
    const option_row *schedule = option_find("schedule", COMMAND_TRAIN);
    cr_expect_str_eq(schedule->info.choices, schedule_names());
    for (int i = 0, length; choice_at(schedule->info.choices, i, &length); i++) {
        qlft_config *c = config_for("train");
        c->schedule = i;
        cr_expect(schedule_known(config_schedule(c)), "%s", config_schedule(c));
        cr_expect(qlft_config_is(c, "schedule", config_schedule(c)));
        qlft_config_free(c);
    }
}

Test(config, bad_values_are_refused_with_their_bounds)
{
    refused("r", "0", "1 to 65536");
    refused("r", "-4", "1 to 65536");
    refused("r", "16x", "not a whole number");
    refused("r", "16.0", "not a whole number");
    refused("r", "", "not a whole number");
    refused("r", " 16", "not a whole number");
    refused("r", "99999999999999999999999", "out of bounds");
    refused("alpha", "0", "above 0");
    refused("alpha", "-1", "above 0");
    refused("lr", "0", "above 0");
    refused("lr", "nan", "not a number");
    refused("lr", "inf", "not a number");
    refused("lr", "1e999", "out of bounds");
    refused("lr", "0x1p-3", "not a number");
    refused("lr", "2e-4,", "not a number");
    refused("lr", "2e", "not a number");
    refused("dropout", "1", "0 to below 1");
    refused("warmup", "2.5", "whole");
    refused("warmup", "-0.1", "out of bounds");
    refused("epochs", "0", "1 to");
    refused("epochs", "0.5", "not a whole number");
    refused("seq", "1", "2 to");
    refused("packing", "maybe", "neither on nor off");
    refused("schedule", "cosin", "did you mean cosine?");
    refused("format", "chatml", "auto|text|prompt");
    refused("device", "gpu", "auto|cpu|cuda[:N]");
    refused("device", "cuda:", "auto|cpu|cuda[:N]");
    refused("base", "", "empty");
    refused("data", "", "empty");
    refused("memory", "24", "needs a unit");
    refused("memory", "GB", "not a size");
    refused("memory", "-1GB", "not a size");
    refused("memory", "0GB", "out of bounds");
    refused("memory", "1e30GB", "out of bounds");
    refused("memory", "24gb", "not a size");
    refused("memory", "0x10G", "not a size");
}

/* GNU's meaning of the suffixes (coreutils manual, "Block size"). */
Test(config, sizes)
{
    static const struct {
        const char *text;
        size_t bytes;
        const char *back;
    } rows[] = {{"24GB", 24000000000u, "24GB"},   {"22GiB", 23622320128u, "22GiB"}, {"512M", 536870912u, "512MiB"},
                {"1.5G", 1610612736u, "1536MiB"}, {"700kB", 700000u, "700KB"},      {"1B", 1u, "1B"},
                {"1001B", 1001u, "1001B"},        {"2TiB", 2199023255552u, "2TiB"}, {"auto", 0u, "auto"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qlft_config *c = config_for("train");
        cr_assert_eq(qlft_config_set(c, "memory", rows[i].text), QLFT_OK, "%s", qlft_last_error());
        cr_expect_eq(c->memory, rows[i].bytes, "%s gave %zu", rows[i].text, c->memory);
        char *back = NULL;
        cr_assert_eq(qlft_config_get(&back, c, "memory"), QLFT_OK);
        cr_expect_str_eq(back, rows[i].back);
        qlft_free(back);
        qlft_config_free(c);
    }
}

Test(config, unknown_names_suggest_the_nearest)
{
    qlft_config *c = config_for("train");
    expect_error(qlft_config_set(c, "batchsize", "1"), QLFT_EARG, "no option --batchsize");
    expect_error(qlft_config_set(c, "epoch", "1"), QLFT_EARG, "did you mean --epochs?");
    expect_error(qlft_config_set(c, "learning-rate", "1"), QLFT_EARG, "no option --learning-rate");
    expect_error(qlft_config_set(c, "wramup", "1"), QLFT_EARG, "did you mean --warmup?");
    expect_error(qlft_config_set(c, "eval_data", "x"), QLFT_EARG, "it is called --eval-data here");
    expect_error(qlft_config_set(c, "checkpoint", "block"), QLFT_EARG, "did you mean --checkpointing?");
    expect_error(qlft_config_set(c, "prompt", "hello"), QLFT_EARG, "an option of `qlft generate`, not of `qlft train`");
    qlft_config_free(c);
    static const char *const words[] = {"plan", "train", "tokens"};
    cr_expect_str_eq(qlft_nearest("trian", words, 3), "train");
    cr_expect_str_eq(qlft_nearest("tokenz", words, 3), "tokens");
    cr_expect_null(qlft_nearest("merge", words, 3));
    cr_expect_null(qlft_nearest("", words, 3));
    cr_expect_eq(qlft_config_new(&c, "trian"), QLFT_EARG);
    cr_expect_null(c);
}

Test(config, alpha_scale_and_amounts)
{
    qlft_config *c = config_for("train");
    cr_assert_eq(qlft_config_set(c, "r", "8"), QLFT_OK);
    cr_expect_eq(config_alpha(c), 16.0, "the default follows r");
    cr_assert_eq(qlft_config_set(c, "r", "16"), QLFT_OK);
    cr_assert_eq(qlft_config_set(c, "alpha", "32"), QLFT_OK);
    cr_expect_eq(config_scale(c), 2.0); /* shared/cases D11 */
    cr_assert_eq(qlft_config_set(c, "rslora", "on"), QLFT_OK);
    cr_expect_eq(config_scale(c), 8.0);
    qlft_config_free(c);
    cr_expect_eq(config_steps_of(0.03, 100), 3);
    cr_expect_eq(config_steps_of(0.07, 100), 7);
    cr_expect_eq(config_steps_of(0.03, 10), 0, "a short run has no warm-up");
    cr_expect_eq(config_steps_of(0.0, 10), 0);
    cr_expect_eq(config_steps_of(3, 10), 3);
    cr_expect_eq(config_steps_of(30, 10), 30, "a warm-up keeps its slope in a shorter run");
    cr_expect_eq(config_steps_of(1, 10), 1);
}

Test(config, lists_append_and_names_join)
{
    qlft_config *c = config_for("train");
    cr_assert_eq(qlft_config_set(c, "data", "a.jsonl"), QLFT_OK);
    cr_assert_eq(qlft_config_set(c, "data", "b c.jsonl"), QLFT_OK);
    cr_assert_eq(c->data_count, 2);
    cr_expect_str_eq(c->data[0], "a.jsonl");
    cr_expect_str_eq(c->data[1], "b c.jsonl");
    cr_assert_eq(qlft_config_set(c, "targets", "q_proj"), QLFT_OK);
    cr_expect_str_eq(c->targets, "q_proj", "the default is replaced, not added to");
    cr_assert_eq(qlft_config_set(c, "targets", "v_proj"), QLFT_OK);
    cr_expect_str_eq(c->targets, "q_proj,v_proj");
    cr_expect(config_given(c, "data") && !config_given(c, "r"));
    qlft_config_free(c);
}

Test(config, check_finds_what_is_missing_or_not_there_yet)
{
    qlft_config *c = config_for("train");
    expect_error(qlft_config_check(c), QLFT_EARG, "--base is missing");
    qlft_config_set(c, "base", "model");
    expect_error(qlft_config_check(c), QLFT_EARG, "--data is missing");
    qlft_config_set(c, "data", "a.jsonl");
    cr_expect_eq(qlft_config_check(c), QLFT_OK, "%s", qlft_last_error());
    qlft_config_set(c, "eval-every", "10");
    expect_error(qlft_config_check(c), QLFT_EARG, "--eval-data");
    qlft_config_set(c, "eval-every", "0");
    qlft_config_set(c, "optim", "adamw8");
    expect_error(qlft_config_check(c), QLFT_EUNSUPPORTED, "--optim adamw8");
    qlft_config_set(c, "optim", "adamw");
    qlft_config_set(c, "offload-base", "on");
    expect_error(qlft_config_check(c), QLFT_EUNSUPPORTED, "--offload-base on");
    qlft_config_set(c, "offload-base", "off");
    qlft_config_set(c, "compute", "f16");
    expect_error(qlft_config_check(c), QLFT_EUNSUPPORTED, "--compute f16");
    qlft_config_set(c, "compute", "f32");
    qlft_config_set(c, "device", "cuda:0");
    expect_error(qlft_config_check(c), QLFT_EDEVICE, "--device cuda:0");
    qlft_config_set(c, "device", "cpu");
    qlft_config_set(c, "data", "-");
    cr_expect_eq(qlft_config_check(c), QLFT_OK, "%s", qlft_last_error());
    qlft_config_set(c, "eval-data", "-");
    expect_error(qlft_config_check(c), QLFT_EARG, "standard input");
    qlft_config_free(c);

    c = config_for("generate");
    qlft_config_set(c, "base", "model");
    expect_error(qlft_config_check(c), QLFT_EARG, "--prompt");
    qlft_config_set(c, "prompt", "");
    cr_expect_eq(qlft_config_check(c), QLFT_OK, "%s", qlft_last_error());
    qlft_config_set(c, "chat", "on");
    expect_error(qlft_config_check(c), QLFT_EARG, "several are given");
    qlft_config_free(c);
}

Test(options, every_row_is_documented_and_no_command_has_a_name_twice)
{
    for (int i = 0; i < options_count; i++) {
        const option_row *row = &options[i];
        const qlft_option_info *o = &row->info;
        cr_expect(o->name && *o->name && !o->name[strspn(o->name, "abcdefghijklmnopqrstuvwxyz0123456789-")], "row %d: name", i);
        cr_expect(o->help && strlen(o->help) >= 5 && o->group, "--%s: no help", o->name);
        cr_expect(row->commands, "--%s: no command", o->name);
        cr_expect_eq(o->kind == QLFT_OPTION_FLAG, o->value == NULL, "--%s: a flag has no value, all else has", o->name);
        cr_expect_eq(o->kind == QLFT_OPTION_CHOICE, row->info.choices != NULL, "--%s: choices", o->name);
        bool number = o->kind >= QLFT_OPTION_INT && o->kind <= QLFT_OPTION_AMOUNT;
        cr_expect_eq(number, o->bounds != NULL, "--%s: bounds", o->name);
        cr_expect(!number || row->min < row->max, "--%s: bounds", o->name);
        cr_expect(row->offset >= offsetof(qlft_config, base) && row->offset < offsetof(qlft_config, source), "--%s: place", o->name);
        for (int j = 0; j < i; j++)
            cr_expect(strcmp(o->name, options[j].info.name) != 0 || !(row->commands & options[j].commands), "--%s: twice in one command", o->name);
    }
    cr_expect_null(qlft_option_at(options_count));
    cr_expect_null(qlft_option_at(-1));
    cr_expect_eq(qlft_option_count(), options_count);
}

/* Rows that share a field must not be taken for fields of their own by accident: same field only with the same name or kind. */
Test(options, rows_with_one_field_agree)
{
    for (int i = 0; i < options_count; i++)
        for (int j = 0; j < i; j++)
            if (options[i].offset == options[j].offset) cr_expect_str_eq(options[i].info.name, options[j].info.name);
}

/* ---- recipes ---- */

static char *write_recipe(const char *text)
{
    char name[] = "/tmp/qlft-recipe-XXXXXX";
    int handle = mkstemp(name);
    cr_assert(handle >= 0);
    cr_assert_eq(write(handle, text, strlen(text)), (ssize_t)strlen(text));
    close(handle);
    return strdup(name);
}

/* Reads `text` as the recipe of `command`. */
static qlft_status read_recipe(qlft_config **c, const char *command, const char *text)
{
    char *path = write_recipe(text);
    *c = config_for(command);
    qlft_status status = qlft_config_set(*c, "recipe", path);
    unlink(path);
    free(path);
    return status;
}

static void recipe_refused(const char *text, const char *line, const char *hint)
{
    qlft_config *c;
    cr_expect_eq(read_recipe(&c, "train", text), QLFT_EARG, "was taken: %s", text);
    cr_expect(strstr(qlft_last_error(), "/tmp/qlft-recipe-"), "no file name: %s", qlft_last_error());
    cr_expect(strstr(qlft_last_error(), line), "message lacks '%s': %s", line, qlft_last_error());
    cr_expect(strstr(qlft_last_error(), hint), "message lacks '%s': %s", hint, qlft_last_error());
    qlft_config_free(c);
}

Test(recipe, is_read)
{
    qlft_config *c;
    cr_assert_eq(read_recipe(&c, "train",
                             "# a comment\nbase: \"a model\"  # why\nr: 8\nlr: 1.0e-3\npacking: false\ndata:\n  - a.jsonl\n  - 'b: c.jsonl'\n"
                             "targets: [q_proj, v_proj]\nmemory: 2GiB\n"),
                 QLFT_OK, "%s", qlft_last_error());
    cr_expect_str_eq(c->base, "a model");
    cr_expect_eq(c->r, 8);
    cr_expect_eq(c->lr, 1e-3);
    cr_expect(!c->packing);
    cr_assert_eq(c->data_count, 2);
    cr_expect_str_eq(c->data[1], "b: c.jsonl");
    cr_expect_str_eq(c->targets, "q_proj,v_proj");
    cr_expect_eq(c->memory, (size_t)2 << 30);
    qlft_config_free(c);
    cr_expect_eq(read_recipe(&c, "train", "# nothing\n"), QLFT_OK, "%s", qlft_last_error());
    qlft_config_free(c);
}

Test(recipe, mistakes_name_file_and_line)
{
    recipe_refused("r: 8\nlearnrate: 1\n", "line 2", "learnrate");
    recipe_refused("r: 8\n\nepoch: 1\n", "line 3", "did you mean --epochs?");
    recipe_refused("r: 16x\n", "line 1", "not a whole number");
    recipe_refused("lora:\n  r: 8\n", "line 1", "flat");
    recipe_refused("data:\n  - a: 1\n", "line 1", "flat");
    recipe_refused("r: [8, 16]\n", "line 1", "not a list");
    recipe_refused("- r\n", "line 1", "mapping");
    recipe_refused("just words\n", "line 1", "option: value");
    recipe_refused("r: 8\nr: 9\n", "line 2", "second time");
    recipe_refused("r:\n", "line 1", "no value");
    recipe_refused("r: &x 8\nseq: *x\n", "line 2", "alias");
    recipe_refused("r: 8\n---\nr: 9\n", "line 2", "document");
    recipe_refused("r: \"8\n", "line", "YAML");
    recipe_refused("\tr: 8\n", "line 1", "YAML");
    recipe_refused("recipe: other.yaml\n", "line 1", "another recipe");
    recipe_refused("r: \xff\n", "byte", "YAML");
    recipe_refused("base: \"a\\0b\"\n", "line 1", "NUL");
    recipe_refused("out: x\nprompt: hello\n", "line 2", "qlft generate");
}

Test(recipe, command_line_goes_before_in_any_order)
{
    char *path = write_recipe("r: 8\nseq: 64\ndata: [recipe.jsonl]\ntargets: [q_proj, k_proj]\n");
    for (int order = 0; order < 2; order++) {
        qlft_config *c = config_for("train");
        if (order == 0) cr_assert_eq(qlft_config_set(c, "recipe", path), QLFT_OK, "%s", qlft_last_error());
        cr_assert_eq(qlft_config_set(c, "r", "4"), QLFT_OK);
        cr_assert_eq(qlft_config_set(c, "data", "one.jsonl"), QLFT_OK);
        cr_assert_eq(qlft_config_set(c, "data", "two.jsonl"), QLFT_OK);
        cr_assert_eq(qlft_config_set(c, "targets", "v_proj"), QLFT_OK);
        if (order == 1) cr_assert_eq(qlft_config_set(c, "recipe", path), QLFT_OK, "%s", qlft_last_error());
        cr_expect_eq(c->r, 4);
        cr_expect_eq(c->seq, 64);
        cr_assert_eq(c->data_count, 2);
        cr_expect_str_eq(c->data[0], "one.jsonl");
        cr_expect_str_eq(c->targets, "v_proj");
        expect_error(qlft_config_set(c, "recipe", path), QLFT_EARG, "a recipe already");
        qlft_config_free(c);
    }
    unlink(path);
    free(path);
}

/* A run's recipe serves the other commands: shared options are taken, the run's own are passed over, and --out never leads a file into the run's folder. */
Test(recipe, of_a_run_serves_other_commands)
{
    qlft_config *c;
    const char *text = "base: model\nr: 8\nlr: 1e-3\nout: run\nadapter: start\ndata: train.jsonl\nseq: 64\nquant: none\n";
    cr_assert_eq(read_recipe(&c, "eval", text), QLFT_OK, "%s", qlft_last_error());
    cr_expect_str_eq(c->base, "model");
    cr_expect_eq(c->seq, 64);
    cr_expect_eq(c->quant, QUANT_NONE);
    cr_expect_eq(c->data_count, 0);
    cr_expect_null(c->adapter);
    qlft_config_free(c);
    cr_assert_eq(read_recipe(&c, "export", text), QLFT_OK, "%s", qlft_last_error());
    cr_expect_not(config_given(c, "out"));
    qlft_config_free(c);
    cr_expect_eq(read_recipe(&c, "eval", "lr: fast\n"), QLFT_EARG, "what is passed over is checked all the same");
    qlft_config_free(c);
    cr_expect_eq(read_recipe(&c, "eval", "lrr: 1\n"), QLFT_EARG);
    qlft_config_free(c);
}

/* Every option set to something that is not its default, written, read: the same configuration. */
Test(recipe, round_trip)
{
    static const struct {
        const char *key, *value;
    } values[] = {
        {"base", "models/with space: and #"},
        {"quant", "none"},
        {"double-quant", "off"},
        {"compute", "f32"},
        {"adapter", "on"},
        {"r", "7"},
        {"alpha", "0.1"},
        {"dropout", "0.05"},
        {"targets", "q_proj,v_proj"},
        {"rslora", "on"},
        {"data", "a.jsonl"},
        {"data", "-"},
        {"data", "\xc3\xbc \"quoted\"\n.jsonl"},
        {"eval-data", "123"},
        {"format", "alpaca"},
        {"shuffle", "off"},
        {"template", "t.jinja"},
        {"train-on", "all"},
        {"seq", "77"},
        {"packing", "off"},
        {"on-bad-row", "skip"},
        {"on-long", "split"},
        {"epochs", "3"},
        {"steps", "11"},
        {"batch", "5"},
        {"accum", "6"},
        {"lr", "0.00012345678901234567"},
        {"schedule", "wsd-linear"},
        {"warmup", "17"},
        {"decay", "0.3333333333333333"},
        {"min-lr", "0.1"},
        {"weight-decay", "1e-7"},
        {"clip", "0"},
        {"optim", "adamw8"},
        {"beta1", "0.8"},
        {"beta2", "0.95"},
        {"eps", "1e-6"},
        {"seed", "9007199254740991"},
        {"memory", "1001B"},
        {"host-memory", "3GB"},
        {"checkpointing", "none"},
        {"page-optim", "on"},
        {"offload-activations", "off"},
        {"offload-base", "off"},
        {"loss-chunk", "256"},
        {"out", "~"},
        {"device", "cuda:3"},
        {"threads", "2"},
        {"save-every", "0"},
        {"keep", "9"},
        {"eval-every", "5"},
        {"gguf", "on"},
        {"samples", "3"},
    };
    qlft_config *before = config_for("train"), *after = config_for("train");
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        cr_assert_eq(qlft_config_set(before, values[i].key, values[i].value), QLFT_OK, "%s", qlft_last_error());
    char *path = write_recipe("");
    cr_assert_eq(recipe_write(before, path), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(qlft_config_set(after, "recipe", path), QLFT_OK, "%s", qlft_last_error());
    int compared = 0;
    for (int i = 0; i < options_count; i++) {
        if (!(options[i].commands & COMMAND_TRAIN) || (options[i].flags & OPTION_NO_RECIPE)) continue;
        char *a = config_text(before, &options[i]), *b = config_text(after, &options[i]);
        cr_expect(config_given(before, options[i].info.name), "--%s is not in the list of this test", options[i].info.name);
        cr_expect(a && b && !strcmp(a, b), "--%s: %s became %s", options[i].info.name, a ? a : "(none)", b ? b : "(none)");
        compared++;
        free(a);
        free(b);
    }
    cr_expect_eq(compared, (int)(sizeof values / sizeof values[0]) - 2, "two of the values are for one list");
    cr_expect_eq(after->data_count, 3);
    cr_expect_eq(before->lr, after->lr);
    cr_expect_eq(before->decay, after->decay);
    cr_expect_eq(before->seed, after->seed);
    json_t *x = config_json(before), *y = config_json(after);
    cr_expect(json_equal(x, y));
    cr_expect_eq(json_integer_value(json_object_get(x, "r")), 7);
    cr_expect_eq(json_array_size(json_object_get(x, "data")), 3u);
    json_decref(x);
    json_decref(y);
    qlft_config_free(before);
    qlft_config_free(after);
    unlink(path);
    free(path);
}

/* The default alpha is written as the number that it was, so that a later change of r in the file cannot pass unseen. */
Test(recipe, defaults_are_written_out)
{
    qlft_config *c = config_for("train"), *after;
    char *path = write_recipe(""), *text;
    size_t bytes;
    cr_assert_eq(recipe_write(c, path), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(file_read_text(&text, &bytes, path, 1 << 20), QLFT_OK);
    cr_expect(strstr(text, "\nalpha: 32 # "), "%s", text);
    cr_expect(strstr(text, "\neps: 1.0e-08 # "), "%s", text);
    cr_expect_null(strstr(text, "recipe:"));
    cr_expect_null(strstr(text, "resume:"));
    cr_expect_eq(read_recipe(&after, "train", text), QLFT_OK, "%s", qlft_last_error());
    qlft_config_free(after);
    qlft_config_free(c);
    free(text);
    unlink(path);
    free(path);
}
