/* Where weights come from: safetensors (a folder, a file, an index) or GGUF, behind names as on the hub. */
#ifndef MODEL_SOURCE_H
#define MODEL_SOURCE_H

#include "core/safetensors.h"
#include "model/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct source {
    char *path;   /* as given */
    char *folder; /* where config.json and the tokenizer lie; for GGUF the file itself (it holds its tokenizer) */
    bool is_gguf;
    safetensors weights;
    gguf file;
    shape dims;
} source;

/* One tensor as it lies in the source. */
typedef struct source_tensor {
    char name[160];            /* in the source: for messages */
    int64_t rows, cols, count; /* rank 1: rows 1 */
    dtype type;                /* it is read as: F32, F16 or BF16. GGUF's quantized types are read as BF16, as transformers loads them for BF16 training */
    const safetensors_entry *entry;
    const gguf_tensor *packed;
    int permuted_heads; /* GGUF q and k of llama files: heads whose rows are in pair order; else 0 */
} source_tensor;

/* PATH: a model folder, a .safetensors file, a model.safetensors.index.json, or a .gguf. Reads headers and config only. */
qlft_status source_open(source *out, const char *path);
void source_close(source *s); /* accepts a zeroed one */

/* The weight (or bias) of a role in layer `layer` (-1 for those of the whole model), checked against rows x cols. A missing one is an error that names it;
 * with `optional` it gives out->count == 0 instead. */
qlft_status source_find(source_tensor *out, const source *s, tensor_role role, int layer, bool bias, int64_t rows, int64_t cols, bool optional);
/* Reads the whole tensor as t->type into out [count], rows in Hugging Face's order. Gives the file's pages back. */
qlft_status source_read(void *out, const source *s, const source_tensor *t);
/* Factors of the rotary frequencies (GGUF rope_freqs.weight), [count]. */
qlft_status source_rope_factors(float *out, const source *s, int64_t count);
/* SHA-256 of the weights: of the file; of several files: of their lines "DIGEST  NAME\n" in order of name. */
qlft_status source_sha256(char hex[SHA256_HEX_BYTES], const source *s);
/* A quick identity, for telling whether a run is resumed on the same base: SHA-256 of names, types, shapes and of samples of each tensor. */
qlft_status source_fingerprint(char hex[SHA256_HEX_BYTES], const source *s);
/* Weights that no role names ("model.layers.0.self_attn.k_scale"): the next one from *at (0 at first), or NULL. Rotary tables that
 * checkpoints carry along are known. */
const char *source_stray(const source *s, int *at);

#ifdef __cplusplus
}
#endif
#endif
