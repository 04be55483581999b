/* Families as rows of features. Sizes come from the model's own files; names of families are never tested in code. */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The tensors of a model. The first TENSOR_BLOCK_END are of each block (names hold %d), the rest of the whole model. */
typedef enum tensor_role {
    TENSOR_Q,
    TENSOR_K,
    TENSOR_V,
    TENSOR_O,
    TENSOR_GATE,
    TENSOR_UP,
    TENSOR_DOWN,
    TENSOR_LINEARS,
    TENSOR_NORM_ATTENTION = TENSOR_LINEARS,
    TENSOR_NORM_MLP,
    TENSOR_BLOCK_END,
    TENSOR_EMBED = TENSOR_BLOCK_END,
    TENSOR_FINAL_NORM,
    TENSOR_HEAD,
    TENSOR_ROLES
} tensor_role;

typedef struct tensor_name {
    const char *hf, *gguf;
} tensor_name; /* without ".weight" / ".bias" */

typedef struct arch {
    const char *model_type;         /* config.json: model_type */
    const char *hf_class;           /* config.json: architectures[0] */
    const char *gguf_name;          /* general.architecture */
    const tensor_name *names;       /* [TENSOR_ROLES] */
    bool gguf_permuted;             /* GGUF holds the rows of q and k in pair order */
    const char *const *refuse_keys; /* config keys that change the mathematics and that this family does not have; ends with NULL */
} arch;

extern const arch archs[];
extern const int archs_count;
const arch *arch_of_model_type(const char *model_type); /* NULL if unknown */
const arch *arch_of_gguf(const char *name, size_t bytes);
/* "llama, ...": for messages. */
const char *arch_list(void);

#ifdef __cplusplus
}
#endif
#endif
