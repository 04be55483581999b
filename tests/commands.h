/* Commands in this process, through the public interface: RUN("train", "base", path, "r", "8", NULL). */
#ifndef TESTS_COMMANDS_H
#define TESTS_COMMANDS_H

#include <stdarg.h>

#include "core/json.h"
#include "core/safetensors.h"
#include "qlft.h"
#include "temporary.h"

/* A configuration for a command from option, value pairs that end with NULL. */
static inline qlft_config *configured(const char *command, va_list options)
{
    qlft_config *c = NULL;
    OK(qlft_config_new(&c, command));
    for (const char *key; (key = va_arg(options, const char *)) != NULL;) OK(qlft_config_set(c, key, va_arg(options, const char *)));
    return c;
}

/* Runs a command that gives JSON. *json (may be NULL): the parsed result, or NULL if it failed; yours. */
static inline qlft_status run_command(json_t **json, const char *command, ...)
{
    va_list options;
    va_start(options, command);
    qlft_config *c = configured(command, options);
    va_end(options);
    char *text = NULL;
    qlft_status status = QLFT_EARG;
    if (!strcmp(command, "train")) status = qlft_train(&text, c, NULL);
    if (!strcmp(command, "plan")) status = qlft_plan(&text, c, NULL);
    if (!strcmp(command, "eval")) status = qlft_eval(&text, c, NULL);
    if (!strcmp(command, "probe")) status = qlft_probe(&text, c, NULL);
    if (!strcmp(command, "export")) status = qlft_export(&text, c, NULL);
    if (json) *json = NULL;
    if (json && text && !strcmp(command, "train"))
        OK(json_read_file(json, text, 64 << 20));
    else if (json && text)
        OK(json_parse(json, text, strlen(text), command));
    qlft_free(text);
    qlft_config_free(c);
    return status;
}

/* A tensor of a file as floats; *count elements; yours. */
static inline float *tensor_values(const safetensors *file, const char *name, int64_t *count)
{
    const safetensors_entry *e = safetensors_find(file, name);
    cr_assert(e, "%s lacks %s", file->files[0].path, name);
    float *values = malloc((size_t)e->count * sizeof *values + 4);
    OK(safetensors_to_f32(values, e, 0, e->count));
    *count = e->count;
    return values;
}

/* |a - b| / |b| in L2, over one tensor. */
static inline double relative_l2(const float *a, const float *b, int64_t count)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return sqrt(difference / norm);
}

static inline double number_at(const json_t *object, const char *first, const char *second)
{
    const json_t *value = json_object_get(object, first);
    if (second) value = json_object_get(value, second);
    cr_assert(json_is_number(value), "no number %s %s", first, second ? second : "");
    return json_number_value(value);
}

#endif
