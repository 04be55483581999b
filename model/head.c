/* Final norm, head and loss, in chunks of counted rows: rows that nothing is learned from cost nothing, and logits [N, V] are never held. */
#include <string.h>

#include "model/model.h"

/* About 64 MiB of FP32 logits, and enough rows for a product to run well. */
int64_t head_rows_for(int64_t vocabulary)
{
    int64_t rows = (64 << 20) / (4 * vocabulary);
    if (rows < 16) return 16;
    return rows > 512 ? 512 : rows / 16 * 16;
}

static size_t row_bytes(tensor t)
{
    return (size_t)t.cols * dtype_bytes(t.type);
}

/* Logits F32 of `rows` rows that lie in head_rows, into head_logits. */
static void head_logits(model *m, int64_t rows, tensor logits)
{
    tensor x = tensor_rows(m->head_rows, 0, rows), h = tensor_rows(m->head_normed, 0, rows);
    m->ops->norm_forward(m->dev, h, m->head_rstd, x, m->final_norm, 0.0f, (float)m->dims.norm_eps);
    ops_product product = {h, ops_dense(m->head), true};
    m->ops->gemm(m->dev, logits, &product, 1, 1.0f, NULL, 0.0f);
}

/* Gradients of one chunk, from dlogits back to the rows of d_x. */
static void head_backward(model *m, int64_t rows, tensor dlogits)
{
    tensor x = tensor_rows(m->head_rows, 0, rows), d_h = tensor_rows(m->head_normed, 0, rows), d_rows = tensor_rows(m->d_head_rows, 0, rows);
    ops_product product = {dlogits, ops_dense(m->head), false};
    m->ops->gemm(m->dev, d_h, &product, 1, 1.0f, NULL, 0.0f);
    memset(d_rows.data, 0, (size_t)rows * row_bytes(d_rows));
    m->ops->norm_backward(m->dev, d_rows, d_h, x, m->final_norm, m->head_rstd, 0.0f);
    for (int64_t i = 0; i < rows; i++)
        memcpy((char *)m->d_x.data + (size_t)m->head_index[i] * row_bytes(m->d_x), (char *)d_rows.data + (size_t)i * row_bytes(d_rows), row_bytes(m->d_x));
}

/* BF16 gradients lie in the front half of their FP32 row of logits. */
static tensor dlogits_over(const model *m, tensor logits)
{
    tensor t = logits;
    if (m->options.compute == DTYPE_F32) return t;
    t.type = DTYPE_BF16;
    t.stride = 2 * logits.stride;
    return t;
}

static void head_chunk(model *m, const model_batch *b, int64_t rows, bool gradient)
{
    tensor hidden = m->inputs[m->dims.layers], logits = tensor_rows(m->head_logits, 0, rows), dlogits = dlogits_over(m, logits);
    for (int64_t i = 0; i < rows; i++) {
        m->head_targets[i] = b->targets[m->head_index[i]];
        memcpy((char *)m->head_rows.data + (size_t)i * row_bytes(hidden), (char *)hidden.data + (size_t)m->head_index[i] * row_bytes(hidden),
               row_bytes(hidden));
    }
    head_logits(m, rows, logits);
    if (!gradient) dlogits.data = NULL;
    m->ops->xent(m->dev, m->head_losses, dlogits, logits, m->head_targets);
    for (int64_t i = 0; i < rows; i++) m->token_losses[m->head_index[i]] = m->head_losses[i];
    if (gradient) head_backward(m, rows, dlogits);
}

double model_loss(model *m, const model_batch *b, bool gradient)
{
    if (gradient) memset(m->d_x.data, 0, (size_t)b->count * row_bytes(m->d_x));
    memset(m->token_losses, 0, (size_t)b->count * sizeof *m->token_losses);
    int64_t rows = 0;
    for (int64_t i = 0; i < b->count; i++) {
        if (b->targets[i] >= 0) m->head_index[rows++] = (int32_t)i;
        if (rows == m->options.loss_rows || (i + 1 == b->count && rows > 0)) {
            head_chunk(m, b, rows, gradient);
            rows = 0;
        }
    }
    double sum = 0.0;
    for (int64_t i = 0; i < b->count; i++) sum += m->token_losses[i];
    return sum;
}

void model_logits(model *m, int64_t from, int64_t rows, float *out)
{
    tensor hidden = m->inputs[m->dims.layers];
    for (int64_t at = 0; at < rows; at += m->options.loss_rows) {
        int64_t chunk = rows - at < m->options.loss_rows ? rows - at : m->options.loss_rows;
        memcpy(m->head_rows.data, (char *)hidden.data + (size_t)(from + at) * row_bytes(hidden), (size_t)chunk * row_bytes(hidden));
        head_logits(m, chunk, tensor_of(out + at * m->dims.vocabulary, chunk, m->dims.vocabulary, DTYPE_F32));
    }
}
