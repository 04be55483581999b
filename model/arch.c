#include "model/arch.h"

#include <string.h>

static const tensor_name llama_names[TENSOR_ROLES] = {
    [TENSOR_Q] = {"model.layers.%d.self_attn.q_proj", "blk.%d.attn_q"},
    [TENSOR_K] = {"model.layers.%d.self_attn.k_proj", "blk.%d.attn_k"},
    [TENSOR_V] = {"model.layers.%d.self_attn.v_proj", "blk.%d.attn_v"},
    [TENSOR_O] = {"model.layers.%d.self_attn.o_proj", "blk.%d.attn_output"},
    [TENSOR_GATE] = {"model.layers.%d.mlp.gate_proj", "blk.%d.ffn_gate"},
    [TENSOR_UP] = {"model.layers.%d.mlp.up_proj", "blk.%d.ffn_up"},
    [TENSOR_DOWN] = {"model.layers.%d.mlp.down_proj", "blk.%d.ffn_down"},
    [TENSOR_NORM_ATTENTION] = {"model.layers.%d.input_layernorm", "blk.%d.attn_norm"},
    [TENSOR_NORM_MLP] = {"model.layers.%d.post_attention_layernorm", "blk.%d.ffn_norm"},
    [TENSOR_EMBED] = {"model.embed_tokens", "token_embd"},
    [TENSOR_FINAL_NORM] = {"model.norm", "output_norm"},
    [TENSOR_HEAD] = {"lm_head", "output"},
};

/* Keys of other families: present in a config with an effective value they mean a model that these rows do not compute. */
static const char *const plain_refuse_keys[] = {"sliding_window",
                                                "attn_logit_softcapping",
                                                "final_logit_softcapping",
                                                "query_pre_attn_scalar",
                                                "embedding_multiplier",
                                                "attention_multiplier",
                                                "residual_multiplier",
                                                "logits_scaling",
                                                "num_local_experts",
                                                "num_experts",
                                                "no_rope_layers",
                                                "layer_types",
                                                "clip_qkv",
                                                "qk_layernorm",
                                                "use_qk_norm",
                                                "num_nextn_predict_layers",
                                                NULL};

const arch archs[] = {
    {"llama", "LlamaForCausalLM", "llama", llama_names, true, plain_refuse_keys},
};
const int archs_count = (int)(sizeof archs / sizeof archs[0]);

const arch *arch_of_model_type(const char *model_type)
{
    for (int i = 0; i < archs_count; i++)
        if (strcmp(archs[i].model_type, model_type) == 0) return &archs[i];
    return NULL;
}

const arch *arch_of_gguf(const char *name, size_t bytes)
{
    for (int i = 0; i < archs_count; i++)
        if (strlen(archs[i].gguf_name) == bytes && memcmp(archs[i].gguf_name, name, bytes) == 0) return &archs[i];
    return NULL;
}

const char *arch_list(void)
{
    static _Thread_local char text[256];
    text[0] = 0;
    for (int i = 0; i < archs_count; i++) {
        if (i) strncat(text, ", ", sizeof text - strlen(text) - 1);
        strncat(text, archs[i].model_type, sizeof text - strlen(text) - 1);
    }
    return text;
}
