/* PEFT adapter folders: adapter_config.json + adapter_model.safetensors. */
#ifndef LORA_PEFT_H
#define LORA_PEFT_H

#include "core/safetensors.h"
#include "lora/adapter.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct peft_config {
    int rank;
    double alpha, dropout;
    bool rslora;
} peft_config;

/* The factor on B A x: alpha / r, or alpha / sqrt(r) with rank-stabilised scaling. */
double peft_scale(const peft_config *c);

typedef struct peft_module {
    char name[128];                 /* "model.layers.0.self_attn.q_proj" */
    const safetensors_entry *a, *b; /* [R, in], [out, R] */
} peft_module;

typedef struct peft_adapter {
    char *folder;
    peft_config config;
    safetensors file;
    peft_module *modules; /* by name */
    int count;
} peft_adapter;

/* Reads and checks: only LoRA, only lora_A / lora_B pairs of one rank; features that change the mathematics (DoRA, biases, rank patterns, saved modules ...)
 * are refused by name. */
qlft_status peft_open(peft_adapter *out, const char *folder);
void peft_close(peft_adapter *p); /* accepts a zeroed one */
/* A and B of a module into the flat FP32 master of l (offset, rank, in and out as attached). Shapes are checked; values that are not finite are refused. */
qlft_status peft_read_module(float *master, const peft_adapter *p, const peft_module *module, const linear *l);

/* Writes both files into an existing folder; FP32. Refuses values that are not finite, and a B that is all zero: such an adapter does nothing.
 * `base` is base_model_name_or_path; `layers`: of the model, to tell targets in every layer from targets in some. `allow_zero_b`: checkpoints before anything
 * was learned. */
qlft_status peft_write(const char *folder, linear *const *list, int count, int layers, const float *master, const peft_config *config, const char *base,
                       bool allow_zero_b, char sha256[SHA256_HEX_BYTES]);

/* The next rank of vLLM's list (max_lora_rank) at or above r; 0 if r is above 512. */
int peft_vllm_rank(int rank);

#ifdef __cplusplus
}
#endif
#endif
