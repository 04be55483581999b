/* JSON by jansson, with messages that name file and key. Values are jansson's own (json_t); equal keys: the last one wins. */
#ifndef CORE_JSON_H
#define CORE_JSON_H

#include <jansson.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parses text (not NUL-terminated, strict UTF-8, NUL allowed in strings). `what` names the source in messages.
 * The value is yours: json_decref. */
qlft_status json_parse(json_t **out, const char *text, size_t bytes, const char *what);
qlft_status json_read_file(json_t **out, const char *path, size_t limit_bytes);
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
