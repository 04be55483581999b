/* The formats of rows: a JSON object to rendered text, with the bytes that are targets. Internal to data/. */
#ifndef DATA_FORMATS_H
#define DATA_FORMATS_H

#include "data/rows.h"
#include "data/turns.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct format_context {
    const chat *template_of; /* NULL: the model has none */
    data_train_on train_on;
    bool prompt_only;
} format_context;

const char *format_name(data_format format);

/* The format of a row by its keys; `preferred` (that of the file's last good row) wins if the row has its keys. FORMAT_AUTO if no key is known. */
data_format format_detect(const json_t *object, data_format preferred);

/* QLFT_EFORMAT: the row is not usable; the message names the field or the message of the conversation, and the type found. Not for FORMAT_TOKENS. */
qlft_status format_render(row_text *out, data_format format, const json_t *object, const format_context *context);

/* "true", "a number", "a list", ..., "missing" for NULL. */
const char *format_type(const json_t *value);

#ifdef __cplusplus
}
#endif
#endif
