/* Embedding: rows of a table; copies and decoding only, so that one level serves all. */
#include <assert.h>

#include "ops/levels.h"

static void embed(device *d, tensor y, ops_matrix table, const int32_t *tokens)
{
    assert(y.cols == table.cols && (y.type == DTYPE_F32 || y.type == DTYPE_BF16));
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (int64_t i = 0; i < y.rows; i++) {
        assert(tokens[i] >= 0 && tokens[i] < table.rows);
        ops_matrix_row(&table, tokens[i], 0, y.cols, (char *)y.data + (size_t)(i * y.stride) * dtype_bytes(y.type), y.type);
    }
}

void embed_ref_fill(ops_table *t)
{
    t->embed = embed;
}
