/* Generation: the cache against whole forward passes, passes of any size, what is drawn. */
#include <math.h>
#include <stdlib.h>

#include "infer/decode.h"
#include "temporary.h"
#include "tolerance.h"

enum { CAPACITY = 40, PROMPT = 11 };
static const int32_t prompt[PROMPT] = {1, 17, 250, 3, 99, 42, 42, 200, 7, 131, 64};

/* The golden llama, loaded for passes of at most `tokens`. */
typedef struct speaker {
    device *dev;
    model *m;
    kv_cache cache;
    decoder dec;
    ledger planned, used;
} speaker;

static void bind(speaker *s, arena *a, int64_t tokens, dtype compute)
{
    model_options o = {.compute = compute, .quantize = compute == DTYPE_BF16, .double_quant = true, .tokens = tokens, .loss_rows = 3};
    s->dev->scratch = arena_take(a, TIER_DEVICE, LEDGER_SCRATCH, "kernels", "scratch of threads", (size_t)s->dev->threads * DEVICE_SCRATCH_BYTES);
    kv_cache_bind(&s->cache, a, s->m, CAPACITY, compute);
    model_bind(s->m, a, &o);
}

static void speaker_open(speaker *s, int64_t tokens, dtype compute)
{
    memset(s, 0, sizeof *s);
    arena dry = {.book = &s->planned}, real = {.book = &s->used};
    void *base = NULL;
    OK(device_find("cpu")->open(&s->dev, 0, 2));
    OK(model_open(&s->m, s->dev, TEST_GOLDEN "/arch/llama/model"));
    OK(kv_cache_open(&s->cache, s->m));
    bind(s, &dry, tokens, compute);
    OK(s->dev->table->reserve(s->dev, TIER_DEVICE, s->planned.peak[TIER_DEVICE], &base));
    real.base[TIER_DEVICE] = base;
    real.size[TIER_DEVICE] = s->planned.peak[TIER_DEVICE];
    bind(s, &real, tokens, compute);
    OK(arena_status(&real));
    OK(model_load(s->m, NULL, NULL, NULL));
    OK(decoder_open(&s->dec, s->m, &s->cache));
}

static void speaker_close(speaker *s)
{
    decoder_close(&s->dec);
    kv_cache_close(&s->cache);
    model_close(s->m);
    device_close(s->dev);
    ledger_free(&s->planned);
    ledger_free(&s->used);
}

/* Logits behind the last of the ids by one forward pass without a cache, whose numbers tests/test_model.c holds against PyTorch. */
static void whole_logits(speaker *s, const int32_t *ids, int64_t count, float *out)
{
    int32_t positions[CAPACITY], first[CAPACITY] = {0};
    for (int64_t i = 0; i < count; i++) positions[i] = (int32_t)i;
    model_batch b = {ids, NULL, positions, first, count, 0};
    OK(model_forward(s->m, &b, false, NULL, 0));
    model_logits(s->m, count - 1, 1, out);
}

static int32_t largest(const float *logits, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

static double largest_error(const float *a, const float *b, int64_t count)
{
    double worst = 0.0;
    for (int64_t i = 0; i < count; i++) {
        double error = fabs((double)a[i] - b[i]);
        if (!(error <= worst)) worst = error; /* a NaN stays */
    }
    return worst;
}

/* ---- the cache ---- */

Test(infer, each_greedy_token_is_the_likeliest_of_a_whole_forward_pass)
{
    speaker s;
    speaker_open(&s, CAPACITY, DTYPE_F32);
    int64_t vocabulary = s.m->dims.vocabulary;
    int32_t ids[CAPACITY];
    float *expected = malloc((size_t)vocabulary * sizeof *expected);
    const sample_options greedy = {.temperature = 0.0, .top_p = 1.0};
    memcpy(ids, prompt, sizeof prompt);
    OK(decoder_feed(&s.dec, prompt, PROMPT));
    for (int64_t count = PROMPT; count < CAPACITY; count++) {
        int32_t id = -1;
        OK(sample_token(&id, s.dec.logits, vocabulary, &greedy, (uint64_t)count));
        whole_logits(&s, ids, count, expected);
        double error = largest_error(s.dec.logits, expected, vocabulary);
        cr_assert(error <= TOLERANCE_ARCH_LOGITS_F32, "after %lld tokens logits differ by %g", (long long)count, error);
        cr_assert_eq(id, largest(expected, vocabulary), "after %lld tokens", (long long)count);
        ids[count] = id;
        if (count + 1 < CAPACITY) OK(decoder_feed(&s.dec, &id, 1));
    }
    free(expected);
    speaker_close(&s);
}

static void check_pieces(dtype compute, double bound)
{
    static const int64_t sizes[] = {1, 2, 4, PROMPT - 1};
    speaker whole, piece;
    speaker_open(&whole, PROMPT, compute);
    OK(decoder_feed(&whole.dec, prompt, PROMPT));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        speaker_open(&piece, sizes[i], compute);
        OK(decoder_feed(&piece.dec, prompt, PROMPT));
        cr_assert_eq(piece.cache.length, PROMPT);
        double error = largest_error(piece.dec.logits, whole.dec.logits, whole.m->dims.vocabulary);
        cr_assert(error <= bound, "passes of %lld tokens: logits differ by %g", (long long)sizes[i], error);
        speaker_close(&piece);
    }
    speaker_close(&whole);
}

Test(infer, a_prompt_read_in_pieces_gives_the_same_logits_f32)
{
    check_pieces(DTYPE_F32, TOLERANCE_ARCH_LOGITS_F32);
}

Test(infer, a_prompt_read_in_pieces_gives_the_same_logits_nf4_bf16)
{
    check_pieces(DTYPE_BF16, TOLERANCE_DECODE_LOGITS_BF16);
}

Test(infer, a_cache_that_is_cut_goes_on_from_there)
{
    speaker s;
    speaker_open(&s, 4, DTYPE_F32);
    int64_t vocabulary = s.m->dims.vocabulary;
    float *first = malloc((size_t)vocabulary * sizeof *first);
    OK(decoder_feed(&s.dec, prompt, PROMPT));
    memcpy(first, s.dec.logits, (size_t)vocabulary * sizeof *first);
    s.cache.length = 6; /* a conversation whose end is another */
    OK(decoder_feed(&s.dec, prompt, 3));
    s.cache.length = 6;
    OK(decoder_feed(&s.dec, prompt + 6, PROMPT - 6));
    cr_assert(largest_error(first, s.dec.logits, vocabulary) <= TOLERANCE_ARCH_LOGITS_F32);
    free(first);
    speaker_close(&s);
}

/* ---- ends ---- */

typedef struct taken {
    int32_t ids[CAPACITY];
    int count, most;
} taken;

static bool take(void *payload, int32_t id)
{
    taken *t = payload;
    t->ids[t->count++] = id;
    return t->count < t->most;
}

Test(infer, an_answer_ends_at_its_stop_id_its_limit_the_cache_or_a_signal)
{
    speaker s;
    taken all = {.most = CAPACITY}, t = all;
    int64_t drawn = 0;
    decode_end end;
    volatile int interrupted = 0;
    speaker_open(&s, 8, DTYPE_F32);
    decode_options o = {.sample = {.temperature = 0.0, .top_p = 1.0}, .max_tokens = 1000, .interrupted = &interrupted};
    OK(decoder_feed(&s.dec, prompt, PROMPT));
    OK(decoder_generate(&s.dec, &o, take, &all, &drawn, &end));
    cr_assert_eq(end, DECODE_LENGTH);
    cr_assert_eq(drawn, CAPACITY - PROMPT);
    cr_assert_eq(s.cache.length, CAPACITY);
    REFUSED(decoder_feed(&s.dec, prompt, 1), QLFT_EARG, "40 tokens");
    REFUSED(decoder_feed(&s.dec, prompt, 0), QLFT_EARG, "no tokens");
    s.cache.length = 0;
    o.max_tokens = 3;
    OK(decoder_feed(&s.dec, prompt, PROMPT));
    OK(decoder_generate(&s.dec, &o, take, &t, &drawn, &end));
    cr_assert(end == DECODE_LENGTH && drawn == 3 && t.count == 3);
    cr_assert_eq(memcmp(t.ids, all.ids, 3 * sizeof *t.ids), 0);
    s.cache.length = 0; /* the third id now stops: it is not given, but it is in the cache */
    int place = 0;
    while (place < 2 && all.ids[place] != all.ids[2]) place++;
    o.stops = &all.ids[2];
    o.stop_count = 1;
    t = (taken){.most = CAPACITY};
    OK(decoder_feed(&s.dec, prompt, PROMPT));
    OK(decoder_generate(&s.dec, &o, take, &t, &drawn, &end));
    cr_assert(end == DECODE_STOP && drawn == place && t.count == place && s.cache.length == PROMPT + place + 1);
    s.cache.length = 0;
    o.stop_count = 0;
    t = (taken){.most = 1};
    OK(decoder_feed(&s.dec, prompt, PROMPT));
    OK(decoder_generate(&s.dec, &o, take, &t, &drawn, &end));
    cr_assert(end == DECODE_STOPPED && drawn == 1);
    interrupted = 1;
    OK(decoder_generate(&s.dec, &o, take, &t, &drawn, &end));
    cr_assert(end == DECODE_STOPPED && drawn == 0);
    speaker_close(&s);
}

/* ---- drawing ---- */

enum { WORDS = 6, DRAWS = 20000 };
static const float logits[WORDS] = {1.0f, -2.0f, 3.0f, 0.0f, 3.0f, -INFINITY};

/* How often each is drawn over many positions, against probabilities: chi-squared below its 0.999 quantile for at most five degrees of freedom. */
static void check_distribution(const sample_options *o, const double expected[WORDS])
{
    int counts[WORDS] = {0};
    double squares = 0.0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        int32_t id = -1;
        OK(sample_token(&id, logits, WORDS, o, i));
        cr_assert(id >= 0 && id < WORDS);
        counts[id]++;
    }
    for (int i = 0; i < WORDS; i++) {
        double wanted = expected[i] * DRAWS;
        if (expected[i] == 0.0)
            cr_assert_eq(counts[i], 0, "%d is drawn %d times", i, counts[i]);
        else
            squares += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
    }
    cr_assert(squares <= 20.515, "chi-squared %g: %d %d %d %d %d %d", squares, counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]);
}

/* softmax(logits / temperature) of those that stay. */
static void probabilities(double out[WORDS], double temperature, const int stays[WORDS])
{
    double sum = 0.0;
    for (int i = 0; i < WORDS; i++) sum += out[i] = stays[i] ? exp((double)logits[i] / temperature) : 0.0;
    for (int i = 0; i < WORDS; i++) out[i] /= sum;
}

Test(infer, tokens_are_drawn_as_often_as_they_are_likely)
{
    double expected[WORDS];
    const struct {
        sample_options o;
        int stays[WORDS];
    } cases[] = {
        {{1.0, 1.0, 0, 1}, {1, 1, 1, 1, 1, 0}},  {{1.0, 1.0, 0, 2}, {1, 1, 1, 1, 1, 0}}, {{2.5, 1.0, 0, 3}, {1, 1, 1, 1, 1, 0}},
        {{1.0, 1.0, 2, 4}, {0, 0, 1, 0, 1, 0}},  {{1.0, 1.0, 1, 5}, {0, 0, 1, 0, 0, 0}}, /* of equal ones the first */
        {{1.0, 0.4, 0, 6}, {0, 0, 1, 0, 0, 0}},                                          /* 0.455 alone is enough */
        {{1.0, 0.9, 0, 7}, {0, 0, 1, 0, 1, 0}},                                          /* 0.455 + 0.455 */
        {{1.0, 0.95, 0, 8}, {1, 0, 1, 0, 1, 0}},                                         /* + 0.062 */
        {{1.0, 0.9, 3, 9}, {0, 0, 1, 0, 1, 0}},                                          /* shares are of what top-k leaves: 0.936 / 2 each */
        {{3.0, 0.9, 0, 10}, {1, 0, 1, 1, 1, 0}},                                         /* temperature first: flatter, so more stay */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        probabilities(expected, cases[i].o.temperature, cases[i].stays);
        check_distribution(&cases[i].o, expected);
    }
}

Test(infer, a_seed_says_the_same_again_and_another_seed_something_else)
{
    int same = 0;
    for (uint64_t i = 0; i < 200; i++) {
        int32_t a = -1, b = -1, c = -1;
        OK(sample_token(&a, logits, WORDS, &(sample_options){1.0, 1.0, 0, 7}, i));
        OK(sample_token(&b, logits, WORDS, &(sample_options){1.0, 1.0, 0, 7}, i));
        OK(sample_token(&c, logits, WORDS, &(sample_options){1.0, 1.0, 0, 8}, i));
        cr_assert_eq(a, b);
        same += a == c;
    }
    cr_assert(same < 150);
}

Test(infer, logits_that_are_no_numbers_are_an_error)
{
    const float broken[][3] = {{1.0f, NAN, 0.0f}, {1.0f, INFINITY, 0.0f}, {-INFINITY, -INFINITY, -INFINITY}};
    for (size_t i = 0; i < 3; i++) {
        int32_t id = -1;
        REFUSED(sample_token(&id, broken[i], 3, &(sample_options){0.0, 1.0, 0, 0}, 12), QLFT_ENUMERIC, "position 12");
    }
}
