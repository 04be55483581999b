#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "core/file.h"
#include "train/config.h"

enum { RECIPE_LIMIT_BYTES = 1 << 20 };

/* ---- reading: events of libyaml; the grammar is one mapping of scalars and lists of scalars ---- */

typedef struct recipe_reader {
    yaml_parser_t parser;
    qlft_config *config;
    const char *path;
    char *key; /* that waits for its value */
    int key_line;
    bool in_list;
    unsigned char seen[CONFIG_MAX_OPTIONS];
} recipe_reader;

static int line_of(const yaml_event_t *event)
{
    return (int)event->start_mark.line + 1;
}

static qlft_status recipe_fail(const recipe_reader *r, int line, const char *what)
{
    return status_fail(QLFT_EARG, "%s line %d: %s", r->path, line, what);
}

static qlft_status take_key(recipe_reader *r, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length || !*text) return recipe_fail(r, line_of(event), "a key must be the long name of an option");
    for (int i = 0; i < options_count; i++) {
        if (strcmp(options[i].info.name, text) != 0) continue;
        if (r->seen[i]) return status_fail(QLFT_EARG, "%s line %d: %s is there a second time", r->path, line_of(event), text);
        r->seen[i] = 1;
    }
    r->key = strdup(text);
    r->key_line = line_of(event);
    return r->key ? QLFT_OK : status_fail(QLFT_ENOMEM, "%s: out of memory", r->path);
}

static qlft_status take_value(recipe_reader *r, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (plain && (!*text || !strcmp(text, "~") || !strcmp(text, "null")))
        return status_fail(QLFT_EARG, "%s line %d: %s has no value: give one or take the line out", r->path, line_of(event), r->key);
    if (strlen(text) != event->data.scalar.length) return recipe_fail(r, line_of(event), "a value holds a NUL character");
    qlft_status status = config_set_from(r->config, r->key, text, SOURCE_RECIPE);
    return status == QLFT_OK ? status : status_prefix(status, "%s line %d: ", r->path, line_of(event));
}

static void end_entry(recipe_reader *r)
{
    free(r->key);
    r->key = NULL;
    r->in_list = false;
}

/* A list is a value of options that take several; what else it would be for is said here, by name. */
static qlft_status begin_list(recipe_reader *r, const yaml_event_t *event)
{
    if (!r->key || r->in_list) return recipe_fail(r, line_of(event), "a recipe is one mapping: lists stand for the values of an option only");
    for (int i = 0; i < options_count; i++) {
        qlft_option_kind kind = options[i].info.kind;
        if (!strcmp(options[i].info.name, r->key) && kind != QLFT_OPTION_PATHS && kind != QLFT_OPTION_NAMES)
            return status_fail(QLFT_EARG, "%s line %d: %s takes one value, not a list", r->path, line_of(event), r->key);
    }
    r->in_list = true;
    return QLFT_OK;
}

static qlft_status take_event(recipe_reader *r, const yaml_event_t *event, int *depth, int *documents)
{
    qlft_status status = QLFT_OK;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT: return ++*documents > 1 ? recipe_fail(r, line_of(event), "a second document: a recipe is one") : QLFT_OK;
    case YAML_MAPPING_START_EVENT:
        if (++*depth == 1) return QLFT_OK;
        return r->key ? status_fail(QLFT_EARG, "%s line %d: %s holds keys of its own: a recipe is flat", r->path, r->key_line, r->key)
                      : recipe_fail(r, line_of(event), "a recipe is flat: a mapping inside it is not known");
    case YAML_MAPPING_END_EVENT: --*depth; return QLFT_OK;
    case YAML_SEQUENCE_START_EVENT: return begin_list(r, event);
    case YAML_SEQUENCE_END_EVENT: end_entry(r); return QLFT_OK;
    case YAML_ALIAS_EVENT: return recipe_fail(r, line_of(event), "aliases (*name) are not for recipes: write the value");
    case YAML_SCALAR_EVENT:
        if (*depth == 0) {
            /* An empty document is one plain empty scalar. */
            return event->data.scalar.length == 0 ? QLFT_OK : recipe_fail(r, line_of(event), "not a recipe: lines of `option: value` are expected");
        }
        if (!r->key) return take_key(r, event);
        status = take_value(r, event);
        if (status == QLFT_OK && !r->in_list) end_entry(r);
        return status;
    default: return QLFT_OK;
    }
}

qlft_status recipe_read(qlft_config *c, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    QLFT_TRY(file_read_text(&text, &bytes, path, RECIPE_LIMIT_BYTES));
    recipe_reader r = {.config = c, .path = path};
    qlft_status status = QLFT_OK;
    if (!yaml_parser_initialize(&r.parser)) {
        free(text);
        return status_fail(QLFT_ENOMEM, "%s: out of memory", path);
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    int depth = 0, documents = 0;
    bool ended = false;
    while (status == QLFT_OK && !ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r.parser, &event)) {
            const char *problem = r.parser.problem ? r.parser.problem : "not YAML";
            size_t line = r.parser.error == YAML_READER_ERROR ? 0 : r.parser.problem_mark.line + 1;
            if (line)
                status = status_fail(QLFT_EARG, "%s line %zu: not YAML: %s", path, line, problem);
            else
                status = status_fail(QLFT_EARG, "%s byte %zu: not YAML: %s", path, r.parser.problem_offset, problem);
            break;
        }
        status = take_event(&r, &event, &depth, &documents);
        ended = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    end_entry(&r);
    yaml_parser_delete(&r.parser);
    free(text);
    return status;
}

/* ---- writing: by hand, since libyaml's emitter has no comments, and they are what makes a recipe readable ---- */

/* May the text stand without quotes and be read back as the same text by any YAML reader? */
static bool plain_is_safe(const char *text)
{
    static const char *const words[] = {"on", "off", "yes", "no", "true", "false", "null", "y", "n"};
    if (text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+-")]) return false;
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/", text[0]) || !text[0]) return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcasecmp(text, words[i])) return false;
    return true;
}

static qlft_status write_text(file_writer *w, const option_row *row, const char *text)
{
    if (plain_is_safe(text)) {
        file_writer_print(w, "%s", text);
        return QLFT_OK;
    }
    /* YAML's double-quoted style takes JSON's escapes. */
    json_t *value = json_string(text);
    char *quoted = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    if (!quoted) return status_fail(QLFT_EARG, "--%s: the value is not UTF-8 and cannot be written into a recipe", row->info.name);
    file_writer_put(w, quoted, strlen(quoted));
    free(quoted);
    return QLFT_OK;
}

static qlft_status write_list(file_writer *w, const qlft_config *c, const option_row *row)
{
    char *const *items = *(char *const *const *)(const void *)((const char *)c + row->offset);
    int count = *(const int *)(const void *)((const char *)c + row->count_offset);
    file_writer_print(w, "%s: # %s\n", row->info.name, row->info.help);
    for (int i = 0; i < count; i++) {
        file_writer_print(w, "  - ");
        QLFT_TRY(write_text(w, row, items[i]));
        file_writer_print(w, "\n");
    }
    return QLFT_OK;
}

static qlft_status write_option(file_writer *w, const qlft_config *c, const option_row *row)
{
    char *text = config_text(c, row);
    if (!text) return QLFT_OK;
    qlft_status status = QLFT_OK;
    if (row->info.kind == QLFT_OPTION_PATHS) {
        status = write_list(w, c, row);
    } else {
        file_writer_print(w, "%s: ", row->info.name);
        if (row->info.kind <= QLFT_OPTION_NAMES)
            status = write_text(w, row, text);
        else
            file_writer_print(w, "%s", text);
        file_writer_print(w, " # %s\n", row->info.help);
    }
    free(text);
    return status;
}

qlft_status recipe_write(const qlft_config *c, const char *path)
{
    file_writer w;
    QLFT_TRY(file_writer_open(&w, path));
    file_writer_print(&w, "# The effective options of this run (qlft %s). Run it again: qlft %s --recipe FILE\n", QLFT_VERSION, command_name(c->command));
    qlft_status status = QLFT_OK;
    const char *group = "";
    for (int i = 0; i < options_count && status == QLFT_OK; i++) {
        const option_row *row = &options[i];
        if (!(row->commands & c->command) || (row->flags & OPTION_NO_RECIPE)) continue;
        if (strcmp(group, row->info.group) != 0) file_writer_print(&w, "\n# ---- %s ----\n", row->info.group);
        group = row->info.group;
        status = write_option(&w, c, row);
    }
    if (status == QLFT_OK) return file_writer_commit(&w);
    file_writer_abandon(&w);
    return status;
}
