/* LoRA adapters as llama.cpp reads them. */
#ifndef LORA_GGUF_LORA_H
#define LORA_GGUF_LORA_H

#include "core/gguf.h"
#include "lora/adapter.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gguf_lora_module {
    const linear *l;
    char name[96];      /* of the base tensor in GGUF: "blk.0.attn_q.weight" */
    int permuted_heads; /* rows of B go into pair order, as the base conversion permutes that weight's rows; 0: not */
} gguf_lora_module;

/* `architecture` as in the base's general.architecture. llama.cpp scales by alpha / r only, so alpha is written as scale * r: with rank-stabilised scaling too
 * the product comes out right. FP32. Refuses values that are not finite and an all-zero B. */
qlft_status gguf_lora_write(const char *path, const char *architecture, const gguf_lora_module *modules, int count, const float *master, double scale,
                            int rank);

#ifdef __cplusplus
}
#endif
#endif
