/* Which linear layers get an adapter: "all-linear", a list of names ("q_proj,v_proj", or full ones), or a pattern. */
#ifndef LORA_TARGETS_H
#define LORA_TARGETS_H

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct targets targets;

/* As PEFT reads target_modules: a list matches a module whose name is an entry or ends in ".entry"; a text with characters that no name has is a regular
 * expression (PCRE2) that must match the whole name. */
qlft_status targets_open(targets **out, const char *text);
void targets_close(targets *t); /* accepts NULL */
/* Marks the entry that matched as used. */
bool targets_match(targets *t, const char *module);
/* QLFT_EARG that names an entry that no module of the model matched. `known` lists what there is, for the message. */
qlft_status targets_check_used(const targets *t, const char *known);

#ifdef __cplusplus
}
#endif
#endif
