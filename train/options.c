#include "train/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/config.h"

static const char *const command_names[] = {"train", "plan", "eval", "generate", "merge", "export", "quantize", "tokens", "probe", "inspect", "help"};
enum { COMMANDS = sizeof command_names / sizeof command_names[0] };

unsigned command_bit(const char *name)
{
    if (!name) return COMMAND_TRAIN;
    for (unsigned i = 0; i < COMMANDS; i++)
        if (!strcmp(name, command_names[i])) return 1u << i;
    return 0;
}

const char *command_name(unsigned bit)
{
    for (unsigned i = 0; i < COMMANDS; i++)
        if (bit == 1u << i) return command_names[i];
    return NULL;
}

/* --device: auto, cpu, cuda, cuda:N. */
static bool accepts_device(const char *text)
{
    if (!strcmp(text, "auto") || !strcmp(text, "cpu") || !strcmp(text, "cuda")) return true;
    if (strncmp(text, "cuda:", 5) != 0) return false;
    size_t digits = strspn(text + 5, "0123456789");
    return digits > 0 && digits < 4 && text[5 + digits] == 0;
}

/* Who takes an option. RUN: what decides how a run goes; MODEL: commands that run a model; ROWS: those that read rows of data. */
enum {
    RUN = COMMAND_TRAIN | COMMAND_PLAN,
    MODEL = RUN | COMMAND_EVAL | COMMAND_GENERATE | COMMAND_PROBE,
    ROWS = RUN | COMMAND_EVAL | COMMAND_GENERATE | COMMAND_TOKENS,
    LATER = COMMAND_MERGE | COMMAND_QUANTIZE, /* commands of which this version knows the options that the command line fixes */
    ON_BASE = MODEL | COMMAND_EXPORT | COMMAND_TOKENS | LATER,
    WORKING = ON_BASE | COMMAND_INSPECT,
    ALL = WORKING | COMMAND_HELP
};

#define AT(field) .offset = offsetof(qlft_config, field)
#define LIST(field) .offset = offsetof(qlft_config, field), .count_offset = offsetof(qlft_config, field##_count)
#define OPTION(option, where, type, metavar, normal, takers, text)                                                                                             \
    .info.name = option, .info.group = where, .info.kind = QLFT_OPTION_##type, .info.value = metavar, .info.default_text = normal, .commands = (takers),       \
    .info.help = text
#define FROM(low) .info.bounds = #low " or more", .min = low, .max = 9007199254740992.0
#define ABOVE(low, high) .info.bounds = "above " #low ", at most " #high, .min = low, .max = high, .flags = OPTION_ABOVE
#define BELOW(low, high) .info.bounds = #low " to below " #high, .min = low, .max = high, .flags = OPTION_BELOW
#define RANGE(low, high) .info.bounds = #low " to " #high, .min = low, .max = high
#define UNIT(text) .info.unit = text
#define CHOICES(text) .info.choices = text

/* clang-format off */
const option_row options[] = {
    /* ---- base ---- */
    {OPTION("base", "base", PATH, "PATH", NULL, ON_BASE, "model folder as the hub lays it out, a .safetensors file or index in one, or a .gguf"), .info.required = true, AT(base)},
    {OPTION("quant", "base", CHOICE, "nf4|none", "nf4", MODEL, "how the frozen base is held: 4-bit NormalFloat, or as it is"), CHOICES("nf4|none"), AT(quant)},
    {OPTION("double-quant", "base", SWITCH, "on|off", "on", MODEL, "the scales of NF4 blocks in 8 bits too"), AT(double_quant)},
    {OPTION("compute", "base", CHOICE, "bf16|f32|f16", "bf16", MODEL, "type of activations and adapter in the forward and backward pass"), CHOICES("bf16|f32|f16"), AT(compute)},
    {OPTION("adapter", "base", PATH, "DIR", NULL, RUN, "PEFT adapter to continue from"), AT(adapter)},
    {OPTION("adapter", "base", PATH, "DIR", NULL, COMMAND_EVAL | COMMAND_GENERATE | COMMAND_PROBE, "PEFT adapter to apply"), AT(adapter)},
    {OPTION("adapter", "base", PATH, "DIR", NULL, COMMAND_EXPORT | COMMAND_MERGE, "PEFT adapter to read"), .info.required = true, AT(adapter)},

    /* ---- adapter ---- */
    {OPTION("r", "adapter", INT, "N", "16", RUN, "rank of the adapter"), RANGE(1, 65536), AT(r)},
    {OPTION("alpha", "adapter", NUMBER, "X", "2r", RUN, "the adapter's part is scaled by alpha / r"), .info.bounds = "above 0, at most 1000000", .min = 0, .max = 1e6, .flags = OPTION_ABOVE | OPTION_WORDS, AT(alpha), .resolve = config_alpha},
    {OPTION("dropout", "adapter", NUMBER, "P", "0", RUN, "probability of dropping an input of the adapter"), BELOW(0, 1), AT(dropout)},
    {OPTION("targets", "adapter", NAMES, "NAMES", "all-linear", RUN, "layers that get an adapter: all-linear, names with commas (q_proj,v_proj), or a pattern"), AT(targets)},
    {OPTION("rslora", "adapter", SWITCH, "on|off", "off", RUN, "scale by alpha / sqrt(r) instead"), AT(rslora)},

    /* ---- data ---- */
    {OPTION("data", "data", PATHS, "PATH...", NULL, COMMAND_TRAIN, "rows to learn: .jsonl .json .txt, each also .gz; several allowed, - is standard input"), .info.required = true, LIST(data)},
    {OPTION("data", "data", PATHS, "PATH...", NULL, COMMAND_PLAN, "rows to learn, as for training; without: every row is taken to be --seq tokens long"), LIST(data)},
    {OPTION("data", "data", PATHS, "PATH...", NULL, COMMAND_TOKENS, "rows to show, as for training"), LIST(data)},
    {OPTION("data", "data", PATHS, "PATH...", NULL, COMMAND_EVAL, "rows to measure the loss on, as for training"), .info.required = true, LIST(data)},
    {OPTION("data", "data", PATHS, "PATH...", NULL, COMMAND_GENERATE, "rows to answer; what they already answer is left out"), LIST(data)},
    {OPTION("eval-data", "data", PATHS, "PATH...", NULL, RUN, "held-out rows, never trained on: their loss is measured before and after"), LIST(eval_data)},
    {OPTION("format", "data", CHOICE, "NAME", "auto", ROWS, "kind of rows: auto, text, prompt, alpaca, sharegpt, messages, tokens (input_ids and labels, taken as they are)"), CHOICES("auto|text|prompt|alpaca|sharegpt|messages|tokens"), AT(format)},
    {OPTION("shuffle", "data", SWITCH, "on|off", "on", RUN, "a new order of rows each epoch, from the seed"), AT(shuffle)},
    {OPTION("template", "data", PATH, "auto|FILE", "auto", ROWS, "chat template: the model's own, or a Jinja file"), AT(template_path)},
    {OPTION("train-on", "data", CHOICE, "NAME", "completion", RUN | COMMAND_EVAL | COMMAND_TOKENS, "which tokens are learned: completion (what answers a prompt; in a conversation every answer), assistant (the same), all"), CHOICES("completion|assistant|all"), AT(train_on)},
    {OPTION("seq", "data", INT, "N", "2048", RUN | COMMAND_EVAL, "longest sample, and with packing the length of a row"), RANGE(2, 1048576), UNIT("tokens"), AT(seq)},
    {OPTION("seq", "data", INT, "N", "0", COMMAND_TOKENS, "longest sample, as for training; 0: no limit"), RANGE(0, 1048576), UNIT("tokens"), AT(seq)},
    {OPTION("packing", "data", SWITCH, "on|off", "on", RUN, "several samples in a row, isolated: none sees another"), AT(packing)},
    {OPTION("on-bad-row", "data", CHOICE, "stop|skip", "stop", ROWS, "what to do with a row that cannot be used"), CHOICES("stop|skip"), AT(on_bad_row)},
    {OPTION("on-long", "data", CHOICE, "NAME", "truncate", RUN | COMMAND_EVAL | COMMAND_TOKENS, "what to do with a sample longer than --seq: truncate, drop, split, error"), CHOICES("truncate|drop|split|error"), AT(on_long)},
    {OPTION("cache", "data", PATH, "DIR", "~/.cache/qlft", RUN | COMMAND_EVAL, "where tokenised data is kept for the next run"), .flags = OPTION_WORDS | OPTION_NO_RECIPE, AT(cache)},

    /* ---- training ---- */
    {OPTION("epochs", "training", INT, "N", "1", RUN, "times over the data"), RANGE(1, 1000000), AT(epochs)},
    {OPTION("steps", "training", INT, "N", "0", RUN, "optimizer steps; 0: by epochs"), RANGE(0, 1000000000), AT(steps)},
    {OPTION("batch", "training", INT, "N", "1", RUN, "rows of a micro-batch"), RANGE(1, 65536), UNIT("rows"), AT(batch)},
    {OPTION("accum", "training", INT, "N", "8", RUN, "micro-batches of an optimizer step"), RANGE(1, 65536), AT(accum)},
    {OPTION("lr", "training", NUMBER, "X", "2e-4", RUN, "peak learning rate"), ABOVE(0, 10), AT(lr)},
    {OPTION("schedule", "training", CHOICE, "NAME", "cosine", RUN, "course of the learning rate: cosine, linear, constant, wsd (warm-up, stable, decay along a cosine), wsd-linear"), CHOICES("cosine|linear|constant|wsd|wsd-linear"), AT(schedule)},
    {OPTION("warmup", "training", AMOUNT, "X", "0.03", RUN, "warm-up: below 1 a share of all steps (rounded down), else steps; as in transformers its first step runs at rate 0"), RANGE(0, 1000000000), AT(warmup)},
    {OPTION("decay", "training", AMOUNT, "X", "0.2", RUN, "last part of wsd: below 1 a share of all steps, else steps"), RANGE(0, 1000000000), AT(decay)},
    {OPTION("min-lr", "training", NUMBER, "X", "0", RUN, "where the schedule ends, as a share of --lr"), RANGE(0, 1), AT(min_lr)},
    {OPTION("weight-decay", "training", NUMBER, "X", "0", RUN, "decoupled weight decay"), RANGE(0, 10), AT(weight_decay)},
    {OPTION("clip", "training", NUMBER, "X", "1.0", RUN, "largest norm of the gradient; 0: not clipped"), RANGE(0, 1000000), AT(clip)},
    {OPTION("optim", "training", CHOICE, "adamw|adamw8", "adamw", RUN, "optimizer"), CHOICES("adamw|adamw8"), AT(optim)},
    {OPTION("beta1", "training", NUMBER, "X", "0.9", RUN, "decay of Adam's first moment"), BELOW(0, 1), AT(beta1)},
    {OPTION("beta2", "training", NUMBER, "X", "0.999", RUN, "decay of Adam's second moment"), BELOW(0, 1), AT(beta2)},
    {OPTION("eps", "training", NUMBER, "X", "1e-8", RUN, "added to the root of Adam's second moment"), ABOVE(0, 1), AT(eps)},
    {OPTION("seed", "training", INT, "N", "0", RUN | COMMAND_GENERATE, "all random numbers follow from it"), FROM(0), AT(seed)},

    /* ---- memory ---- */
    {OPTION("memory", "memory", SIZE, "SIZE", "auto", MODEL, "budget on the device, such as 24GB or 22GiB; auto: what is free"), AT(memory)},
    {OPTION("host-memory", "memory", SIZE, "SIZE", "auto", MODEL, "budget beside the device"), AT(host_memory)},
    {OPTION("checkpointing", "memory", CHOICE, "auto|none|block", "auto", RUN, "keep only the input of each block and compute the rest again; same numbers"), CHOICES("auto|none|block"), AT(checkpointing)},
    {OPTION("page-optim", "memory", CHOICE, "auto|on|off", "auto", RUN, "optimizer states on the host, stepped page by page; same numbers"), CHOICES("auto|on|off"), AT(page_optim)},
    {OPTION("offload-activations", "memory", CHOICE, "auto|on|off", "auto", RUN, "block inputs on the host"), CHOICES("auto|on|off"), AT(offload_activations)},
    {OPTION("offload-base", "memory", CHOICE, "auto|on|off", "auto", RUN, "the frozen base on the host, fetched block by block"), CHOICES("auto|on|off"), AT(offload_base)},
    {OPTION("loss-chunk", "memory", INT, "N", "0", RUN, "rows of logits held at once; 0: chosen; same numbers"), RANGE(0, 1048576), UNIT("rows"), AT(loss_chunk)},

    /* ---- generation ---- */
    {OPTION("prompt", "generation", TEXT, "TEXT", NULL, COMMAND_GENERATE, "one thing to answer"), AT(prompt)},
    {OPTION("chat", "generation", FLAG, NULL, "off", COMMAND_GENERATE, "a conversation: one turn a line on standard input"), AT(chat)},
    {OPTION("system", "generation", TEXT, "TEXT", NULL, COMMAND_GENERATE, "system message"), AT(system)},
    {OPTION("max-tokens", "generation", INT, "N", "256", COMMAND_GENERATE, "longest answer"), RANGE(1, 1048576), UNIT("tokens"), AT(max_tokens)},
    {OPTION("temperature", "generation", NUMBER, "X", "0", COMMAND_GENERATE, "0: the likeliest token each time"), RANGE(0, 100), AT(temperature)},
    {OPTION("top-p", "generation", NUMBER, "X", "1", COMMAND_GENERATE, "draw from the likeliest tokens that together have this probability"), ABOVE(0, 1), AT(top_p)},
    {OPTION("top-k", "generation", INT, "N", "0", COMMAND_GENERATE, "draw from this many likeliest tokens; 0: all"), RANGE(0, 1048576), AT(top_k)},

    /* ---- what one command takes ---- */
    {OPTION("task", "evaluation", CHOICE, "mmlu|gsm8k", "none", COMMAND_EVAL, "a known benchmark instead of the loss"), CHOICES("none|mmlu|gsm8k"), AT(task)},
    {OPTION("text", "tokens", TEXT, "TEXT", NULL, COMMAND_TOKENS, "show this text instead of rows"), AT(text)},
    {OPTION("raw", "generation", FLAG, NULL, "off", COMMAND_GENERATE, "the prompt as it is, without the chat template"), AT(raw)},
    {OPTION("raw", "tokens", FLAG, NULL, "off", COMMAND_TOKENS, "the text alone: no template, no BOS, no EOS"), AT(raw)},
    {OPTION("no-special", "tokens", FLAG, NULL, "off", COMMAND_TOKENS, "with --raw: special tokens in the text are plain text"), AT(no_special)},
    {OPTION("limit", "tokens", INT, "N", "0", COMMAND_TOKENS, "rows to show; 0: all"), FROM(0), UNIT("rows"), AT(limit)},
    {OPTION("batch", "probe", PATH, "FILE", NULL, COMMAND_PROBE, "safetensors file with input_ids and labels [B, T]"), .info.required = true, AT(batch_path)},
    {OPTION("out", "probe", PATH, "FILE", NULL, COMMAND_PROBE, "safetensors file to write: logits, loss, gradients"), .info.required = true, AT(out)},
    {OPTION("format", "export", CHOICE, "peft|gguf", "gguf", COMMAND_EXPORT, "kind of adapter file to write"), CHOICES("peft|gguf"), AT(adapter_format)},
    {OPTION("out", "export", PATH, "PATH", NULL, COMMAND_EXPORT, "folder (peft) or file (gguf) to write"), .info.required = true, AT(out)},
    {OPTION("out", "output", PATH, "DIR", NULL, LATER, "folder to write"), .info.required = true, AT(out)},
    {OPTION("markdown", "help", FLAG, NULL, "off", COMMAND_HELP, "everything as Markdown: docs/cli.md"), AT(markdown)},
    {OPTION("completion", "help", CHOICE, "bash", "none", COMMAND_HELP, "completion script for a shell"), CHOICES("none|bash"), AT(completion)},

    /* ---- running ---- */
    {OPTION("out", "running", PATH, "DIR", "qlft-out", RUN, "folder for adapter, report and checkpoints"), AT(out)},
    {OPTION("device", "running", TEXT, "auto|cpu|cuda[:N]", "auto", MODEL, "where to compute"), AT(device), .accepts = accepts_device},
    {OPTION("threads", "running", INT, "N", "0", MODEL, "0: all that this process may use"), RANGE(0, 4096), AT(threads)},
    {OPTION("save-every", "running", INT, "N", "100", RUN, "steps between checkpoints; 0: only at the end"), FROM(0), UNIT("steps"), AT(save_every)},
    {OPTION("keep", "running", INT, "N", "2", RUN, "newest checkpoints to keep"), RANGE(1, 1000000), AT(keep)},
    {OPTION("samples", "running", INT, "N", "2", RUN, "rows of --eval-data to answer before and after, for the report"), RANGE(0, 100), UNIT("rows"), AT(samples)},
    {OPTION("eval-every", "running", INT, "N", "0", RUN, "steps between measures on --eval-data; 0: only before and after"), FROM(0), UNIT("steps"), AT(eval_every)},
    {OPTION("gguf", "running", SWITCH, "on|off", "off", RUN, "also write adapter.gguf for llama.cpp"), AT(gguf)},
    {OPTION("resume", "running", PATH, "auto|PATH", NULL, RUN, "go on from a checkpoint; auto: the newest under --out, if any"), .flags = OPTION_NO_RECIPE, AT(resume)},
    {OPTION("recipe", "running", PATH, "FILE", NULL, ON_BASE & ~(unsigned)LATER, "YAML file whose keys are these names; the command line goes before it"), .flags = OPTION_NO_RECIPE, AT(recipe)},
    {OPTION("quiet", "running", FLAG, NULL, "off", WORKING, "no progress, only warnings and errors"), .flags = OPTION_NO_RECIPE, AT(quiet)},
    {OPTION("json", "running", FLAG, NULL, "off", WORKING, "the result as JSON on standard output"), .flags = OPTION_NO_RECIPE, AT(json)},
    {OPTION("log-level", "running", CHOICE, "NAME", "info", WORKING, "messages to show: error, warning, info, debug"), CHOICES("error|warning|info|debug"), .flags = OPTION_NO_RECIPE, AT(log_level)},
    {OPTION("help", "running", FLAG, NULL, "off", ALL, "the options of a command"), .flags = OPTION_NO_RECIPE, AT(help)},
    {OPTION("version", "running", FLAG, NULL, "off", ALL, "the version"), .flags = OPTION_NO_RECIPE, AT(version)},
};
/* clang-format on */
const int options_count = sizeof options / sizeof options[0];
_Static_assert(sizeof options / sizeof options[0] <= CONFIG_MAX_OPTIONS, "config.source has a place for each option");

const option_row *option_find(const char *name, unsigned command)
{
    for (int i = 0; i < options_count; i++)
        if ((options[i].commands & command) && !strcmp(options[i].info.name, name)) return &options[i];
    return NULL;
}

/* What other trainers call an option: who comes from there is told the name here. */
static const struct {
    const char *elsewhere, *here;
} names_elsewhere[] = {
    {"learning-rate", "lr"},
    {"lr-scheduler", "schedule"},
    {"lr-scheduler-type", "schedule"},
    {"warmup-ratio", "warmup"},
    {"warmup-steps", "warmup"},
    {"max-grad-norm", "clip"},
    {"optimizer", "optim"},
    {"batch-size", "batch"},
    {"micro-batch-size", "batch"},
    {"per-device-train-batch-size", "batch"},
    {"gradient-accumulation-steps", "accum"},
    {"num-epochs", "epochs"},
    {"num-train-epochs", "epochs"},
    {"max-steps", "steps"},
    {"max-length", "seq"},
    {"max-seq-length", "seq"},
    {"sequence-len", "seq"},
    {"cutoff-len", "seq"},
    {"rank", "r"},
    {"lora-r", "r"},
    {"lora-rank", "r"},
    {"lora-alpha", "alpha"},
    {"lora-dropout", "dropout"},
    {"lora-target", "targets"},
    {"target-modules", "targets"},
    {"lora-target-modules", "targets"},
    {"use-rslora", "rslora"},
    {"model", "base"},
    {"base-model", "base"},
    {"model-name-or-path", "base"},
    {"dataset", "data"},
    {"datasets", "data"},
    {"train-data", "data"},
    {"train-file", "data"},
    {"eval-dataset", "eval-data"},
    {"validation-file", "eval-data"},
    {"chat-template", "template"},
    {"sample-packing", "packing"},
    {"output-dir", "out"},
    {"output", "out"},
    {"save-steps", "save-every"},
    {"save-total-limit", "keep"},
    {"eval-steps", "eval-every"},
    {"gradient-checkpointing", "checkpointing"},
    {"resume-from-checkpoint", "resume"},
    {"config", "recipe"},
    {"max-new-tokens", "max-tokens"},
};

/* The name here of what is called `name` elsewhere, with - or _ between its words; NULL if that is not known or `command` does not take it. */
static const char *name_here(const char *name, unsigned command)
{
    char written[40];
    size_t length = strlen(name);
    if (length >= sizeof written) return NULL;
    for (size_t i = 0; i <= length; i++) written[i] = name[i] == '_' ? '-' : name[i];
    if (option_find(written, command)) return option_find(written, command)->info.name;
    for (size_t i = 0; i < sizeof names_elsewhere / sizeof names_elsewhere[0]; i++)
        if (!strcmp(names_elsewhere[i].elsewhere, written) && option_find(names_elsewhere[i].here, command)) return names_elsewhere[i].here;
    return NULL;
}

qlft_status option_unknown(const char *name, unsigned command)
{
    const char *names[CONFIG_MAX_OPTIONS];
    int count = 0;
    const option_row *elsewhere = NULL;
    for (int i = 0; i < options_count; i++) {
        if (options[i].commands & command)
            names[count++] = options[i].info.name;
        else if (!strcmp(options[i].info.name, name))
            elsewhere = &options[i];
    }
    const char *own = command_name(command);
    if (elsewhere) {
        unsigned taker = elsewhere->commands & (~elsewhere->commands + 1);
        return status_fail(QLFT_EARG, "--%s is an option of `qlft %s`, not of `qlft %s`: see `qlft %s --help`", name, command_name(taker), own, own);
    }
    const char *near_name = name_here(name, command);
    if (near_name) return status_fail(QLFT_EARG, "there is no option --%s; it is called --%s here", name, near_name);
    near_name = qlft_nearest(name, names, count);
    if (near_name) return status_fail(QLFT_EARG, "there is no option --%s; did you mean --%s?", name, near_name);
    return status_fail(QLFT_EARG, "there is no option --%s: see `qlft %s --help`", name, own);
}

int choice_index(const char *choices, const char *text)
{
    int length;
    size_t wanted = strlen(text);
    const char *word;
    for (int i = 0; (word = choice_at(choices, i, &length)); i++)
        if ((size_t)length == wanted && !memcmp(word, text, wanted)) return i;
    return -1;
}

const char *choice_at(const char *choices, int index, int *length)
{
    for (int i = 0; i < index; i++) {
        choices = strchr(choices, '|');
        if (!choices) return NULL;
        choices++;
    }
    *length = (int)strcspn(choices, "|");
    return choices;
}

enum { NEAREST_BYTES = 40 }; /* longer words are no option names */

/* Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours. Both words shorter than NEAREST_BYTES. */
static int word_distance(const char *a, const char *b)
{
    int m = (int)strlen(a), n = (int)strlen(b);
    int d[NEAREST_BYTES + 1][NEAREST_BYTES + 1];
    for (int i = 0; i <= m; i++) d[i][0] = i;
    for (int j = 0; j <= n; j++) d[0][j] = j;
    for (int i = 1; i <= m; i++) {
        for (int j = 1; j <= n; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[m][n];
}

const char *qlft_nearest(const char *text, const char *const *words, int count)
{
    size_t length = strlen(text);
    if (length == 0 || length >= NEAREST_BYTES) return NULL;
    const char *best = NULL;
    int best_distance = NEAREST_BYTES;
    for (int i = 0; i < count; i++) {
        size_t other = strlen(words[i]);
        if (other >= NEAREST_BYTES) continue;
        int distance = word_distance(text, words[i]);
        /* A name that was only begun (--check for --checkpointing) is near too, but after any true misspelling. */
        if (length >= 3 && other > length && !strncmp(text, words[i], length)) distance = 1;
        int allowed = (int)(length > other ? length : other) / 3;
        if (distance <= (allowed > 1 ? allowed : 1) && distance < best_distance && distance < (int)length) {
            best = words[i];
            best_distance = distance;
        }
    }
    return best;
}

int qlft_option_count(void)
{
    return options_count;
}

const qlft_option_info *qlft_option_at(int index)
{
    return index >= 0 && index < options_count ? &options[index].info : NULL;
}

bool qlft_option_applies(int index, const char *command)
{
    return index >= 0 && index < options_count && (options[index].commands & command_bit(command));
}
