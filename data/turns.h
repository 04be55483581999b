/* The turns of a conversation in its rendered text: which bytes, and then which tokens, an assistant has to produce. Internal to data/. */
#ifndef DATA_TURNS_H
#define DATA_TURNS_H

#include "data/chat.h"
#include "data/rows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Renders the messages of `list` into an empty `out`; the turns of assistants from message `first` on (0-based) are target spans, up to the end of what they
 * say. `object` is the row, for what else templates ask for (tools). */
qlft_status turns_render(row_text *out, const json_t *list, const json_t *object, size_t first, data_train_on train_on, const chat *c);

/* What is served to get the next answer: the messages without an assistant's last one, and the generation prompt. */
qlft_status turns_prompt(row_text *out, const json_t *list, const json_t *object, const chat *c);

/* Moves the end of each span behind the token that ends its turn. false: at least one turn has no such token, so its end is not learned. */
bool turns_extend(row_text *t, const token_list *tokens, const tokenizer *tok);

#ifdef __cplusplus
}
#endif
#endif
