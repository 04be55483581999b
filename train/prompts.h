/* Prompts: token ids, and the rows of files as what comes in front of their answers. */
#ifndef TRAIN_PROMPTS_H
#define TRAIN_PROMPTS_H

#include "train/run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct id_list {
    int32_t *ids; /* heap: free() */
    int64_t count, capacity;
} id_list;

qlft_status id_list_add(id_list *list, const int32_t *ids, int64_t count);
/* An answer as any reader takes it: special tokens left out, bytes that are no UTF-8 (a model can say any) as U+FFFD. Until it has `ended`, a character that is
 * not complete at its end is held back; what was there stays as more ids come. *text is yours. */
qlft_status answer_text(char **text, size_t *bytes, const tokenizer *tok, const id_list *ids, bool ended);

typedef struct prompt_row {
    int64_t line;
    int32_t file;
    char *text, *error;                     /* rendered, NUL-terminated behind bytes; or why the row cannot be used */
    size_t bytes, asked_start, asked_bytes; /* of text; asked: what is said last in it, for people */
    id_list ids;
} prompt_row;

typedef struct prompt_list {
    prompt_row *rows;
    int64_t count, capacity, longest; /* longest: tokens */
    int64_t limit;                    /* rows to read at most; 0: all */
    qlft_status status;
} prompt_list;

/* Reads the rows of files as prompts, with the run's tokenizer, format and template. `limit` rows at most, 0: all. A row that cannot be used is QLFT_EFORMAT
 * with
 * --on-bad-row stop, else it is kept with its error. Rows belong to the list: prompt_list_free. */
qlft_status prompt_list_read(prompt_list *list, const run *r, char **paths, int path_count, int64_t limit);
void prompt_list_free(prompt_list *list); /* accepts a zeroed one */

#ifdef __cplusplus
}
#endif
#endif
