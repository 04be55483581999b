#include "model/shape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = 1024, MAX_HEADS = 4096, MAX_HEAD_SIZE = 256 };
static const int64_t max_width = 1 << 20, max_vocabulary = 1 << 24;

static qlft_status in_range(int64_t value, int64_t most, const char *key, const char *what)
{
    if (value >= 1 && value <= most) return QLFT_OK;
    return status_fail(QLFT_EFORMAT, "%s: %s is %lld, expected 1 to %lld", what, key, (long long)value, (long long)most);
}

/* Checks that hold for every source of the numbers. */
static qlft_status shape_check(const shape *s, const char *what)
{
    QLFT_TRY(in_range(s->layers, MAX_LAYERS, "the number of layers", what));
    QLFT_TRY(in_range(s->heads, MAX_HEADS, "the number of attention heads", what));
    QLFT_TRY(in_range(s->key_heads, MAX_HEADS, "the number of key-value heads", what));
    QLFT_TRY(in_range(s->head_size, MAX_HEAD_SIZE, "head_dim", what));
    QLFT_TRY(in_range(s->width, max_width, "the hidden size", what));
    QLFT_TRY(in_range(s->inner, max_width, "the intermediate size", what));
    QLFT_TRY(in_range(s->vocabulary, max_vocabulary, "vocab_size", what));
    if (s->heads % s->key_heads)
        return status_fail(QLFT_EFORMAT, "%s: %d attention heads cannot share %d key-value heads evenly", what, s->heads, s->key_heads);
    if (s->head_size % 2) return status_fail(QLFT_EFORMAT, "%s: head_dim is %d; rotary embedding needs an even number", what, s->head_size);
    if (!(s->norm_eps >= 0.0 && s->norm_eps < 1.0)) return status_fail(QLFT_EFORMAT, "%s: rms_norm_eps is %g, expected 0 to 1", what, s->norm_eps);
    if (!(s->rope.theta > 0.0) || !isfinite(s->rope.theta))
        return status_fail(QLFT_EFORMAT, "%s: rope_theta is %g, expected a number above 0", what, s->rope.theta);
    if (!(s->rope.factor > 0.0) || !isfinite(s->rope.factor))
        return status_fail(QLFT_EFORMAT, "%s: the rope factor is %g, expected a number above 0", what, s->rope.factor);
    return QLFT_OK;
}

bool shape_has_bias(const shape *s, tensor_role role)
{
    if (role >= TENSOR_LINEARS) return false;
    return role <= TENSOR_O ? s->attention_bias : s->mlp_bias;
}

/* ---- config.json ---- */

static qlft_status get_required(int64_t *out, const json_t *config, const char *key, const char *what)
{
    QLFT_TRY(json_get_int(out, config, key, INT64_MIN, what));
    if (*out == INT64_MIN) return status_fail(QLFT_EFORMAT, "%s: %s is missing; is this the config.json of a model?", what, key);
    return QLFT_OK;
}

static const struct {
    const char *name;
    rope_kind kind;
} rope_kinds[] = {{"default", ROPE_DEFAULT}, {"linear", ROPE_LINEAR}, {"llama3", ROPE_LLAMA3}};

static qlft_status rope_kind_from_name(rope_kind *out, const char *name, const char *what)
{
    for (size_t i = 0; i < sizeof rope_kinds / sizeof rope_kinds[0]; i++) {
        if (strcmp(rope_kinds[i].name, name) != 0) continue;
        *out = rope_kinds[i].kind;
        return QLFT_OK;
    }
    return status_fail(QLFT_EUNSUPPORTED, "%s: rope scaling of type \"%s\" is not supported; this version knows default, linear and llama3", what, name);
}

/* `holder`: the configuration or its rope_parameters. */
static qlft_status whole_rotary(const json_t *holder, const char *what)
{
    double partial = 1.0;
    QLFT_TRY(json_get_double(&partial, holder, "partial_rotary_factor", 1.0, what));
    return partial == 1.0 ? QLFT_OK : status_fail(QLFT_EUNSUPPORTED, "%s: partial_rotary_factor %g is not supported, only 1", what, partial);
}

/* Both spellings: rope_theta + rope_scaling {type | rope_type}, and rope_parameters that hold rope_theta too. */
static qlft_status rope_from_config(rope_shape *rope, const json_t *config, const char *what)
{
    const json_t *scaling = json_object_get(config, "rope_parameters");
    const char *name = NULL;
    QLFT_TRY(json_get_double(&rope->theta, config, "rope_theta", 10000.0, what));
    if (!scaling || json_is_null(scaling)) scaling = json_object_get(config, "rope_scaling");
    rope->kind = ROPE_DEFAULT;
    rope->factor = 1.0;
    if (!scaling || json_is_null(scaling)) return QLFT_OK;
    if (!json_is_object(scaling)) return status_fail(QLFT_EFORMAT, "%s: rope_scaling is not an object", what);
    QLFT_TRY(whole_rotary(scaling, what));
    QLFT_TRY(json_get_string(&name, scaling, "type", NULL, what));
    QLFT_TRY(json_get_string(&name, scaling, "rope_type", name, what));
    QLFT_TRY(rope_kind_from_name(&rope->kind, name ? name : "default", what));
    QLFT_TRY(json_get_double(&rope->theta, scaling, "rope_theta", rope->theta, what));
    QLFT_TRY(json_get_double(&rope->factor, scaling, "factor", rope->kind == ROPE_DEFAULT ? 1.0 : 0.0, what));
    if (rope->kind != ROPE_LLAMA3) return QLFT_OK;
    QLFT_TRY(json_get_double(&rope->low_freq_factor, scaling, "low_freq_factor", 0.0, what));
    QLFT_TRY(json_get_double(&rope->high_freq_factor, scaling, "high_freq_factor", 0.0, what));
    QLFT_TRY(json_get_int(&rope->original_max_positions, scaling, "original_max_position_embeddings", 0, what));
    if (rope->low_freq_factor > 0.0 && rope->high_freq_factor > rope->low_freq_factor && rope->original_max_positions > 0) return QLFT_OK;
    return status_fail(QLFT_EFORMAT, "%s: rope scaling llama3 needs low_freq_factor < high_freq_factor and original_max_position_embeddings", what);
}

static qlft_status refuse_keys(const json_t *config, const char *const *keys, const char *what)
{
    for (; *keys; keys++) {
        const json_t *value = json_object_get(config, *keys);
        if (!value || json_is_null(value) || json_is_false(value)) continue;
        return status_fail(QLFT_EUNSUPPORTED, "%s: %s changes the mathematics and is not supported for this model type", what, *keys);
    }
    return QLFT_OK;
}

static qlft_status config_features(shape *out, const json_t *config, const char *what)
{
    const char *text = NULL;
    QLFT_TRY(json_get_string(&text, config, "hidden_act", "silu", what));
    if (strcmp(text, "silu") != 0)
        return status_fail(QLFT_EUNSUPPORTED, "%s: hidden_act \"%s\" is not supported for %s, only silu", what, text, out->kind->model_type);
    QLFT_TRY(whole_rotary(config, what));
    if (json_is_object(json_object_get(config, "quantization_config")))
        return status_fail(
            QLFT_EUNSUPPORTED,
            "%s: quantization_config: this checkpoint is quantized already; this version reads F32, F16 and BF16 weights (it quantizes itself) and GGUF", what);
    QLFT_TRY(json_get_bool(&out->attention_bias, config, "attention_bias", false, what));
    QLFT_TRY(json_get_bool(&out->mlp_bias, config, "mlp_bias", false, what));
    QLFT_TRY(json_get_bool(&out->tied, config, "tie_word_embeddings", false, what));
    return refuse_keys(config, out->kind->refuse_keys, what);
}

qlft_status shape_from_config(shape *out, const json_t *config, const char *what)
{
    const char *model_type = NULL;
    int64_t layers = 0, heads = 0, key_heads = 0, head_size = 0;
    memset(out, 0, sizeof *out);
    if (!json_is_object(config)) return status_fail(QLFT_EFORMAT, "%s: not a JSON object", what);
    QLFT_TRY(json_get_string(&model_type, config, "model_type", NULL, what));
    if (!model_type) return status_fail(QLFT_EFORMAT, "%s: model_type is missing; is this the config.json of a model?", what);
    out->kind = arch_of_model_type(model_type);
    if (!out->kind) return status_fail(QLFT_EUNSUPPORTED, "%s: model_type \"%s\" is not supported; this version knows: %s", what, model_type, arch_list());
    QLFT_TRY(get_required(&layers, config, "num_hidden_layers", what));
    QLFT_TRY(get_required(&heads, config, "num_attention_heads", what));
    QLFT_TRY(get_required(&out->width, config, "hidden_size", what));
    QLFT_TRY(get_required(&out->inner, config, "intermediate_size", what));
    QLFT_TRY(get_required(&out->vocabulary, config, "vocab_size", what));
    QLFT_TRY(json_get_int(&key_heads, config, "num_key_value_heads", heads, what));
    QLFT_TRY(in_range(heads, MAX_HEADS, "num_attention_heads", what));
    QLFT_TRY(json_get_int(&head_size, config, "head_dim", 0, what));
    if (head_size == 0) {
        if (out->width % heads)
            return status_fail(QLFT_EFORMAT, "%s: hidden_size %lld is no multiple of num_attention_heads %lld and head_dim is missing", what,
                               (long long)out->width, (long long)heads);
        head_size = out->width / heads;
    }
    QLFT_TRY(in_range(layers, MAX_LAYERS, "num_hidden_layers", what));
    QLFT_TRY(in_range(key_heads, MAX_HEADS, "num_key_value_heads", what));
    QLFT_TRY(in_range(head_size, MAX_HEAD_SIZE, "head_dim", what));
    out->layers = (int)layers;
    out->heads = (int)heads;
    out->key_heads = (int)key_heads;
    out->head_size = (int)head_size;
    QLFT_TRY(json_get_int(&out->max_positions, config, "max_position_embeddings", 0, what));
    QLFT_TRY(json_get_double(&out->norm_eps, config, "rms_norm_eps", 1e-6, what));
    QLFT_TRY(rope_from_config(&out->rope, config, what));
    QLFT_TRY(config_features(out, config, what));
    return shape_check(out, what);
}

/* ---- GGUF ---- */

/* Integer metadata "ARCH.suffix". */
static qlft_status gguf_size(int64_t *out, const gguf *g, const shape *s, const char *suffix, int64_t missing, const char *what)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", s->kind->gguf_name, suffix);
    qlft_status status = gguf_get_int(out, g, key, missing);
    if (status != QLFT_OK) return status_prefix(status, "%s: ", what);
    if (*out == INT64_MIN) return status_fail(QLFT_EFORMAT, "%s: metadata %s is missing", what, key);
    return QLFT_OK;
}

static qlft_status gguf_number(double *out, const gguf *g, const shape *s, const char *suffix, double missing, const char *what)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", s->kind->gguf_name, suffix);
    qlft_status status = gguf_get_double(out, g, key, missing);
    return status == QLFT_OK ? status : status_prefix(status, "%s: ", what);
}

/* Metadata that changes the mathematics; a scale of 1 changes nothing, and 0 means "not used". */
static qlft_status refuse_metadata(const gguf *g, const shape *s, const char *what)
{
    static const struct {
        const char *suffix;
        double neutral;
    } refused[] = {{"attention.scale", 0.0},
                   {"attention.clamp_kqv", 0.0},
                   {"attention.max_alibi_bias", 0.0},
                   {"attention.sliding_window", 0.0},
                   {"attn_logit_softcapping", 0.0},
                   {"final_logit_softcapping", 0.0},
                   {"logit_scale", 1.0},
                   {"residual_scale", 1.0},
                   {"embedding_scale", 1.0},
                   {"rope.scaling.attn_factor", 1.0}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        double value = 0.0;
        QLFT_TRY(gguf_number(&value, g, s, refused[i].suffix, 0.0, what));
        if (value != 0.0 && value != refused[i].neutral)
            return status_fail(QLFT_EUNSUPPORTED, "%s: metadata %s.%s = %g changes the mathematics and is not supported for this architecture", what,
                               s->kind->gguf_name, refused[i].suffix, value);
    }
    return QLFT_OK;
}

static qlft_status rope_from_gguf(rope_shape *rope, const gguf *g, const shape *s, const char *what)
{
    char key[128];
    gguf_string type = {NULL, 0};
    QLFT_TRY(gguf_number(&rope->theta, g, s, "rope.freq_base", 10000.0, what));
    QLFT_TRY(gguf_number(&rope->factor, g, s, "rope.scaling.factor", 1.0, what));
    snprintf(key, sizeof key, "%s.rope.scaling.type", s->kind->gguf_name);
    QLFT_TRY(gguf_get_string(&type, g, key));
    rope->kind = ROPE_DEFAULT;
    if (gguf_find_tensor(g, "rope_freqs.weight")) {
        rope->kind = ROPE_FACTORS; /* one factor a frequency: how GGUF says llama3 */
        rope->factor = 1.0;
    }
    if (!type.text || (type.bytes == 4 && memcmp(type.text, "none", 4) == 0)) return QLFT_OK;
    if (type.bytes == 6 && memcmp(type.text, "linear", 6) == 0 && rope->kind == ROPE_DEFAULT) {
        rope->kind = ROPE_LINEAR;
        return QLFT_OK;
    }
    return status_fail(QLFT_EUNSUPPORTED, "%s: rope scaling of type \"%.*s\" is not supported; this version knows linear and rope_freqs", what,
                       (int)(type.bytes < 80 ? type.bytes : 80), type.text);
}

qlft_status shape_from_gguf(shape *out, const gguf *g, const char *what)
{
    gguf_string name = {NULL, 0};
    int64_t layers = 0, heads = 0, key_heads = 0, head_size = 0, value_size = 0, rotated = 0, experts = 0;
    const gguf_tensor *embed = gguf_find_tensor(g, "token_embd.weight");
    memset(out, 0, sizeof *out);
    QLFT_TRY(gguf_get_string(&name, g, "general.architecture"));
    if (!name.text) return status_fail(QLFT_EFORMAT, "%s: metadata general.architecture is missing", what);
    out->kind = arch_of_gguf(name.text, name.bytes);
    if (!out->kind)
        return status_fail(QLFT_EUNSUPPORTED, "%s: architecture \"%.*s\" is not supported; this version knows: %s", what,
                           (int)(name.bytes < 80 ? name.bytes : 80), name.text, arch_list());
    if (!embed || embed->rank != 2)
        return status_fail(QLFT_EFORMAT, "%s: no tensor token_embd.weight; a file that holds a vocabulary only cannot be trained", what);
    out->vocabulary = embed->shape[0];
    QLFT_TRY(gguf_size(&layers, g, out, "block_count", INT64_MIN, what));
    QLFT_TRY(gguf_size(&out->width, g, out, "embedding_length", INT64_MIN, what));
    QLFT_TRY(gguf_size(&out->inner, g, out, "feed_forward_length", INT64_MIN, what));
    QLFT_TRY(gguf_size(&heads, g, out, "attention.head_count", INT64_MIN, what));
    QLFT_TRY(in_range(heads, MAX_HEADS, "attention.head_count", what));
    QLFT_TRY(gguf_size(&key_heads, g, out, "attention.head_count_kv", heads, what));
    QLFT_TRY(gguf_size(&head_size, g, out, "attention.key_length", out->width / heads, what));
    QLFT_TRY(gguf_size(&value_size, g, out, "attention.value_length", head_size, what));
    QLFT_TRY(gguf_size(&rotated, g, out, "rope.dimension_count", head_size, what));
    QLFT_TRY(gguf_size(&experts, g, out, "expert_count", 0, what));
    QLFT_TRY(gguf_size(&out->max_positions, g, out, "context_length", 0, what));
    if (value_size != head_size || rotated != head_size)
        return status_fail(QLFT_EUNSUPPORTED, "%s: value_length %lld and rope.dimension_count %lld must equal key_length %lld", what, (long long)value_size,
                           (long long)rotated, (long long)head_size);
    if (experts > 0)
        return status_fail(QLFT_EUNSUPPORTED, "%s: mixtures of experts (expert_count %lld) are not supported in this version", what, (long long)experts);
    QLFT_TRY(in_range(layers, MAX_LAYERS, "block_count", what));
    QLFT_TRY(in_range(key_heads, MAX_HEADS, "attention.head_count_kv", what));
    QLFT_TRY(in_range(head_size, MAX_HEAD_SIZE, "attention.key_length", what));
    out->layers = (int)layers;
    out->heads = (int)heads;
    out->key_heads = (int)key_heads;
    out->head_size = (int)head_size;
    out->tied = !gguf_find_tensor(g, "output.weight");
    out->attention_bias = gguf_find_tensor(g, "blk.0.attn_q.bias") != NULL;
    out->mlp_bias = gguf_find_tensor(g, "blk.0.ffn_up.bias") != NULL;
    QLFT_TRY(gguf_number(&out->norm_eps, g, out, "attention.layer_norm_rms_epsilon", 1e-5, what));
    QLFT_TRY(rope_from_gguf(&out->rope, g, out, what));
    QLFT_TRY(refuse_metadata(g, out, what));
    return shape_check(out, what);
}
