/* JSON by jansson, with messages that name file and key. Values are jansson's own (json_t); equal keys: the last one wins. */
#ifndef CORE_JSON_H
#define CORE_JSON_H

#include <jansson.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parses text (not NUL-terminated, strict UTF-8, NUL allowed in strings). Any value may stand at the top: test what you got.
 * Integers beyond 64 bits, as Hugging Face writes for "no limit", become reals. Messages name `what`, line and column.
 * The value is yours: json_decref. */
qlft_status json_parse(json_t **out, const char *text, size_t bytes, const char *what);
qlft_status json_read_file(json_t **out, const char *path, size_t limit_bytes);
/* The value as text, yours to free(), reals in the shortest form that reads back equal, keys in insertion order.
 * `indent` 0 is one line; no newline at the end. */
qlft_status json_print(char **out, const json_t *value, int indent);
/* New values for what JSON may be unable to say: a path that is not UTF-8, a number that is not finite. */
json_t *json_string_or_null(const char *text);
json_t *json_real_or_null(double value);
/* Written whole or not at all, indented by 1, keys in insertion order. */
qlft_status json_write_file(const json_t *value, const char *path);

/* Typed members of `object`. A missing or null key gives the default and QLFT_OK; another type is QLFT_EFORMAT naming `what` and the key. */
qlft_status json_get_int(int64_t *out, const json_t *object, const char *key, int64_t missing, const char *what);
qlft_status json_get_double(double *out, const json_t *object, const char *key, double missing, const char *what);
qlft_status json_get_bool(bool *out, const json_t *object, const char *key, bool missing, const char *what);
qlft_status json_get_string(const char **out, const json_t *object, const char *key, const char *missing, const char *what); /* borrowed */

#ifdef __cplusplus
}
#endif
#endif
