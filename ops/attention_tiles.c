/* The walk over tiles of flash attention (Dao, 2023), forward and two backward passes: dq by query tile, dk and dv by key tile.
 *
 * Work is cut into blocks of ATTENTION_TILE rows, and a block where a sample begins. The other side is walked in tiles counted from the first key of
 * the block's sample: so the bits of a row depend neither on threads nor on what stands before its sample. (With a sliding window, where `first`
 * moves on with every row, tiles are counted from the first key of the block: right, but tied to the row's place.) */
#include "ops/attention_tiles.h"

#include <assert.h>
#include <omp.h>

enum { TILE = ATTENTION_TILE };

typedef struct attention_call {
    const attention_kit *kit;
    const ops_attention *shape;
    tensor o, lse, q, k, v, d_o, delta, dq, dk, dv;
    int64_t behind;           /* row of a query's own key = its row + behind */
    int size, group;          /* head size; query heads of a key head */
    int depth, stride, width; /* of one head: words to sum over, the same padded, floats padded */
} attention_call;

typedef struct attention_rows {
    int64_t begin;
    int count;
} attention_rows;

static int padded(int n)
{
    return (n + ATTENTION_PAD - 1) / ATTENTION_PAD * ATTENTION_PAD;
}

/* Words that n elements of the summed dimension fill. */
static int words(const attention_call *c, int n)
{
    return c->kit->pairs ? (n + 1) / 2 : n;
}

static void call_sizes(attention_call *c)
{
    const ops_attention *shape = c->shape;
    assert(shape->head_size >= 1 && shape->head_size <= ATTENTION_HEAD_SIZE_MOST && shape->heads % shape->key_heads == 0);
    assert(c->q.cols == (int64_t)shape->heads * shape->head_size && c->k.cols == (int64_t)shape->key_heads * shape->head_size && c->v.cols == c->k.cols);
    assert(c->k.rows >= c->q.rows && c->v.rows == c->k.rows && c->lse.type == DTYPE_F32);
    c->behind = c->k.rows - c->q.rows;
    c->size = shape->head_size;
    c->group = shape->heads / shape->key_heads;
    c->depth = words(c, c->size);
    c->stride = padded(c->depth);
    c->width = padded(c->size);
}

/* The part of block [.., end) that begins at row `begin`: up to a row that does not see the one before it. */
static attention_rows rows_of_sample(const attention_call *c, int64_t begin, int64_t end)
{
    int64_t at = begin + 1;
    while (at < end && c->shape->first[at] < at + c->behind) at++;
    attention_rows r = {begin, (int)(at - begin)};
    return r;
}

static int64_t block_end(int64_t block, int64_t rows)
{
    return (block + 1) * TILE < rows ? (block + 1) * TILE : rows;
}

/* ---- scratch: pieces of a thread's memory, one behind the other ---- */

typedef struct attention_memory {
    unsigned char *at, *end;
} attention_memory;

static attention_memory memory_of_thread(const device *d)
{
    attention_memory m;
    m.at = device_scratch(d, omp_get_thread_num());
    m.end = m.at + DEVICE_SCRATCH_BYTES;
    return m;
}

/* `rows` x `cols` of 32 bits, 64-byte aligned. */
static void *memory_take(attention_memory *m, int rows, int cols)
{
    void *taken = m->at;
    m->at += ((size_t)rows * (size_t)cols * sizeof(uint32_t) + 63) / 64 * 64;
    assert(m->at <= m->end);
    return taken;
}

/* One tile of q, k, v or d_o: packed, and the forms that its products need. */
typedef struct attention_operand {
    uint32_t *packed, *transposed, *rows; /* rows: operand B of a product that sums over rows */
    int rows_stride;
} attention_operand;

static attention_operand operand_take(const attention_call *c, attention_memory *m, bool transposed, bool rows)
{
    attention_operand x = {memory_take(m, TILE, c->stride), NULL, NULL, 0};
    if (transposed) x.transposed = memory_take(m, c->stride, TILE);
    if (rows) {
        x.rows = c->kit->pairs ? memory_take(m, TILE / 2, c->width) : x.packed;
        x.rows_stride = c->kit->pairs ? c->width : c->stride;
    }
    return x;
}

static void operand_load(const attention_call *c, attention_operand *x, tensor from, int64_t row, int rows, int head)
{
    c->kit->pack(x->packed, c->stride, from, row, rows, (int64_t)head * c->size, c->size);
    if (x->transposed) c->kit->transpose(x->transposed, x->packed, c->stride, rows);
    if (x->rows && c->kit->pairs) c->kit->interleave(x->rows, x->packed, c->stride, rows, c->width);
}

/* A tile of scores or weights: in row r, columns from[r] .. to[r] - 1 see each other. */
typedef struct attention_reach {
    int rows, cols; /* in use */
    int from[TILE], to[TILE];
} attention_reach;

/* Row r reaches columns [low, high) of those that the tile has. */
static void reach_set(attention_reach *reach, int r, int64_t low, int64_t high)
{
    const int64_t cols = reach->cols;
    reach->from[r] = (int)(low < 0 ? 0 : low > cols ? cols : low);
    reach->to[r] = (int)(high < 0 ? 0 : high > cols ? cols : high);
}

static void product_of_heads(const attention_call *c, float *out, const attention_operand *a, const attention_operand *b, const attention_reach *reach)
{
    c->kit->multiply_scores(out, a->packed, c->stride, b->transposed, reach->rows, c->depth, reach->from, reach->to);
}

static void product_of_weights(const attention_call *c, float *out, const uint32_t *a, const attention_operand *b, const attention_reach *reach, bool add)
{
    c->kit->multiply_weights(out, c->width, a, b->rows, b->rows_stride, reach->rows, reach->from, reach->to, add);
}

/* The keys of the tile at row `key` that each query sees. */
static void reach_of_queries(const attention_call *c, attention_reach *reach, attention_rows queries, int64_t key, int keys)
{
    reach->rows = queries.count;
    reach->cols = keys;
    for (int r = 0; r < queries.count; r++) reach_set(reach, r, c->shape->first[queries.begin + r] - key, queries.begin + r + c->behind + 1 - key);
}

static void load_column(float out[TILE], tensor x, int64_t row, int rows, int col)
{
    for (int r = 0; r < TILE; r++) out[r] = r < rows ? ((const float *)x.data)[(row + r) * x.stride + col] : 0.0f;
}

/* ---- forward ---- */

static void forward_rows(const attention_call *c, attention_memory memory, attention_rows queries, int head)
{
    attention_operand q = operand_take(c, &memory, false, false), k = operand_take(c, &memory, true, false), v = operand_take(c, &memory, false, true);
    float *s = memory_take(&memory, TILE, TILE), *out = memory_take(&memory, TILE, c->width);
    uint32_t *p = memory_take(&memory, TILE, TILE);
    float largest[TILE], sum[TILE], factor[TILE];
    attention_reach reach;
    const int64_t first = c->shape->first[queries.begin], end = queries.begin + queries.count + c->behind;
    operand_load(c, &q, c->q, queries.begin, queries.count, head);
    for (int r = 0; r < TILE; r++) {
        largest[r] = -INFINITY;
        sum[r] = 0;
    }
    for (int64_t key = first; key < end; key += TILE) {
        const int keys = end - key < TILE ? (int)(end - key) : TILE;
        operand_load(c, &k, c->k, key, keys, head / c->group);
        operand_load(c, &v, c->v, key, keys, head / c->group);
        reach_of_queries(c, &reach, queries, key, keys);
        product_of_heads(c, s, &q, &k, &reach);
        c->kit->softmax(p, largest, sum, factor, s, reach.from, reach.to, queries.count, padded(keys), c->shape->scale);
        if (key > first) c->kit->shrink(out, c->width, factor, queries.count, c->width);
        product_of_weights(c, out, p, &v, &reach, key > first);
    }
    for (int r = 0; r < queries.count; r++) {
        ((float *)c->lse.data)[(queries.begin + r) * c->lse.stride + head] = (float)((double)largest[r] + log((double)sum[r]));
        factor[r] = 1.0f / sum[r];
    }
    c->kit->unpack(c->o, queries.begin, queries.count, (int64_t)head * c->size, c->size, out, c->width, factor, 1.0f);
}

/* ---- backward ---- */

static void backward_queries(const attention_call *c, attention_memory memory, attention_rows queries, int head)
{
    attention_operand q = operand_take(c, &memory, false, false), d_o = operand_take(c, &memory, false, false);
    attention_operand k = operand_take(c, &memory, true, true), v = operand_take(c, &memory, true, false);
    float *s = memory_take(&memory, TILE, TILE), *dp = memory_take(&memory, TILE, TILE), *out = memory_take(&memory, TILE, c->width);
    uint32_t *ds = memory_take(&memory, TILE, TILE);
    float lse[TILE], delta[TILE];
    attention_reach reach;
    const int64_t first = c->shape->first[queries.begin], end = queries.begin + queries.count;
    operand_load(c, &q, c->q, queries.begin, queries.count, head);
    operand_load(c, &d_o, c->d_o, queries.begin, queries.count, head);
    load_column(lse, c->lse, queries.begin, queries.count, head);
    c->kit->dots(delta, c->d_o, c->o, queries.begin, queries.count, (int64_t)head * c->size, c->size);
    for (int r = 0; r < queries.count; r++) ((float *)c->delta.data)[(queries.begin + r) * c->delta.stride + head] = delta[r];
    for (int64_t key = first; key < end; key += TILE) {
        const int keys = end - key < TILE ? (int)(end - key) : TILE;
        operand_load(c, &k, c->k, key, keys, head / c->group);
        operand_load(c, &v, c->v, key, keys, head / c->group);
        reach_of_queries(c, &reach, queries, key, keys);
        product_of_heads(c, s, &q, &k, &reach);
        product_of_heads(c, dp, &d_o, &v, &reach);
        c->kit->gradient_rows(ds, s, dp, lse, delta, reach.from, reach.to, queries.count, padded(keys), c->shape->scale);
        product_of_weights(c, out, ds, &k, &reach, key > first);
    }
    c->kit->unpack(c->dq, queries.begin, queries.count, (int64_t)head * c->size, c->size, out, c->width, NULL, c->shape->scale);
}

/* For each key of the tile: the row behind the last query that sees it. Returns that of the last key, the largest. */
static int64_t query_ends(const attention_call *c, attention_rows keys, int64_t ends[TILE])
{
    int64_t end = keys.begin;
    for (int r = 0; r < keys.count; r++) {
        while (end < c->q.rows && c->shape->first[end] <= keys.begin + r) end++;
        ends[r] = end;
    }
    return end;
}

static void backward_keys(const attention_call *c, attention_memory memory, attention_rows keys, int key_head)
{
    attention_operand k = operand_take(c, &memory, false, false), v = operand_take(c, &memory, false, false);
    attention_operand q = operand_take(c, &memory, true, true), d_o = operand_take(c, &memory, true, true);
    float *s = memory_take(&memory, TILE, TILE), *dp = memory_take(&memory, TILE, TILE);
    float *dk = memory_take(&memory, TILE, c->width), *dv = memory_take(&memory, TILE, c->width);
    uint32_t *p = memory_take(&memory, TILE, TILE), *ds = memory_take(&memory, TILE, TILE);
    float lse[TILE], delta[TILE];
    attention_reach reach;
    int64_t ends[TILE];
    const int64_t end = query_ends(c, keys, ends), anchor = c->shape->first[keys.begin];
    bool add = false;
    operand_load(c, &k, c->k, keys.begin, keys.count, key_head);
    operand_load(c, &v, c->v, keys.begin, keys.count, key_head);
    for (int head = key_head * c->group; head < (key_head + 1) * c->group; head++)
        for (int64_t query = anchor + (keys.begin - anchor) / TILE * TILE; query < end; query += TILE, add = true) {
            const int queries = end - query < TILE ? (int)(end - query) : TILE;
            operand_load(c, &q, c->q, query, queries, head);
            operand_load(c, &d_o, c->d_o, query, queries, head);
            load_column(lse, c->lse, query, queries, head);
            load_column(delta, c->delta, query, queries, head);
            reach.rows = keys.count;
            reach.cols = queries;
            for (int r = 0; r < keys.count; r++) reach_set(&reach, r, keys.begin + r - query, ends[r] - query);
            product_of_heads(c, s, &k, &q, &reach);
            product_of_heads(c, dp, &v, &d_o, &reach);
            c->kit->gradient_columns(p, ds, s, dp, lse, delta, reach.from, reach.to, keys.count, padded(queries), c->shape->scale);
            product_of_weights(c, dv, p, &d_o, &reach, add);
            product_of_weights(c, dk, ds, &q, &reach, add);
        }
    c->kit->unpack(c->dk, keys.begin, keys.count, (int64_t)key_head * c->size, c->size, dk, c->width, NULL, c->shape->scale);
    c->kit->unpack(c->dv, keys.begin, keys.count, (int64_t)key_head * c->size, c->size, dv, c->width, NULL, 1.0f);
}

/* ---- the passes ---- */

typedef void (*attention_pass)(const attention_call *c, attention_memory memory, attention_rows rows, int head);

/* Blocks times heads in parallel; the blocks with most work first: the last ones of queries, the first ones of keys. */
static void run_pass(device *d, const attention_call *c, attention_pass pass, int64_t rows, int heads, bool last_first)
{
    const int64_t blocks = (rows + TILE - 1) / TILE;
#pragma omp parallel for num_threads(d->threads) schedule(dynamic)
    for (int64_t task = 0; task < blocks * heads; task++) {
        const int64_t block = last_first ? blocks - 1 - task / heads : task / heads, end = block_end(block, rows);
        for (int64_t at = block * TILE; at < end;) {
            attention_rows part = rows_of_sample(c, at, end);
            pass(c, memory_of_thread(d), part, (int)(task % heads));
            at += part.count;
        }
    }
}

void attention_tiles_forward(const attention_kit *kit, device *d, tensor o, tensor lse, tensor q, tensor k, tensor v, const ops_attention *shape)
{
    attention_call c = {.kit = kit, .shape = shape, .o = o, .lse = lse, .q = q, .k = k, .v = v};
    call_sizes(&c);
    run_pass(d, &c, forward_rows, q.rows, shape->heads, true);
}

void attention_tiles_backward(const attention_kit *kit, device *d, tensor dq, tensor dk, tensor dv, tensor d_o, tensor o, tensor q, tensor k, tensor v,
                              tensor lse, tensor delta, const ops_attention *shape)
{
    attention_call c = {.kit = kit, .shape = shape, .o = o, .lse = lse, .q = q, .k = k, .v = v, .d_o = d_o, .delta = delta, .dq = dq, .dk = dk, .dv = dv};
    call_sizes(&c);
    assert(c.behind == 0 && delta.type == DTYPE_F32);
    run_pass(d, &c, backward_queries, q.rows, shape->heads, true);
    run_pass(d, &c, backward_keys, k.rows, shape->key_heads, false);
}
