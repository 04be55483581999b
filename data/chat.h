/* Conversations as text: the chat template of a model applied to messages, with the places in the text that each message's own words take. */
#ifndef DATA_CHAT_H
#define DATA_CHAT_H

#include "data/jinja.h"
#include "data/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct chat chat;

/* Bytes [start, end) of the text come from message `message` (0-based): a piece of its content, its reasoning_content or its tool_calls. */
typedef struct chat_span {
    size_t start, end;
    int message;
} chat_span;

typedef struct chat_text {
    char *text; /* NUL-terminated behind bytes */
    size_t bytes;
    /* In the order of the text, disjoint. A message may have several (the template writes something between), or, if all that it says is empty, one empty one
     * where it would stand. White space that the template trims is in none. */
    chat_span *spans;
    size_t span_count;
} chat_text;
void chat_text_free(chat_text *t);

/* Compiles the template: of the file `template_path`, or, if that is NULL or "auto", the model's own, whose lack is QLFT_EUNSUPPORTED with the remedy.
 * tok gives the template and the texts of bos and eos; it may be NULL with a file, and must outlive *out. The present time, for templates that write the date,
 * is that of opening, so that all rows of a run say the same. */
qlft_status chat_open(chat **out, const tokenizer *tok, const char *template_path);
void chat_close(chat *c);               /* accepts NULL */
const char *chat_source(const chat *c); /* the template's text. Borrowed */

/* Renders `messages`, an array of {"role": ..., "content": ...}. row: the object they came from, whose lists `tools` and `documents` the template may ask for;
 * may be NULL. Errors besides the template's own, which name the message by index (1-based) and role: QLFT_EFORMAT if the words of an assistant appear nowhere
 * or twice, or if the text would be the same without what another message says. Thread-safe for one chat and different messages. */
qlft_status chat_render(chat_text *out, const chat *c, const json_t *messages, const json_t *row, bool generation_prompt);

#ifdef __cplusplus
}
#endif
#endif
