/* Sizes and numbers of a model, from config.json or GGUF metadata. */
#ifndef MODEL_SHAPE_H
#define MODEL_SHAPE_H

#include "core/gguf.h"
#include "core/json.h"
#include "model/arch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_FACTORS } rope_kind;

/* Numbers of the rotary embedding as configured. */
typedef struct rope_shape {
    rope_kind kind;
    double theta, factor, low_freq_factor, high_freq_factor;
    int64_t original_max_positions;
} rope_shape;

typedef struct shape {
    const arch *kind;
    int layers, heads, key_heads, head_size;
    int64_t width, inner, vocabulary, max_positions;
    bool tied, attention_bias, mlp_bias;
    double norm_eps;
    rope_shape rope;
} shape;

/* Does the role's matrix have a bias? */
bool shape_has_bias(const shape *s, tensor_role role);

/* `what` names the file in messages. Every key that changes the mathematics and is not known is refused by name. */
qlft_status shape_from_config(shape *out, const json_t *config, const char *what);
qlft_status shape_from_gguf(shape *out, const gguf *g, const char *what);

#ifdef __cplusplus
}
#endif
#endif
