/* Checkpoints: OUT/checkpoints/step-N/ with the adapter (PEFT) and state.safetensors (optimizer states; cursor and configuration as metadata). */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "train/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the run is: everything that the next step depends on, beside weights and states. */
typedef struct cursor {
    int64_t step;              /* optimizer steps done */
    int64_t epoch;             /* that the next micro-batch is of */
    int64_t micro_batch;       /* of that epoch: the next one */
    int64_t micro_step;        /* micro-batches done in the whole run */
    bool checked_a, checked_b; /* every A / B has been seen with a gradient */
} cursor;

/* evals: text that is kept beside the cursor (the evaluations so far). Writes a folder that appears whole or not at all, then removes older ones beyond --keep,
 * and later ones, which a run that was given up has left. */
qlft_status checkpoint_save(const run *r, const cursor *at, const char *evals);
/* Removes what a run that was killed left half written under --out; the folder must be locked. */
qlft_status checkpoint_sweep(const char *out);
/* The newest whole checkpoint under --out, or NULL in *path; yours. */
qlft_status checkpoint_find(char **path, const char *out);
/* *evals: as saved; yours. Reads adapter and states into the run's memory. QLFT_EARG names an option that the run was started with differently. */
qlft_status checkpoint_load(run *r, cursor *at, char **evals, const char *path);

#ifdef __cplusplus
}
#endif
#endif
