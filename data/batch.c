#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "data/dataset.h"

/* Rows that are open at a time: many enough that what is left empty is what no sample of the window fits into (lengths drawn evenly up to 60 fill rows of 200
 * above nine tenths, see tests/test_batch.c), few enough that a sample stays near its place in the epoch's order. */
enum { OPEN_ROWS = 32 };

struct batcher {
    const dataset *data;
    batch_options options;
    int64_t samples;
    int64_t max_tokens, max_counted;
    /* The started epoch: row r holds the samples order[row_begin[r] .. row_begin[r + 1]). */
    uint32_t *order, *row_begin, *scratch;
    int64_t rows;
};

/* ---- bounds ---- */

/* Sum of the `k` largest of the samples' `of` values: a heap of k values with the smallest on top. */
static void sift_down(int64_t *heap, int64_t count)
{
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && heap[child + 1] < heap[child]) child++;
        if (heap[at] <= heap[child]) return;
        int64_t kept = heap[at];
        heap[at] = heap[child];
        heap[child] = kept;
        at = child;
    }
}

static int64_t length_of(const sample *s)
{
    return s->length;
}

static int64_t supervised_of(const sample *s)
{
    return s->supervised;
}

static qlft_status sum_of_largest(int64_t *out, const batcher *b, int64_t k, int64_t (*of)(const sample *))
{
    if (k > b->samples) k = b->samples;
    /* Zeros are a heap already. */
    int64_t *heap = calloc((size_t)k, sizeof *heap);
    if (!heap) return status_fail(QLFT_ENOMEM, "out of memory for the lengths of %lld samples", (long long)k);
    for (int64_t i = 0; i < b->samples; i++) {
        sample s = dataset_sample(b->data, i);
        int64_t value = of(&s);
        if (value <= heap[0]) continue;
        heap[0] = value;
        sift_down(heap, k);
    }
    *out = 0;
    for (int64_t i = 0; i < k; i++) *out += heap[i];
    free(heap);
    return QLFT_OK;
}

static qlft_status find_bounds(batcher *b)
{
    data_counts counts = dataset_counts(b->data);
    if (!b->options.packing) {
        QLFT_TRY(sum_of_largest(&b->max_tokens, b, b->options.batch, length_of));
        return sum_of_largest(&b->max_counted, b, b->options.batch, supervised_of);
    }
    /* A row has at most seq tokens, the first of which nothing predicts. */
    int64_t rows = b->options.batch < b->samples ? b->options.batch : b->samples;
    int64_t full = rows * b->options.seq;
    b->max_tokens = full < counts.tokens ? full : counts.tokens;
    b->max_counted = full - rows < counts.supervised ? full - rows : counts.supervised;
    return QLFT_OK;
}

/* ---- open, close ---- */

static qlft_status check_options(const dataset *s, const batch_options *o)
{
    int64_t samples = dataset_size(s);
    if (o->batch < 1 || o->batch > INT32_MAX) return status_fail(QLFT_EARG, "--batch %lld: at least 1 is needed", (long long)o->batch);
    if (o->accum < 1) return status_fail(QLFT_EARG, "--accum %lld: at least 1 is needed", (long long)o->accum);
    if (o->packing && (o->seq < 1 || o->seq > INT32_MAX))
        return status_fail(QLFT_EARG, "--seq %lld: at least 1 is needed with --packing on", (long long)o->seq);
    if (samples < 1) return status_fail(QLFT_EFORMAT, "there are no samples to make batches of");
    if (samples >= UINT32_MAX) return status_fail(QLFT_EUNSUPPORTED, "%lld samples: at most %u can be used", (long long)samples, UINT32_MAX - 1);
    for (int64_t i = 0; o->packing && i < samples; i++) {
        sample one = dataset_sample(s, i);
        if (one.length > o->seq)
            return status_fail(QLFT_EARG, "the sample of line %lld has %lld tokens and does not fit into a packed row of --seq %lld", (long long)one.line,
                               (long long)one.length, (long long)o->seq);
    }
    return QLFT_OK;
}

qlft_status batcher_open(batcher **out, const dataset *s, const batch_options *options)
{
    *out = NULL;
    QLFT_TRY(check_options(s, options));
    batcher *b = calloc(1, sizeof *b);
    if (!b) return status_fail(QLFT_ENOMEM, "out of memory for batches");
    b->data = s;
    b->options = *options;
    b->samples = dataset_size(s);
    size_t n = (size_t)b->samples;
    b->order = malloc(n * sizeof *b->order);
    b->scratch = malloc(n * sizeof *b->scratch);
    b->row_begin = malloc((n + 1) * sizeof *b->row_begin);
    qlft_status status = QLFT_OK;
    if (!b->order || !b->scratch || !b->row_begin) status = status_fail(QLFT_ENOMEM, "out of memory for the order of %zu samples", n);
    if (status == QLFT_OK) status = find_bounds(b);
    if (status == QLFT_OK && b->max_tokens > INT32_MAX)
        status = status_fail(QLFT_EUNSUPPORTED, "a micro-batch may have %lld tokens, and %d is the limit: use a smaller --batch or --seq",
                             (long long)b->max_tokens, INT32_MAX);
    if (status != QLFT_OK) {
        batcher_close(b);
        return status;
    }
    *out = b;
    return QLFT_OK;
}

void batcher_close(batcher *b)
{
    if (!b) return;
    free(b->order);
    free(b->scratch);
    free(b->row_begin);
    free(b);
}

int64_t batcher_max_tokens(const batcher *b)
{
    return b->max_tokens;
}

int64_t batcher_max_counted(const batcher *b)
{
    return b->max_counted;
}

/* ---- the epoch's plan ---- */

typedef struct open_row {
    int64_t row, room;
} open_row;

/* row_of[i]: the row of the i-th sample of the order. Rows are numbered as they are opened. */
static int64_t pack(const batcher *b, uint32_t *row_of)
{
    open_row open[OPEN_ROWS];
    int open_count = 0;
    int64_t rows = 0;
    for (int64_t i = 0; i < b->samples; i++) {
        int64_t length = dataset_sample(b->data, b->order[i]).length;
        int at = 0;
        while (at < open_count && open[at].room < length) at++;
        if (at == open_count) {
            if (open_count == OPEN_ROWS) {
                memmove(open, open + 1, (OPEN_ROWS - 1) * sizeof *open);
                open_count--;
                at--;
            }
            open[at] = (open_row){rows++, b->options.seq};
            open_count++;
        }
        open[at].room -= length;
        row_of[i] = (uint32_t)open[at].row;
    }
    return rows;
}

/* Sorts the samples by row, keeping their order within one: a counting sort. */
static qlft_status order_by_row(batcher *b, const uint32_t *row_of)
{
    memset(b->row_begin, 0, ((size_t)b->rows + 1) * sizeof *b->row_begin);
    for (int64_t i = 0; i < b->samples; i++) b->row_begin[row_of[i] + 1]++;
    for (int64_t r = 0; r < b->rows; r++) b->row_begin[r + 1] += b->row_begin[r];
    uint32_t *at = malloc((size_t)b->rows * sizeof *at);
    uint32_t *sorted = malloc((size_t)b->samples * sizeof *sorted);
    if (!at || !sorted) {
        free(at);
        free(sorted);
        return status_fail(QLFT_ENOMEM, "out of memory for %lld packed rows", (long long)b->rows);
    }
    memcpy(at, b->row_begin, (size_t)b->rows * sizeof *at);
    for (int64_t i = 0; i < b->samples; i++) sorted[at[row_of[i]]++] = b->order[i];
    free(at);
    free(b->order);
    b->order = sorted;
    return QLFT_OK;
}

qlft_status batcher_start(batcher *b, int64_t epoch)
{
    b->rows = 0;
    if (b->options.shuffle)
        random_permutation(random_key_of(b->options.seed, RANDOM_SHUFFLE, (uint64_t)epoch, 0), b->order, (uint32_t)b->samples);
    else
        for (int64_t i = 0; i < b->samples; i++) b->order[i] = (uint32_t)i;
    if (!b->options.packing) {
        for (int64_t i = 0; i <= b->samples; i++) b->row_begin[i] = (uint32_t)i;
        b->rows = b->samples;
        return QLFT_OK;
    }
    b->rows = pack(b, b->scratch);
    return order_by_row(b, b->scratch);
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

int64_t batcher_micro_batches(const batcher *b)
{
    return divide_up(b->rows, b->options.batch);
}

int64_t batcher_steps(const batcher *b)
{
    return divide_up(batcher_micro_batches(b), b->options.accum);
}

/* ---- micro-batches ---- */

static void put_sample(batch *out, int64_t index, const sample *s)
{
    int64_t base = out->count, n = s->length;
    out->samples[out->sample_count] = index;
    memcpy(out->tokens + base, s->tokens, (size_t)n * sizeof *out->tokens);
    for (int64_t i = 0; i < n; i++) {
        bool counts = i + 1 < n && sample_is_target(s, i + 1);
        out->targets[base + i] = counts ? s->tokens[i + 1] : -1;
        out->counted += counts;
        out->positions[base + i] = (int32_t)i;
        out->first[base + i] = (int32_t)base;
        out->sample_of[base + i] = (int32_t)out->sample_count;
    }
    out->count += n;
    out->sample_count++;
}

qlft_status batcher_get(const batcher *b, int64_t micro_batch, batch *out)
{
    int64_t count = batcher_micro_batches(b);
    out->count = out->counted = out->sample_count = 0;
    if (micro_batch < 0 || micro_batch >= count)
        return status_fail(QLFT_EARG, "micro-batch %lld is asked for; the epoch has %lld", (long long)micro_batch, (long long)count);
    int64_t from = micro_batch * b->options.batch, to = b->rows - from < b->options.batch ? b->rows : from + b->options.batch;
    for (uint32_t i = b->row_begin[from]; i < b->row_begin[to]; i++) {
        sample s = dataset_sample(b->data, b->order[i]);
        put_sample(out, b->order[i], &s);
    }
    return QLFT_OK;
}

qlft_status batch_alloc(batch *out, int64_t tokens)
{
    memset(out, 0, sizeof *out);
    size_t n = (size_t)tokens;
    if (tokens < 1 || tokens > INT32_MAX) return status_fail(QLFT_EARG, "a batch of %lld tokens is asked for", (long long)tokens);
    out->tokens = malloc(n * sizeof *out->tokens);
    out->targets = malloc(n * sizeof *out->targets);
    out->positions = malloc(n * sizeof *out->positions);
    out->first = malloc(n * sizeof *out->first);
    out->sample_of = malloc(n * sizeof *out->sample_of);
    out->samples = malloc(n * sizeof *out->samples);
    if (out->tokens && out->targets && out->positions && out->first && out->sample_of && out->samples) return QLFT_OK;
    batch_free(out);
    return status_fail(QLFT_ENOMEM, "out of memory for a batch of %lld tokens", (long long)tokens);
}

void batch_free(batch *b)
{
    free(b->tokens);
    free(b->targets);
    free(b->positions);
    free(b->first);
    free(b->sample_of);
    free(b->samples);
    memset(b, 0, sizeof *b);
}
