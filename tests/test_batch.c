/* Micro-batches against a plain reading of the rules: every sample once an epoch, targets shifted inside a sample, rows of at most seq tokens, bounds that
 * hold. */
#include "core/random.h"
#include "data_files.h"

TestSuite(batch, .init = test_begin, .fini = test_end);

/* `count` samples of 1 to `longest` tokens; ids of sample i begin with i + 1, about a third of the tokens are no targets. */
static dataset *random_dataset(uint64_t seed, int count, int longest)
{
    char *text = malloc((size_t)count * ((size_t)longest * 24 + 64));
    size_t used = 0;
    random_key key = random_key_of(seed, RANDOM_TEST, 0, 0);
    uint64_t at = 0;
    for (int i = 0; i < count; i++) {
        int n = 1 + (int)(random_uint(key, at++) % (uint32_t)longest);
        char labels[8192] = "";
        size_t label_bytes = 0;
        used += (size_t)sprintf(text + used, "{\"input_ids\":[");
        for (int k = 0; k < n; k++) {
            int id = k ? (int)(random_uint(key, at++) % 1000) : i + 1;
            used += (size_t)sprintf(text + used, "%s%d", k ? "," : "", id);
            label_bytes += (size_t)sprintf(labels + label_bytes, "%s%d", k ? "," : "", random_uint(key, at++) % 3 ? id : -100);
        }
        used += (size_t)sprintf(text + used, "],\"labels\":[%s]}\n", labels);
    }
    const char *path = write_bytes("random.jsonl", text, used);
    free(text);
    data_options o = {.paths = &path, .path_count = 1, .format = FORMAT_TOKENS};
    dataset *s;
    cr_assert_eq(dataset_open(&s, &o, NULL, NULL, NULL, NULL), QLFT_OK, "%s", qlft_last_error());
    return s;
}

typedef struct epoch_sum {
    int64_t tokens, counted, most_tokens, most_counted;
} epoch_sum;

/* Checks one micro-batch token by token; marks its samples. */
static void check_batch(const dataset *s, const batch *b, const batch_options *o, int *seen)
{
    int64_t at = 0, counted = 0, room = 0, rows = 0;
    for (int64_t k = 0; k < b->sample_count; k++) {
        sample one = dataset_sample(s, b->samples[k]);
        seen[b->samples[k]]++;
        for (int64_t i = 0; i < one.length; i++) {
            int32_t target = i + 1 < one.length && sample_label(&one, i + 1) >= 0 ? one.tokens[i + 1] : -1;
            cr_assert_eq(b->tokens[at + i], one.tokens[i]);
            cr_assert_eq(b->targets[at + i], target);
            cr_assert_eq(b->positions[at + i], i);
            cr_assert_eq(b->first[at + i], at);
            cr_assert_eq(b->sample_of[at + i], k);
            counted += target >= 0;
        }
        at += one.length;
        /* The fewest rows that samples in this order can lie in; packing may not need more than `batch`. */
        if (!o->packing || room < one.length) {
            rows++;
            room = o->seq;
        }
        room -= one.length;
    }
    cr_assert_eq(at, b->count);
    cr_assert_eq(counted, b->counted);
    cr_assert_leq(rows, o->batch);
}

static epoch_sum check_epoch(const dataset *s, batcher *b, const batch_options *o, int64_t epoch)
{
    epoch_sum sum = {0};
    batch out;
    int *seen = calloc((size_t)dataset_size(s), sizeof *seen);
    cr_assert_eq(batch_alloc(&out, batcher_max_tokens(b)), QLFT_OK);
    cr_assert_eq(batcher_start(b, epoch), QLFT_OK);
    for (int64_t i = 0; i < batcher_micro_batches(b); i++) {
        cr_assert_eq(batcher_get(b, i, &out), QLFT_OK);
        cr_assert_gt(out.sample_count, 0);
        check_batch(s, &out, o, seen);
        sum.tokens += out.count;
        sum.counted += out.counted;
        if (out.count > sum.most_tokens) sum.most_tokens = out.count;
        if (out.counted > sum.most_counted) sum.most_counted = out.counted;
    }
    cr_assert_eq(batcher_get(b, batcher_micro_batches(b), &out), QLFT_EARG);
    for (int64_t i = 0; i < dataset_size(s); i++) cr_assert_eq(seen[i], 1, "sample %lld is seen %d times", (long long)i, seen[i]);
    data_counts c = dataset_counts(s);
    cr_assert_eq(sum.tokens, c.tokens);
    cr_assert_eq(sum.counted, c.supervised);
    cr_assert_leq(sum.most_tokens, batcher_max_tokens(b));
    cr_assert_leq(sum.most_counted, batcher_max_counted(b));
    int64_t micro = batcher_micro_batches(b);
    cr_assert_eq(batcher_steps(b), (micro + o->accum - 1) / o->accum);
    free(seen);
    batch_free(&out);
    return sum;
}

Test(batch, every_choice_of_options_keeps_the_rules)
{
    for (int count = 1; count <= 300; count += count < 8 ? 1 : 73) {
        dataset *s = random_dataset((uint64_t)count, count, 60);
        for (int choice = 0; choice < 16; choice++) {
            batch_options o = {.batch = choice & 1 ? 1 : 5, .seq = choice & 2 ? 60 : 200, .accum = 4, .shuffle = choice & 4, .packing = choice & 8, .seed = 3};
            batcher *b;
            cr_assert_eq(batcher_open(&b, s, &o), QLFT_OK, "%s", qlft_last_error());
            for (int64_t epoch = 0; epoch < 2; epoch++) check_epoch(s, b, &o, epoch);
            batcher_close(b);
        }
        dataset_close(s);
    }
}

/* Without packing the largest micro-batch is known exactly: the longest samples together. */
Test(batch, bound_is_met_by_the_longest_samples)
{
    const char *path = write_text(
        "b.jsonl", "{\"input_ids\":[1,1,1,1]}\n{\"input_ids\":[2]}\n{\"input_ids\":[3,3,3]}\n{\"input_ids\":[4,4]}\n{\"input_ids\":[5,5,5,5,5,5]}\n");
    data_options d = {.paths = &path, .path_count = 1, .format = FORMAT_TOKENS};
    dataset *s;
    cr_assert_eq(dataset_open(&s, &d, NULL, NULL, NULL, NULL), QLFT_OK);
    static const int64_t tokens[] = {0, 6, 10, 13, 15, 16, 16}, counted[] = {0, 5, 8, 10, 11, 11, 11};
    for (int k = 1; k <= 6; k++) {
        batch_options o = {.batch = k, .accum = 1};
        batcher *b;
        cr_assert_eq(batcher_open(&b, s, &o), QLFT_OK);
        cr_assert_eq(batcher_max_tokens(b), tokens[k]);
        cr_assert_eq(batcher_max_counted(b), counted[k]);
        batcher_close(b);
    }
    dataset_close(s);
}

static void order_of(const dataset *s, const batch_options *o, int64_t epoch, int64_t *order)
{
    batcher *b;
    batch out;
    int64_t at = 0;
    cr_assert_eq(batcher_open(&b, s, o), QLFT_OK);
    cr_assert_eq(batch_alloc(&out, batcher_max_tokens(b)), QLFT_OK);
    cr_assert_eq(batcher_start(b, epoch), QLFT_OK);
    for (int64_t i = 0; i < batcher_micro_batches(b); i++) {
        cr_assert_eq(batcher_get(b, i, &out), QLFT_OK);
        for (int64_t k = 0; k < out.sample_count; k++) order[at++] = out.samples[k];
    }
    batch_free(&out);
    batcher_close(b);
}

Test(batch, order_is_a_function_of_seed_and_epoch)
{
    enum { COUNT = 200 };
    dataset *s = random_dataset(11, COUNT, 20);
    int64_t file[COUNT], a[COUNT], b[COUNT];
    batch_options o = {.batch = 2, .seq = 20, .accum = 1, .shuffle = false, .packing = false, .seed = 5};
    order_of(s, &o, 3, file);
    for (int i = 0; i < COUNT; i++) cr_assert_eq(file[i], i);
    o.shuffle = true;
    order_of(s, &o, 0, a);
    o.batch = 7;
    o.accum = 3;
    order_of(s, &o, 0, b);
    cr_assert_eq(memcmp(a, b, sizeof a), 0, "neither batch nor accumulation changes the order");
    cr_assert_neq(memcmp(a, file, sizeof a), 0);
    order_of(s, &o, 1, b);
    cr_assert_neq(memcmp(a, b, sizeof a), 0, "another epoch");
    o.seed = 6;
    order_of(s, &o, 0, b);
    cr_assert_neq(memcmp(a, b, sizeof a), 0, "another seed");
    /* Packing moves a sample by at most the rows that are open at a time: 32 rows of at most 20 samples here. */
    o = (batch_options){.batch = 1, .seq = 20, .accum = 1, .packing = true};
    order_of(s, &o, 0, b);
    for (int i = 0; i < COUNT; i++) cr_assert_leq(llabs(b[i] - i), 32 * 20);
    dataset_close(s);
}

/* Rows of chat-like lengths: packing fills more than nine tenths of each row. */
Test(batch, packing_fills_rows)
{
    dataset *s = random_dataset(2, 300, 60);
    batch_options o = {.batch = 1, .seq = 200, .accum = 1, .shuffle = true, .packing = true};
    batcher *b;
    cr_assert_eq(batcher_open(&b, s, &o), QLFT_OK);
    cr_assert_eq(batcher_start(b, 0), QLFT_OK);
    double fill = (double)dataset_counts(s).tokens / (double)(200 * batcher_micro_batches(b));
    cr_assert_gt(fill, 0.9, "%g", fill);
    batcher_close(b);
    dataset_close(s);
}

/* A10: three rows, batch 8, accumulation 4: one step an epoch, not none. */
Test(batch, a_last_window_that_is_not_full_is_a_step)
{
    dataset *s = random_dataset(4, 3, 9);
    for (int packing = 0; packing < 2; packing++) {
        batch_options o = {.batch = 8, .seq = 16, .accum = 4, .packing = packing};
        batcher *b;
        cr_assert_eq(batcher_open(&b, s, &o), QLFT_OK);
        check_epoch(s, b, &o, 0);
        cr_assert_eq(batcher_micro_batches(b), 1);
        cr_assert_eq(batcher_steps(b), 1);
        batcher_close(b);
    }
    dataset_close(s);
}

Test(batch, options_that_cannot_be_met_are_refused)
{
    dataset *s = random_dataset(5, 20, 30);
    batch_options o = {.batch = 1, .seq = 5, .accum = 1, .packing = true};
    batcher *b;
    cr_assert_eq(batcher_open(&b, s, &o), QLFT_EARG);
    assert_message("--seq 5");
    o = (batch_options){.batch = 0, .accum = 1};
    cr_assert_eq(batcher_open(&b, s, &o), QLFT_EARG);
    o = (batch_options){.batch = 1, .accum = 0};
    cr_assert_eq(batcher_open(&b, s, &o), QLFT_EARG);
    dataset_close(s);
}
