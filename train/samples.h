/* Answers to a few held-out rows before and after training, for the report: what the numbers mean to a person. */
#ifndef TRAIN_SAMPLES_H
#define TRAIN_SAMPLES_H

#include "train/prompts.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SAMPLE_TOKENS = 64 }; /* of an answer at most */

typedef struct samples {
    prompt_list prompts;
    char **before, **after; /* [prompts.count], NULL: not answered */
} samples;

/* The first --samples rows of --eval-data; none without eval data or for rows of ids. Sets what the plan must hold for answering (choice.cache_tokens).
 * After run_open_data, whose tokenizer must stay open as long as samples are answered. */
qlft_status samples_open(samples *s, run *r);
void samples_close(samples *s); /* accepts a zeroed one */
/* Answers greedily with the present weights, into before or after. */
qlft_status samples_answer(samples *s, run *r, bool after);
/* [{"prompt", "before", "after"}], those with both answers. Yours; NULL without memory. */
json_t *samples_json(const samples *s);
/* The answers before training, as a checkpoint keeps them: ["...", ...]; NULL without memory. And back; a list of another length is ignored. */
json_t *samples_before_json(const samples *s);
qlft_status samples_before_from(samples *s, const json_t *list);

#ifdef __cplusplus
}
#endif
#endif
