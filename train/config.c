#include "train/config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

/* Fields are written through the table's offsets only here. */
static void *field_of(qlft_config *c, const option_row *row)
{
    return (char *)c + row->offset;
}

static const void *value_of(const qlft_config *c, const option_row *row)
{
    return (const char *)c + row->offset;
}

void qlft_free(void *memory)
{
    free(memory);
}

/* ---- reading one value ---- */

/* "--r takes N, 1 to 65536" */
static qlft_status bad_value(const option_row *row, const char *value, const char *what)
{
    const qlft_option_info *o = &row->info;
    return status_fail(QLFT_EARG, "--%s %s: %s; --%s takes %s%s%s%s%s", o->name, value, what, o->name, o->value ? o->value : "on or off", o->bounds ? ", " : "",
                       o->bounds ? o->bounds : "", o->unit ? " " : "", o->unit ? o->unit : "");
}

static qlft_status check_bounds(const option_row *row, const char *value, double number)
{
    bool low = (row->flags & OPTION_ABOVE) ? number > row->min : number >= row->min;
    bool high = (row->flags & OPTION_BELOW) ? number < row->max : number <= row->max;
    return low && high ? QLFT_OK : bad_value(row, value, "out of bounds");
}

static qlft_status parse_int(const option_row *row, const char *value, int64_t *out)
{
    const char *digits = value + (*value == '-' || *value == '+');
    if (!*digits || digits[strspn(digits, "0123456789")]) return bad_value(row, value, "not a whole number");
    errno = 0;
    long long number = strtoll(value, NULL, 10);
    if (errno == ERANGE) return bad_value(row, value, "out of bounds");
    *out = number;
    return check_bounds(row, value, (double)number);
}

static qlft_status parse_number(const option_row *row, const char *value, double *out)
{
    /* The characters are checked first since strtod takes "nan", "inf" and hexadecimal too. */
    char *end = NULL;
    if (*value && !value[strspn(value, "0123456789+-.eE")]) *out = strtod(value, &end);
    if (!end || end == value || *end) return bad_value(row, value, "not a number");
    QLFT_TRY(check_bounds(row, value, *out));
    if (row->info.kind == QLFT_OPTION_AMOUNT && *out >= 1 && *out != floor(*out))
        return bad_value(row, value, "from 1 on this is a number of steps, and whole");
    return QLFT_OK;
}

/* As GNU tools: K M G T and KiB MiB GiB TiB are powers of 1024; KB MB GB TB powers of 1000; B bytes. */
static const struct size_unit {
    const char *name;
    double bytes;
} size_units[] = {{"TiB", 1099511627776.0},
                  {"TB", 1e12},
                  {"GiB", 1073741824.0},
                  {"GB", 1e9},
                  {"MiB", 1048576.0},
                  {"MB", 1e6},
                  {"KiB", 1024.0},
                  {"KB", 1e3},
                  {"B", 1},
                  {"T", 1099511627776.0},
                  {"G", 1073741824.0},
                  {"M", 1048576.0},
                  {"K", 1024.0},
                  {"kB", 1e3}};
enum { SIZE_UNITS = sizeof size_units / sizeof size_units[0], SIZE_UNITS_WRITTEN = 9 };

static qlft_status parse_size(const option_row *row, const char *value, size_t *out)
{
    *out = 0;
    if (!strcmp(value, "auto")) return QLFT_OK;
    char *unit = NULL;
    double number = *value >= '0' && *value <= '9' && !strchr(value, 'x') ? strtod(value, &unit) : 0;
    if (!unit) return bad_value(row, value, "not a size such as 24GB, 22GiB, 512M or auto");
    if (!*unit) return bad_value(row, value, "a size needs a unit, such as 24GB, 22GiB or 512M");
    for (int i = 0; i < SIZE_UNITS; i++) {
        if (strcmp(unit, size_units[i].name) != 0) continue;
        double bytes = number * size_units[i].bytes;
        if (!(bytes >= 1 && bytes <= 9e15)) return bad_value(row, value, "out of bounds");
        *out = (size_t)bytes;
        return QLFT_OK;
    }
    return bad_value(row, value, "not a size: units are B, KB, MB, GB, TB (1000s), KiB, MiB, GiB, TiB or K, M, G, T (1024s)");
}

static qlft_status parse_switch(const option_row *row, const char *value, bool *out)
{
    static const char *const words[] = {"on", "off", "true", "false", "yes", "no"};
    for (int i = 0; i < 6; i++) {
        if (strcmp(value, words[i]) != 0) continue;
        *out = i % 2 == 0;
        return QLFT_OK;
    }
    return bad_value(row, value, "neither on nor off");
}

static qlft_status parse_choice(const option_row *row, const char *value, int *out)
{
    *out = choice_index(row->info.choices, value);
    if (*out >= 0) return QLFT_OK;
    const char *words[16];
    char copies[16][24];
    int count = 0, length;
    const char *word;
    for (; count < 16 && (word = choice_at(row->info.choices, count, &length)); count++) {
        snprintf(copies[count], sizeof copies[count], "%.*s", length, word);
        words[count] = copies[count];
    }
    const char *near_word = qlft_nearest(value, words, count);
    return status_fail(QLFT_EARG, "--%s %s: not one of %s%s%s%s", row->info.name, value, row->info.choices, near_word ? "; did you mean " : "",
                       near_word ? near_word : "", near_word ? "?" : "");
}

static qlft_status parse_text(const option_row *row, const char *value, char **out)
{
    if (!*value && row->info.kind != QLFT_OPTION_TEXT) return status_fail(QLFT_EARG, "--%s: empty", row->info.name);
    if (row->accepts && !row->accepts(value)) return bad_value(row, value, "not known");
    *out = strdup(value);
    return *out ? QLFT_OK : status_fail(QLFT_ENOMEM, "--%s: out of memory", row->info.name);
}

/* Any kind's value, before it is stored. */
typedef union parsed {
    char *text;
    int64_t whole;
    double number;
    size_t size;
    int choice;
    bool on;
} parsed;

static qlft_status parse_value(const option_row *row, const char *value, parsed *out)
{
    switch (row->info.kind) {
    case QLFT_OPTION_TEXT:
    case QLFT_OPTION_PATH:
    case QLFT_OPTION_PATHS:
    case QLFT_OPTION_NAMES: return parse_text(row, value, &out->text);
    case QLFT_OPTION_INT: return parse_int(row, value, &out->whole);
    case QLFT_OPTION_NUMBER:
    case QLFT_OPTION_AMOUNT: return parse_number(row, value, &out->number);
    case QLFT_OPTION_SIZE: return parse_size(row, value, &out->size);
    case QLFT_OPTION_CHOICE: return parse_choice(row, value, &out->choice);
    case QLFT_OPTION_SWITCH:
    case QLFT_OPTION_FLAG: return parse_switch(row, value, &out->on);
    }
    return status_fail(QLFT_EARG, "--%s: unknown kind of option", row->info.name);
}

/* ---- storing it ---- */

static bool holds_text(const option_row *row)
{
    return row->info.kind <= QLFT_OPTION_NAMES;
}

static void list_clear(qlft_config *c, const option_row *row)
{
    char ***items = field_of(c, row);
    int *count = (int *)(void *)((char *)c + row->count_offset);
    for (int i = 0; i < *count; i++) free((*items)[i]);
    free(*items);
    *items = NULL;
    *count = 0;
}

/* Takes `text` over, also on failure. */
static qlft_status list_append(qlft_config *c, const option_row *row, char *text)
{
    char ***items = field_of(c, row);
    int *count = (int *)(void *)((char *)c + row->count_offset);
    char **grown = realloc(*items, ((size_t)*count + 1) * sizeof *grown);
    if (!grown) {
        free(text);
        return status_fail(QLFT_ENOMEM, "--%s: out of memory", row->info.name);
    }
    *items = grown;
    grown[(*count)++] = text;
    return QLFT_OK;
}

/* Names given again are added behind a comma. Takes `text` over. */
static qlft_status names_append(qlft_config *c, const option_row *row, char *text)
{
    char **field = field_of(c, row);
    char *joined = NULL;
    int length = asprintf(&joined, "%s,%s", *field, text);
    free(text);
    if (length < 0) return status_fail(QLFT_ENOMEM, "--%s: out of memory", row->info.name);
    free(*field);
    *field = joined;
    return QLFT_OK;
}

static qlft_status store(qlft_config *c, const option_row *row, const parsed *value, bool again)
{
    void *field = field_of(c, row);
    switch (row->info.kind) {
    case QLFT_OPTION_PATHS:
        if (!again) list_clear(c, row);
        return list_append(c, row, value->text);
    case QLFT_OPTION_NAMES:
        if (again) return names_append(c, row, value->text);
        /* fall through */
    case QLFT_OPTION_TEXT:
    case QLFT_OPTION_PATH:
        free(*(char **)field);
        *(char **)field = value->text;
        break;
    case QLFT_OPTION_INT: *(int64_t *)field = value->whole; break;
    case QLFT_OPTION_NUMBER:
    case QLFT_OPTION_AMOUNT: *(double *)field = value->number; break;
    case QLFT_OPTION_SIZE: *(size_t *)field = value->size; break;
    case QLFT_OPTION_CHOICE: *(int *)field = value->choice; break;
    case QLFT_OPTION_SWITCH:
    case QLFT_OPTION_FLAG: *(bool *)field = value->on; break;
    }
    return QLFT_OK;
}

static qlft_status set_row(qlft_config *c, const option_row *row, const char *value, config_source source)
{
    parsed read;
    QLFT_TRY(parse_value(row, value, &read));
    unsigned char *present = &c->source[row - options];
    if (source < *present) {
        if (holds_text(row)) free(read.text);
        return QLFT_OK;
    }
    qlft_status status = store(c, row, &read, source == *present && source != SOURCE_DEFAULT);
    if (status == QLFT_OK) *present = (unsigned char)source;
    return status;
}

qlft_status config_set_from(qlft_config *c, const char *key, const char *value, config_source source)
{
    const option_row *row = option_find(key, c->command);
    if (source == SOURCE_RECIPE) {
        const option_row *of_run = option_find(key, COMMAND_TRAIN);
        if (!strcmp(key, "recipe")) return status_fail(QLFT_EARG, "a recipe cannot name another recipe");
        /* A run's recipe also serves other commands: what only training takes, or takes in another sense (--out), is checked and passed over. */
        if (of_run && row != of_run) {
            parsed read;
            QLFT_TRY(parse_value(of_run, value, &read));
            if (holds_text(of_run)) free(read.text);
            return QLFT_OK;
        }
    }
    if (!row) return option_unknown(key, c->command);
    if (row->offset == offsetof(qlft_config, recipe)) {
        if (c->recipe) return status_fail(QLFT_EARG, "--recipe %s: there is a recipe already (%s)", value, c->recipe);
        QLFT_TRY(set_row(c, row, value, source));
        return recipe_read(c, value);
    }
    return set_row(c, row, value, source);
}

/* ---- the public functions ---- */

qlft_status qlft_config_new(qlft_config **out, const char *command)
{
    *out = NULL;
    unsigned bit = command_bit(command);
    if (!bit) return status_fail(QLFT_EARG, "there is no command %s", command);
    qlft_config *c = calloc(1, sizeof *c);
    if (!c) return status_fail(QLFT_ENOMEM, "configuration: out of memory");
    /* Every row's default is set, so that code which reads a field that its command has no option for finds the run's default; the command's own rows go last.
     */
    for (int own = 0; own < 2; own++) {
        c->command = bit;
        for (int i = 0; i < options_count; i++) {
            const option_row *row = &options[i];
            if (!row->info.default_text || (row->flags & OPTION_WORDS) || ((row->commands & bit) != 0) != (own != 0)) continue;
            qlft_status status = set_row(c, row, row->info.default_text, SOURCE_DEFAULT);
            if (status != QLFT_OK) {
                qlft_config_free(c);
                return status;
            }
        }
    }
    *out = c;
    return QLFT_OK;
}

void qlft_config_free(qlft_config *c)
{
    if (!c) return;
    for (int i = 0; i < options_count; i++) {
        const option_row *row = &options[i];
        if (row->info.kind == QLFT_OPTION_PATHS)
            list_clear(c, row);
        else if (holds_text(row)) {
            char **text = field_of(c, row);
            free(*text);
            *text = NULL; /* another row may share the field */
        }
    }
    free(c);
}

qlft_status qlft_config_set(qlft_config *c, const char *key, const char *value)
{
    return config_set_from(c, key, value, SOURCE_SET);
}

const qlft_option_info *qlft_config_option(const qlft_config *c, const char *key)
{
    const option_row *row = option_find(key, c->command);
    return row ? &row->info : NULL;
}

qlft_status qlft_config_get(char **text, const qlft_config *c, const char *key)
{
    *text = NULL;
    const option_row *row = option_find(key, c->command);
    if (!row) return option_unknown(key, c->command);
    *text = config_text(c, row);
    if (!*text) *text = strdup("");
    return *text ? QLFT_OK : status_fail(QLFT_ENOMEM, "--%s: out of memory", key);
}

bool qlft_config_is(const qlft_config *c, const char *key, const char *value)
{
    const option_row *row = option_find(key, c->command);
    char *text = row ? config_text(c, row) : NULL;
    bool same = text && !strcmp(text, value);
    free(text);
    return same;
}

bool config_given(const qlft_config *c, const char *key)
{
    const option_row *row = option_find(key, c->command);
    return row && c->source[row - options] != SOURCE_DEFAULT;
}

/* ---- values that follow from others ---- */

double config_alpha(const qlft_config *c)
{
    return c->alpha > 0 ? c->alpha : 2.0 * (double)c->r;
}

double config_scale(const qlft_config *c)
{
    return config_alpha(c) / (c->rslora ? sqrt((double)c->r) : (double)c->r);
}

const char *config_schedule(const qlft_config *c)
{
    static const char *const names[] = {"cosine", "linear", "constant", "wsd", "wsd-linear"};
    return names[c->schedule];
}

int64_t config_steps_of(double amount, int64_t steps)
{
    /* Below: a short run must not spend its only step on a warm-up, whose first step has rate 0. The tiny addition undoes the rounding of, say, 0.07 * 100. */
    return (int64_t)(amount < 1 ? floor(amount * (double)steps + 1e-9) : amount);
}

char *config_cache_folder(const qlft_config *c)
{
    if (c->cache) return strdup(c->cache);
    const char *folder = getenv("XDG_CACHE_HOME"), *below = "qlft";
    if (!folder || folder[0] != '/') { /* the XDG base directory specification: relative paths are to be ignored */
        folder = getenv("HOME");
        below = ".cache/qlft";
    }
    char *path = NULL;
    if (!folder || !*folder || asprintf(&path, "%s/%s", folder, below) < 0) return NULL;
    return path;
}

/* ---- writing values ---- */

/* The shortest decimal that reads back as the same number; with a point where there is an exponent, since YAML 1.1 asks for one. */
static char *number_text(double number)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    char *exponent = strchr(text, 'e'), *made = NULL;
    if (!exponent || strchr(text, '.')) return strdup(text);
    *exponent = 0;
    return asprintf(&made, "%s.0e%s", text, exponent + 1) < 0 ? NULL : made;
}

static char *size_text(size_t bytes)
{
    char *made = NULL;
    if (bytes == 0) return strdup("auto");
    for (int i = 0; i < SIZE_UNITS_WRITTEN; i++) {
        size_t unit = (size_t)size_units[i].bytes;
        if (bytes % unit == 0) return asprintf(&made, "%zu%s", bytes / unit, size_units[i].name) < 0 ? NULL : made;
    }
    return NULL;
}

static char *list_text(const qlft_config *c, const option_row *row)
{
    char *const *items = *(char *const *const *)value_of(c, row);
    int count = *(const int *)(const void *)((const char *)c + row->count_offset);
    size_t bytes = 1;
    for (int i = 0; i < count; i++) bytes += strlen(items[i]) + 1;
    char *text = count ? malloc(bytes) : NULL, *at = text;
    for (int i = 0; text && i < count; i++) at += sprintf(at, "%s%s", i ? " " : "", items[i]);
    return text;
}

char *config_text(const qlft_config *c, const option_row *row)
{
    const void *field = value_of(c, row);
    char *made = NULL;
    int length;
    const char *word;
    switch (row->info.kind) {
    case QLFT_OPTION_TEXT:
    case QLFT_OPTION_PATH:
    case QLFT_OPTION_NAMES: return *(char *const *)field ? strdup(*(char *const *)field) : NULL;
    case QLFT_OPTION_PATHS: return list_text(c, row);
    case QLFT_OPTION_INT: return asprintf(&made, "%lld", (long long)*(const int64_t *)field) < 0 ? NULL : made;
    case QLFT_OPTION_NUMBER:
    case QLFT_OPTION_AMOUNT: return number_text(row->resolve ? row->resolve(c) : *(const double *)field);
    case QLFT_OPTION_SIZE: return size_text(*(const size_t *)field);
    case QLFT_OPTION_CHOICE: word = choice_at(row->info.choices, *(const int *)field, &length); return word ? strndup(word, (size_t)length) : NULL;
    case QLFT_OPTION_SWITCH:
    case QLFT_OPTION_FLAG: return strdup(*(const bool *)field ? "on" : "off");
    }
    return NULL;
}

static json_t *value_json(const qlft_config *c, const option_row *row)
{
    const void *field = value_of(c, row);
    switch (row->info.kind) {
    case QLFT_OPTION_INT: return json_integer(*(const int64_t *)field);
    case QLFT_OPTION_NUMBER:
    case QLFT_OPTION_AMOUNT: return json_real(row->resolve ? row->resolve(c) : *(const double *)field);
    case QLFT_OPTION_PATHS: {
        char *const *items = *(char *const *const *)field;
        int count = *(const int *)(const void *)((const char *)c + row->count_offset);
        json_t *list = json_array();
        for (int i = 0; list && i < count; i++) json_array_append_new(list, json_string(items[i]));
        return list;
    }
    default: break;
    }
    char *text = config_text(c, row);
    json_t *value = text ? json_string(text) : json_null();
    free(text);
    return value ? value : json_null(); /* a path that is not UTF-8 cannot be said in JSON */
}

json_t *config_json(const qlft_config *c)
{
    json_t *object = json_object();
    for (int i = 0; object && i < options_count; i++) {
        const option_row *row = &options[i];
        if (!(row->commands & c->command) || (row->flags & OPTION_NO_RECIPE)) continue;
        if (json_object_set_new(object, row->info.name, value_json(c, row)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* ---- what no single option can tell ---- */

/* The command line fixes these words; this version refuses them rather than ignoring them. */
static const struct refusal {
    const char *option, *value;
    qlft_status code;
    const char *instead;
} refusals[] = {
    {"optim", "adamw8", QLFT_EUNSUPPORTED, "use --optim adamw"},
    {"compute", "f16", QLFT_EUNSUPPORTED, "use --compute bf16 or f32"},
    {"offload-activations", "on", QLFT_EUNSUPPORTED, "leave it at auto; --checkpointing block saves the most"},
    {"offload-base", "on", QLFT_EUNSUPPORTED, "leave it at auto"},
    {"task", "mmlu", QLFT_EUNSUPPORTED, "measure a loss with --data"},
    {"task", "gsm8k", QLFT_EUNSUPPORTED, "measure a loss with --data, or answer rows with `qlft generate --data`"},
};

static qlft_status check_supported(const qlft_config *c)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *no = &refusals[i];
        if (qlft_config_is(c, no->option, no->value)) return status_fail(no->code, "--%s %s: not in this version; %s", no->option, no->value, no->instead);
    }
    if (!strncmp(c->device, "cuda", 4)) return status_fail(QLFT_EDEVICE, "--device %s: this version computes on the CPU only; use --device cpu", c->device);
    return QLFT_OK;
}

static qlft_status check_required(const qlft_config *c)
{
    for (int i = 0; i < options_count; i++) {
        const option_row *row = &options[i];
        if (row->info.required && (row->commands & c->command) && c->source[i] == SOURCE_DEFAULT)
            return status_fail(QLFT_EARG, "--%s is missing: %s; see `qlft %s --help`", row->info.name, row->info.help, command_name(c->command));
    }
    int ways = (c->prompt != NULL) + (c->data_count > 0) + c->chat;
    if (c->command == COMMAND_GENERATE && ways != 1)
        return status_fail(QLFT_EARG, "qlft generate takes one of --prompt TEXT, --chat and --data PATH; %s", ways ? "several are given" : "none is given");
    if (c->command == COMMAND_GENERATE && c->temperature == 0 && (config_given(c, "top-p") || config_given(c, "top-k")))
        log_warning("--top-p and --top-k draw nothing at --temperature 0, which always takes the likeliest token");
    if (c->command == COMMAND_GENERATE && c->chat && c->raw)
        return status_fail(QLFT_EARG, "--chat needs the chat template that --raw leaves out; give one of them");
    ways = (c->text != NULL) + (c->data_count > 0);
    if (c->command == COMMAND_TOKENS && ways != 1)
        return status_fail(QLFT_EARG, "qlft tokens takes one of --data PATH and --text TEXT; %s", ways ? "both are given" : "none is given");
    return QLFT_OK;
}

static qlft_status check_run(const qlft_config *c)
{
    int standard_inputs = 0;
    for (int i = 0; i < c->data_count; i++) standard_inputs += !strcmp(c->data[i], "-");
    for (int i = 0; i < c->eval_data_count; i++) standard_inputs += !strcmp(c->eval_data[i], "-");
    if (standard_inputs > 1)
        return status_fail(QLFT_EARG, "- (standard input) is named %d times in --data and --eval-data: it can be read once", standard_inputs);
    if (!(c->command & (COMMAND_TRAIN | COMMAND_PLAN))) return QLFT_OK;
    if (c->eval_every > 0 && c->eval_data_count == 0) return status_fail(QLFT_EARG, "--eval-every %lld needs --eval-data", (long long)c->eval_every);
    if (c->r > 512) log_warning("--r %lld: servers such as vLLM take adapters up to rank 512", (long long)c->r);
    return QLFT_OK;
}

qlft_status qlft_config_check(const qlft_config *c)
{
    if (c->command == COMMAND_MERGE)
        return status_fail(QLFT_EUNSUPPORTED, "qlft merge: not in this version; use the adapter beside its base (--adapter DIR) or `qlft export` it");
    if (c->command == COMMAND_QUANTIZE)
        return status_fail(QLFT_EUNSUPPORTED, "qlft quantize: not in this version; every command quantizes --base while it loads it (--quant nf4)");
    QLFT_TRY(check_required(c));
    QLFT_TRY(check_supported(c));
    return check_run(c);
}
