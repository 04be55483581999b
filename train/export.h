/* Adapters of a run in other servers' formats. */
#ifndef TRAIN_EXPORT_H
#define TRAIN_EXPORT_H

#include "train/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The run's adapter as llama.cpp reads it. */
qlft_status export_gguf(const run *r, const char *path);

#ifdef __cplusplus
}
#endif
#endif
