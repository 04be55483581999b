/* A subset of Jinja2 that chat templates need, rendered as transformers does it (trim_blocks, lstrip_blocks, loop controls), with a trace of where text comes
 * from.
 *
 * Every string value may carry, per byte, an origin: 0 = the template's own text, k > 0 = the input string that was marked with k. All string operations
 * (concatenation, slices, trim, strip, replace, split, tojson, ...) carry origins along, so the output says which of its bytes are message 3's content.
 * An unsupported construct is QLFT_EUNSUPPORTED, a broken template QLFT_EFORMAT, raise_exception QLFT_EFORMAT with its text: all with the line and the line's
 * text. */
#ifndef DATA_JINJA_H
#define DATA_JINJA_H

#include <time.h>

#include "core/json.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct jinja_template jinja_template;

/* Compiles. `what` names the source in messages ("tokenizer_config.json: chat_template"). */
qlft_status jinja_compile(jinja_template **out, const char *source, size_t bytes, const char *what);
void jinja_free(jinja_template *t); /* accepts NULL */

/* An input string of `variables` whose bytes are traced: identified by its json_t pointer. */
typedef struct jinja_origin {
    const json_t *string;
    uint16_t mark;
} jinja_origin;

/* 0: defaults 64 MiB, 10 million, 100. depth: macros within macros; expressions, statements and values may nest 16 times as deep.
 * Working memory is limited to 16 times the output and 64 MiB. */
typedef struct jinja_limits {
    size_t output_bytes, steps;
    int depth;
} jinja_limits;

typedef struct jinja_output {
    char *text; /* NUL-terminated behind bytes */
    size_t bytes;
    uint16_t *origins; /* [bytes] */
    /* Where a marked string that is empty (or became empty, as by trim) was written: position in text and its mark. */
    struct {
        size_t at;
        uint16_t mark;
    } * empties;
    size_t empty_count;
} jinja_output;
void jinja_output_free(jinja_output *o);

/* variables: an object (messages, add_generation_prompt, bos_token, ...). now: for strftime_now (0: the present time). */
qlft_status jinja_render(jinja_output *out, const jinja_template *t, const json_t *variables, const jinja_origin *origins, size_t origin_count,
                         const jinja_limits *limits, time_t now);

#ifdef __cplusplus
}
#endif
#endif
