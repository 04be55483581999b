#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

/* ---- open ---- */

/* What to make of a head in the file of a model that says its head is tied (case C04). */
static qlft_status choose_head(model *m)
{
    source_tensor head, embed;
    int64_t rows, cols;
    model_matrix_size(m, TENSOR_HEAD, &rows, &cols);
    QLFT_TRY(source_find(&embed, &m->source, TENSOR_EMBED, -1, false, rows, cols, false));
    QLFT_TRY(source_find(&head, &m->source, TENSOR_HEAD, -1, false, rows, cols, m->dims.tied));
    m->own_head = head.count > 0;
    if (!m->dims.tied || !m->own_head || !head.entry) return QLFT_OK;
    bool equal = head.type == embed.type && head.entry->bytes == embed.entry->bytes && memcmp(head.entry->data, embed.entry->data, head.entry->bytes) == 0;
    safetensors_forget(&m->source.weights, head.entry);
    safetensors_forget(&m->source.weights, embed.entry);
    m->own_head = !equal;
    if (!equal)
        log_warning("%s: tie_word_embeddings is true, but the file holds a %s with other values; it is used, as transformers does, but other servers take the "
                    "embedding instead",
                    m->source.path, head.name);
    return QLFT_OK;
}

/* Tensors that no role names: refused where leaving them out would change the model, else said once. */
static qlft_status check_strays(const model *m)
{
    const source *s = &m->source;
    const char *first = NULL, *name;
    for (int at = 0; (name = source_stray(s, &at)) != NULL;) {
        size_t length = strlen(name);
        if (strstr(name, "scale"))
            return status_fail(
                QLFT_EUNSUPPORTED,
                "%s: tensor %s looks like the scale of a quantized weight, and leaving it out would give wrong weights; use the unquantized model", s->path,
                name);
        /* GGUF has no key for biases: one that is there counts. */
        if (s->is_gguf && length > 5 && strcmp(name + length - 5, ".bias") == 0)
            return status_fail(QLFT_EUNSUPPORTED,
                               "%s: tensor %s is a bias where this version of the architecture adds none; leaving it out would change the model", s->path,
                               name);
        if (!first) first = name;
    }
    if (first)
        log_warning("%s: tensor %s (and perhaps others) is not part of this %s model of %d layers and is not used", s->path, first, m->dims.kind->model_type,
                    m->dims.layers);
    return QLFT_OK;
}

/* Every matrix and norm is there with its shape, before any memory is reserved. */
static qlft_status check_tensors(const model *m)
{
    source_tensor found;
    int64_t rows, cols;
    for (int layer = 0; layer < m->dims.layers; layer++)
        for (int role = 0; role < TENSOR_BLOCK_END; role++) {
            model_matrix_size(m, (tensor_role)role, &rows, &cols);
            QLFT_TRY(source_find(&found, &m->source, (tensor_role)role, layer, false, rows, cols, false));
            if (shape_has_bias(&m->dims, (tensor_role)role)) QLFT_TRY(source_find(&found, &m->source, (tensor_role)role, layer, true, 1, rows, false));
        }
    model_matrix_size(m, TENSOR_FINAL_NORM, &rows, &cols);
    QLFT_TRY(source_find(&found, &m->source, TENSOR_FINAL_NORM, -1, false, rows, cols, false));
    return check_strays(m);
}

static qlft_status name_linears(model *m)
{
    for (int layer = 0; layer < m->dims.layers; layer++)
        for (int role = 0; role < BLOCK_LINEARS; role++) {
            linear *l = &m->blocks[layer].linears[role];
            const char *pattern = m->dims.kind->names[role].hf, *hole = strstr(pattern, "%d");
            int used = snprintf(l->name, sizeof l->name, "%.*s%d%s", (int)(hole - pattern), pattern, layer, hole + 2);
            if (used < 0 || (size_t)used >= sizeof l->name) return status_fail(QLFT_EUNSUPPORTED, "the module name %s is too long", pattern);
            l->site = (uint64_t)layer * BLOCK_LINEARS + (uint64_t)role;
            model_matrix_size(m, (tensor_role)role, &l->out, &l->in);
        }
    return QLFT_OK;
}

qlft_status model_open(model **out, device *dev, const char *base)
{
    qlft_status status;
    model *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return status_fail(QLFT_ENOMEM, "out of memory");
    m->dev = dev;
    m->ops = ops_for(dev);
    if ((status = source_open(&m->source, base)) != QLFT_OK) goto done;
    m->dims = m->source.dims;
    m->blocks = calloc((size_t)m->dims.layers, sizeof *m->blocks);
    m->acts = calloc((size_t)m->dims.layers, sizeof *m->acts);
    m->inputs = calloc((size_t)m->dims.layers + 1, sizeof *m->inputs);
    m->inverse_frequency = calloc((size_t)m->dims.head_size / 2, sizeof *m->inverse_frequency);
    if (!m->blocks || !m->acts || !m->inputs || !m->inverse_frequency) {
        status = status_fail(QLFT_ENOMEM, "out of memory");
        goto done;
    }
    if ((status = name_linears(m)) != QLFT_OK || (status = choose_head(m)) != QLFT_OK) goto done;
    status = check_tensors(m);
done:
    if (status != QLFT_OK) {
        model_close(m);
        m = NULL;
    }
    *out = m;
    return status;
}

void model_close(model *m)
{
    if (!m) return;
    source_close(&m->source);
    free(m->blocks);
    free(m->acts);
    free(m->inputs);
    free(m->inverse_frequency);
    free(m);
}

/* ---- adapters ---- */

linear *model_linear(model *m, const char *module)
{
    for (int layer = 0; layer < m->dims.layers; layer++)
        for (int role = 0; role < BLOCK_LINEARS; role++)
            if (strcmp(m->blocks[layer].linears[role].name, module) == 0) return &m->blocks[layer].linears[role];
    return NULL;
}

int model_adapted(model *m, linear **list)
{
    int count = 0;
    for (int layer = 0; layer < m->dims.layers; layer++)
        for (int role = 0; role < BLOCK_LINEARS; role++) {
            linear *l = &m->blocks[layer].linears[role];
            if (!l->adapter) continue;
            if (list) list[count] = l;
            count++;
        }
    return count;
}

qlft_status model_adapt_linear(model *m, linear *l, const adapter_kind *kind, int rank, float scale, float dropout)
{
    int64_t most = l->in < l->out ? l->in : l->out;
    if (rank < 1 || rank > most)
        return status_fail(QLFT_EARG, "--r %d: %s is [%lld, %lld], so the rank can be 1 to %lld", rank, l->name, (long long)l->out, (long long)l->in,
                           (long long)most);
    l->adapter = kind;
    l->rank = rank;
    l->scale = scale;
    l->dropout = dropout;
    m->adapter = kind;
    return QLFT_OK;
}

void model_number_parameters(model *m)
{
    m->parameters = 0;
    for (int layer = 0; layer < m->dims.layers; layer++)
        for (int role = 0; role < BLOCK_LINEARS; role++) {
            linear *l = &m->blocks[layer].linears[role];
            if (!l->adapter) continue;
            l->offset = m->parameters;
            m->parameters += l->adapter->parameters(l);
        }
}

qlft_status model_adapt(model *m, const adapter_kind *kind, targets *wanted, int rank, float scale, float dropout)
{
    for (int layer = 0; layer < m->dims.layers; layer++)
        for (int role = 0; role < BLOCK_LINEARS; role++) {
            linear *l = &m->blocks[layer].linears[role];
            if (targets_match(wanted, l->name)) QLFT_TRY(model_adapt_linear(m, l, kind, rank, scale, dropout));
        }
    QLFT_TRY(targets_check_used(
        wanted, "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj (the head and the embedding cannot be targets in this version)"));
    if (!m->adapter)
        return status_fail(QLFT_EARG, "--targets matches no layer of this model; it has q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj");
    model_number_parameters(m);
    return QLFT_OK;
}

/* ---- memory ---- */

static tensor take_acts(model *m, arena *a, const char *name, int64_t cols, dtype type)
{
    return arena_tensor(a, TIER_DEVICE, LEDGER_ACTIVATION, "blocks", name, m->options.tokens, cols, type);
}

static tensor take_scratch(model *m, arena *a, const char *owner, const char *name, int64_t rows, int64_t cols)
{
    return arena_tensor(a, TIER_DEVICE, LEDGER_SCRATCH, owner, name, rows, cols, m->options.compute);
}

static void bind_adapters(model *m, arena *a)
{
    if (!m->adapter) return;
    dtype compute = m->options.compute;
    m->weights = arena_tensor(a, TIER_DEVICE, LEDGER_ADAPTER, "adapter", "weights", 1, m->parameters, compute).data;
    m->gradients = m->options.backward ? arena_tensor(a, TIER_DEVICE, LEDGER_GRADIENT, "adapter", "gradients", 1, m->parameters, DTYPE_F32).data : NULL;
    for (int layer = 0; layer < m->dims.layers; layer++)
        for (int role = 0; role < BLOCK_LINEARS; role++) {
            linear *l = &m->blocks[layer].linears[role];
            if (l->adapter) l->adapter->attach(l, m->weights, compute, m->gradients);
        }
}

/* The largest tensor at full precision, and the scales of the largest matrix: needed while loading, gone when training. */
static void bind_staging(model *m, arena *a)
{
    size_t mark = arena_mark(a, TIER_DEVICE);
    int64_t most = 0, most_blocks = 0, rows, cols;
    size_t bytes = 0;
    for (int role = 0; role < TENSOR_ROLES; role++) {
        source_tensor found;
        model_matrix_size(m, (tensor_role)role, &rows, &cols);
        if (role == TENSOR_HEAD && !m->own_head) continue;
        for (int layer = 0; layer < (role < TENSOR_BLOCK_END ? m->dims.layers : 1); layer++) {
            if (source_find(&found, &m->source, (tensor_role)role, role < TENSOR_BLOCK_END ? layer : -1, false, rows, cols, true) != QLFT_OK) continue;
            size_t size = (size_t)(rows * cols) * dtype_bytes(found.type);
            if (size > bytes) bytes = size;
            /* A bias may be larger than its matrix: wider type, one column. */
            if (role >= BLOCK_LINEARS || source_find(&found, &m->source, (tensor_role)role, layer, true, 1, rows, true) != QLFT_OK) continue;
            size = (size_t)rows * dtype_bytes(found.type);
            if (found.count && size > bytes) bytes = size;
        }
        if (role < BLOCK_LINEARS && rows * cols > most) most = rows * cols;
    }
    most_blocks = nf4_blocks(most);
    m->staging = arena_take(a, TIER_DEVICE, LEDGER_STAGING, "load", "one tensor", bytes);
    m->staging_absmax = m->options.quantize && m->options.double_quant
                            ? arena_take(a, TIER_DEVICE, LEDGER_STAGING, "load", "its block scales", (size_t)most_blocks * sizeof(float))
                            : NULL;
    m->staging_bytes = arena_mark(a, TIER_DEVICE) - mark;
    arena_release(a, TIER_DEVICE, mark);
}

static void bind_acts(model *m, arena *a)
{
    const shape *s = &m->dims;
    int64_t query = (int64_t)s->heads * s->head_size, key = (int64_t)s->key_heads * s->head_size;
    dtype compute = m->options.compute;
    bool all = m->options.backward;
    for (int i = 0; i <= s->layers; i++) {
        /* Without a backward pass two buffers take turns. */
        if (!all && i >= 2)
            m->inputs[i] = m->inputs[i - 2];
        else
            m->inputs[i] = take_acts(m, a, "block inputs", s->width, compute);
    }
    m->act_count = all && m->options.keep_blocks ? s->layers : 1;
    for (int i = 0; i < m->act_count; i++) {
        block_acts *acts = &m->acts[i];
        acts->q = take_acts(m, a, "q k v", query, compute);
        acts->k = take_acts(m, a, "q k v", key, compute);
        acts->v = take_acts(m, a, "q k v", key, compute);
        acts->o = take_acts(m, a, "attention output", query, compute);
        acts->lse = take_acts(m, a, "attention log-sum-exp", s->heads, DTYPE_F32);
        acts->x_mid = take_acts(m, a, "residual between", s->width, compute);
        acts->gate = take_acts(m, a, "gate up", s->inner, compute);
        acts->up = take_acts(m, a, "gate up", s->inner, compute);
        acts->rstd_attention = take_acts(m, a, "norms", 1, DTYPE_F32).data;
        acts->rstd_mlp = take_acts(m, a, "norms", 1, DTYPE_F32).data;
        for (int role = 0; role < BLOCK_LINEARS; role++) {
            int rank = 0; /* the block with the widest adapter decides: acts are shared when blocks are recomputed */
            for (int layer = 0; layer < s->layers; layer++)
                if ((m->act_count == 1 || layer == i) && m->blocks[layer].linears[role].rank > rank) rank = m->blocks[layer].linears[role].rank;
            acts->u[role] = rank ? take_acts(m, a, "adapter low rank", rank, compute) : tensor_of(NULL, m->options.tokens, 0, compute);
        }
    }
}

static void bind_head(model *m, arena *a)
{
    int64_t rows = m->options.loss_rows, width = m->dims.width;
    m->head_rows = take_scratch(m, a, "head", "rows", rows, width);
    m->head_normed = take_scratch(m, a, "head", "rows", rows, width);
    m->d_head_rows = m->options.backward ? take_scratch(m, a, "head", "rows", rows, width) : tensor_of(NULL, 0, 0, m->options.compute);
    m->head_rstd = arena_take(a, TIER_DEVICE, LEDGER_SCRATCH, "head", "rows", (size_t)rows * sizeof(float));
    m->head_targets = arena_take(a, TIER_DEVICE, LEDGER_SCRATCH, "head", "rows", (size_t)rows * sizeof(int32_t));
    m->head_index = arena_take(a, TIER_DEVICE, LEDGER_SCRATCH, "head", "rows", (size_t)rows * sizeof(int32_t));
    m->head_losses = arena_take(a, TIER_DEVICE, LEDGER_SCRATCH, "head", "rows", (size_t)rows * sizeof(double));
    m->head_logits = arena_tensor(a, TIER_DEVICE, LEDGER_SCRATCH, "head", "logits", rows, m->dims.vocabulary, DTYPE_F32);
}

static void bind_backward(model *m, arena *a)
{
    const shape *s = &m->dims;
    int64_t n = m->options.tokens, query = (int64_t)s->heads * s->head_size, key = (int64_t)s->key_heads * s->head_size;
    size_t mark = arena_mark(a, TIER_DEVICE);
    m->d_hidden = take_scratch(m, a, "backward", "mlp", n, s->inner);
    arena_release(a, TIER_DEVICE, mark);
    m->d_o = take_scratch(m, a, "backward", "attention", n, query);
    m->d_q = take_scratch(m, a, "backward", "attention", n, query);
    m->d_k = take_scratch(m, a, "backward", "attention", n, key);
    m->d_v = take_scratch(m, a, "backward", "attention", n, key);
    m->delta = arena_tensor(a, TIER_DEVICE, LEDGER_SCRATCH, "backward", "attention", n, s->heads, DTYPE_F32);
    arena_release(a, TIER_DEVICE, mark);
}

/* Scratch of a pass. The head, the MLP's and attention's backward pass follow each other and share memory: that is why they come last. */
static void bind_scratch(model *m, arena *a)
{
    const shape *s = &m->dims;
    int64_t n = m->options.tokens, widest = 0;
    int rank = 0;
    bool drops = false;
    for (int layer = 0; layer < s->layers; layer++)
        for (int role = 0; role < BLOCK_LINEARS; role++) {
            const linear *l = &m->blocks[layer].linears[role];
            if (!l->adapter) continue;
            if (l->rank > rank) rank = l->rank;
            drops = drops || l->dropout > 0.0f;
            if (l->in > widest) widest = l->in;
        }
    m->normed = take_scratch(m, a, "forward", "norm output", n, s->width);
    m->hidden = take_scratch(m, a, "forward", "mlp hidden", n, s->inner);
    m->cosine = arena_tensor(a, TIER_DEVICE, LEDGER_SCRATCH, "forward", "rotary tables", n, s->head_size / 2, DTYPE_F32);
    m->sine = arena_tensor(a, TIER_DEVICE, LEDGER_SCRATCH, "forward", "rotary tables", n, s->head_size / 2, DTYPE_F32);
    m->token_losses = arena_take(a, TIER_DEVICE, LEDGER_SCRATCH, "head", "token losses", (size_t)n * sizeof(double));
    if (m->options.backward) {
        if (drops) m->dropped = take_scratch(m, a, "adapter", "dropped input", n, widest);
        for (int i = 0; i < 3 && rank; i++) m->low_rank[i] = take_scratch(m, a, "backward", "adapter low rank", n, rank);
        m->d_x = take_scratch(m, a, "backward", "residual", n, s->width);
        m->d_normed = take_scratch(m, a, "backward", "residual", n, s->width);
    }
    size_t mark = arena_mark(a, TIER_DEVICE);
    bind_head(m, a);
    arena_release(a, TIER_DEVICE, mark);
    if (m->options.backward) bind_backward(m, a);
}

void model_bind(model *m, arena *a, const model_options *options)
{
    m->options = *options;
    model_bind_base(m, a);
    bind_adapters(m, a);
    bind_staging(m, a);
    bind_acts(m, a);
    bind_scratch(m, a);
}

void model_set_weights(model *m, const float *master)
{
    m->ops->cast(m->dev, tensor_of(m->weights, 1, m->parameters, m->options.compute), tensor_of((void *)(uintptr_t)master, 1, m->parameters, DTYPE_F32));
}

/* ---- passes ---- */

static pass make_pass(model *m, const model_batch *b, bool training, block_cache *cache, int64_t past)
{
    pass p;
    memset(&p, 0, sizeof p);
    p.linear.dev = m->dev;
    p.linear.ops = m->ops;
    p.linear.training = training;
    p.linear.seed = m->options.seed;
    p.linear.micro_step = b->micro_step;
    p.linear.dropped = m->dropped;
    for (int i = 0; i < 3; i++) p.linear.low_rank[i] = m->low_rank[i];
    p.n = b->count;
    p.cosine = tensor_rows(m->cosine, 0, b->count);
    p.sine = tensor_rows(m->sine, 0, b->count);
    p.attention.heads = m->dims.heads;
    p.attention.key_heads = m->dims.key_heads;
    p.attention.head_size = m->dims.head_size;
    p.attention.scale = (float)(1.0 / sqrt((double)m->dims.head_size));
    p.attention.first = b->first;
    p.cache = cache;
    p.past = past;
    return p;
}

static qlft_status check_batch(const model *m, const model_batch *b)
{
    if (b->count < 1 || b->count > m->options.tokens)
        return status_fail(QLFT_EARG, "a micro-batch of %lld tokens does not fit the plan of %lld", (long long)b->count, (long long)m->options.tokens);
    for (int64_t i = 0; i < b->count; i++) {
        if (b->tokens[i] < 0 || b->tokens[i] >= m->dims.vocabulary)
            return status_fail(QLFT_EFORMAT, "token id %d at position %lld is outside the model's vocabulary of %lld", b->tokens[i], (long long)i,
                               (long long)m->dims.vocabulary);
        if (b->targets && b->targets[i] >= m->dims.vocabulary)
            return status_fail(QLFT_EFORMAT, "label %d at position %lld is outside the model's vocabulary of %lld", b->targets[i], (long long)i,
                               (long long)m->dims.vocabulary);
    }
    return QLFT_OK;
}

qlft_status model_forward(model *m, const model_batch *b, bool training, block_cache *cache, int64_t past)
{
    QLFT_TRY(check_batch(m, b));
    pass p = make_pass(m, b, training, cache, past);
    rope_tables(m, p.cosine, p.sine, b->positions, b->count);
    m->ops->embed(m->dev, tensor_rows(m->inputs[0], 0, p.n), ops_dense(m->embed), b->tokens);
    for (int i = 0; i < m->dims.layers; i++)
        block_forward(m, i, tensor_rows(m->inputs[i + 1], 0, p.n), tensor_rows(m->inputs[i], 0, p.n), &m->acts[i % m->act_count], &p);
    return QLFT_OK;
}

void model_backward(model *m, const model_batch *b)
{
    pass p = make_pass(m, b, true, NULL, 0);
    tensor d_x = tensor_rows(m->d_x, 0, p.n), none = {0};
    for (int i = m->dims.layers - 1; i >= 0; i--) {
        tensor x = tensor_rows(m->inputs[i], 0, p.n);
        /* Recompute what was not kept; the last block's values are still there. */
        if (m->act_count == 1 && i != m->dims.layers - 1) block_forward(m, i, none, x, &m->acts[0], &p);
        block_backward(m, i, d_x, x, &m->acts[i % m->act_count], &p);
    }
}
