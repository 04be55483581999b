/* The frozen base: where it lies in the arena, and how it is read: one full-precision tensor staged at a time, quantized, forgotten. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "model/model.h"

void model_matrix_size(const model *m, tensor_role role, int64_t *rows, int64_t *cols)
{
    const shape *s = &m->dims;
    int64_t width = s->width, inner = s->inner, query = (int64_t)s->heads * s->head_size, key = (int64_t)s->key_heads * s->head_size;
    const struct {
        int64_t rows, cols;
    } sizes[TENSOR_ROLES] = {
        [TENSOR_Q] = {query, width},      [TENSOR_K] = {key, width},
        [TENSOR_V] = {key, width},        [TENSOR_O] = {width, query},
        [TENSOR_GATE] = {inner, width},   [TENSOR_UP] = {inner, width},
        [TENSOR_DOWN] = {width, inner},   [TENSOR_NORM_ATTENTION] = {1, width},
        [TENSOR_NORM_MLP] = {1, width},   [TENSOR_EMBED] = {s->vocabulary, width},
        [TENSOR_FINAL_NORM] = {1, width}, [TENSOR_HEAD] = {s->vocabulary, width},
    };
    *rows = sizes[role].rows;
    *cols = sizes[role].cols;
}

/* Type a matrix that is not quantized is kept in: BF16 where that is exact or where the run computes in BF16 anyway. */
static dtype kept_type(const model *m, tensor_role role, int layer)
{
    source_tensor found;
    int64_t rows, cols;
    model_matrix_size(m, role, &rows, &cols);
    if (m->options.compute == DTYPE_BF16) return DTYPE_BF16;
    if (source_find(&found, &m->source, role, layer, false, rows, cols, true) != QLFT_OK || !found.count) return DTYPE_F32;
    return found.type == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32;
}

static void bind_linear(model *m, arena *a, tensor_role role, int layer, linear *l)
{
    static const char *const names[BLOCK_LINEARS] = {"q", "k", "v", "o", "gate", "up", "down"};
    int64_t rows, cols;
    model_matrix_size(m, role, &rows, &cols);
    l->quantized = m->options.quantize;
    if (l->quantized)
        nf4_bind(&l->nf4, a, "blocks", names[role], rows, cols, m->options.double_quant);
    else
        l->dense = arena_tensor(a, TIER_DEVICE, LEDGER_BASE, "blocks", names[role], rows, cols, kept_type(m, role, layer));
    l->bias = shape_has_bias(&m->dims, role) ? arena_take(a, TIER_DEVICE, LEDGER_BASE, "blocks", "biases", (size_t)rows * sizeof(float)) : NULL;
}

void model_bind_base(model *m, arena *a)
{
    int64_t width = m->dims.width, vocabulary = m->dims.vocabulary;
    m->embed = arena_tensor(a, TIER_DEVICE, LEDGER_BASE, "model", "embedding", vocabulary, width, kept_type(m, TENSOR_EMBED, -1));
    m->head = m->own_head ? arena_tensor(a, TIER_DEVICE, LEDGER_BASE, "model", "head", vocabulary, width, kept_type(m, TENSOR_HEAD, -1)) : m->embed;
    m->final_norm = arena_tensor(a, TIER_DEVICE, LEDGER_BASE, "model", "norms", 1, width, DTYPE_F32);
    for (int i = 0; i < m->dims.layers; i++) {
        block *b = &m->blocks[i];
        b->norm_attention = arena_tensor(a, TIER_DEVICE, LEDGER_BASE, "model", "norms", 1, width, DTYPE_F32);
        b->norm_mlp = arena_tensor(a, TIER_DEVICE, LEDGER_BASE, "model", "norms", 1, width, DTYPE_F32);
        for (int role = 0; role < BLOCK_LINEARS; role++) bind_linear(m, a, (tensor_role)role, i, &b->linears[role]);
    }
}

/* ---- loading ---- */

static qlft_status check_finite(const tensor t, const char *path, const char *name)
{
    for (int64_t i = 0; i < t.rows * t.cols; i++)
        if (!isfinite(tensor_get(t, 0, i)))
            return status_fail(QLFT_EFORMAT, "%s: tensor %s holds a value that is not finite at index %lld; the file is damaged or was saved from a broken run",
                               path, name, (long long)i);
    return QLFT_OK;
}

/* Reads a tensor into `to` (its own type, BF16 or F32) through the staging buffer. */
static qlft_status load_dense(model *m, tensor to, const source_tensor *found)
{
    if (!found->count) return status_fail(QLFT_EFORMAT, "%s: tensor %s is missing", m->source.path, found->name);
    tensor staged = tensor_of(m->staging, 1, found->count, found->type), flat = tensor_of(to.data, 1, found->count, to.type);
    QLFT_TRY(source_read(staged.data, &m->source, found));
    QLFT_TRY(check_finite(staged, m->source.path, found->name));
    if (staged.type == to.type)
        memcpy(flat.data, staged.data, (size_t)found->count * dtype_bytes(to.type));
    else
        for (int64_t i = 0; i < found->count; i++) tensor_put(flat, 0, i, tensor_get(staged, 0, i));
    return QLFT_OK;
}

static qlft_status load_role(model *m, tensor to, tensor_role role, int layer)
{
    source_tensor found;
    int64_t rows, cols;
    model_matrix_size(m, role, &rows, &cols);
    QLFT_TRY(source_find(&found, &m->source, role, layer, false, rows, cols, false));
    return load_dense(m, to, &found);
}

static qlft_status load_linear(model *m, tensor_role role, int layer, linear *l)
{
    source_tensor found;
    QLFT_TRY(source_find(&found, &m->source, role, layer, false, l->out, l->in, false));
    if (l->quantized) {
        QLFT_TRY(source_read(m->staging, &m->source, &found));
        double started = clock_seconds();
        qlft_status status = nf4_quantize(m->dev, &l->nf4, m->staging, found.type, m->staging_absmax);
        if (status != QLFT_OK) return status_prefix(status, "%s: tensor %s: ", m->source.path, found.name);
        m->quantize_seconds += clock_seconds() - started;
    } else {
        QLFT_TRY(load_dense(m, l->dense, &found));
    }
    if (!l->bias) return QLFT_OK;
    QLFT_TRY(source_find(&found, &m->source, role, layer, true, 1, l->out, false));
    return load_dense(m, tensor_of(l->bias, 1, l->out, DTYPE_F32), &found);
}

static bool stopped(const volatile int *stop)
{
    return stop && *stop;
}

static qlft_status load_stopped(void)
{
    return status_fail(QLFT_ESIGNAL, "stopped while loading; nothing was written");
}

static qlft_status load_block(model *m, int layer, const volatile int *stop)
{
    block *b = &m->blocks[layer];
    QLFT_TRY(load_role(m, b->norm_attention, TENSOR_NORM_ATTENTION, layer));
    QLFT_TRY(load_role(m, b->norm_mlp, TENSOR_NORM_MLP, layer));
    for (int role = 0; role < BLOCK_LINEARS; role++) {
        if (stopped(stop)) return load_stopped(); /* at each matrix: a whole block of a large model takes seconds */
        QLFT_TRY(load_linear(m, (tensor_role)role, layer, &b->linears[role]));
    }
    return QLFT_OK;
}

qlft_status model_load(model *m, model_progress progress, void *payload, const volatile int *stop)
{
    int64_t total = m->dims.layers + 1;
    if (m->staging) arena_allow(m->staging, m->staging_bytes);
    QLFT_TRY(rope_frequencies(m->inverse_frequency, m));
    QLFT_TRY(load_role(m, m->embed, TENSOR_EMBED, -1));
    QLFT_TRY(load_role(m, m->final_norm, TENSOR_FINAL_NORM, -1));
    if (m->own_head) QLFT_TRY(load_role(m, m->head, TENSOR_HEAD, -1));
    for (int i = 0; i < m->dims.layers; i++) {
        if (progress) progress(payload, i + 1, total);
        QLFT_TRY(load_block(m, i, stop));
    }
    if (progress) progress(payload, total, total);
    return stopped(stop) ? load_stopped() : QLFT_OK;
}
