/* The kernel checker's rows of attention. The oracle of ref is the formula in double over a whole matrix of scores; gradients by central differences. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/kernels_compare.h"
#include "tests/tolerance.h"

typedef struct attention_case {
    int queries, keys, heads, key_heads, head_size;
    int sample; /* rows of a packed sample, 0: one sample */
    int window; /* 0: none */
} attention_case;

static const attention_case cases[] = {
    {1, 1, 1, 1, 2, 0, 0},     {5, 5, 2, 1, 12, 0, 0},      {17, 17, 4, 2, 20, 5, 0},   {64, 64, 2, 2, 64, 0, 0},
    {65, 65, 3, 1, 36, 0, 0},  {130, 130, 2, 1, 80, 50, 0}, {200, 200, 3, 3, 16, 0, 0}, {129, 129, 2, 1, 48, 0, 37},
    {70, 70, 2, 1, 256, 0, 0}, {7, 150, 4, 2, 64, 0, 0},    {1, 90, 6, 2, 24, 0, 0},    {150, 150, 1, 1, 7, 3, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct attention_inputs {
    tensor q, k, v, d_o, o, lse;
    ops_attention shape;
} attention_inputs;

static int32_t *first_keys(const attention_case *c)
{
    int32_t *first = malloc((size_t)c->queries * sizeof *first);
    const int behind = c->keys - c->queries;
    for (int i = 0; i < c->queries; i++) {
        int at = i + behind, from = c->sample ? at / c->sample * c->sample : 0;
        if (c->window && at - c->window + 1 > from) from = at - c->window + 1;
        first[i] = from;
    }
    return first;
}

static ops_attention shape_of(const attention_case *c, const int32_t *first)
{
    ops_attention s = {c->heads, c->key_heads, c->head_size, 1.0f / sqrtf((float)c->head_size), first};
    return s;
}

static void call_forward(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const attention_inputs *in = inputs;
    t->attention_forward(d, out[0].t, out[1].t, in->q, in->k, in->v, &in->shape);
}

static void call_backward(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const attention_inputs *in = inputs;
    t->attention_backward(d, out[0].t, out[1].t, out[2].t, in->d_o, in->o, in->q, in->k, in->v, in->lse, out[3].t, &in->shape);
}

static compare_bound bound_of(dtype type, tensor expected)
{
    compare_bound b = {0, (type == DTYPE_BF16 ? TOLERANCE_ATTENTION_BF16 : TOLERANCE_ATTENTION_F32) * fmax(1e-2, compare_largest(expected)), false};
    return b;
}

/* ---- the formula ---- */

typedef struct attention_doubles {
    double *q, *k, *v; /* row-major as the tensors */
} attention_doubles;

static double *doubles_of(tensor t)
{
    double *x = malloc((size_t)(t.rows * t.cols) * sizeof *x);
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t j = 0; j < t.cols; j++) x[i * t.cols + j] = (double)tensor_get(t, i, j);
    return x;
}

/* o of query i, head h into out; the log of the sum of exponentials is returned. */
static double formula_row(const attention_case *c, const int32_t *first, const attention_doubles *x, int i, int h, double *out)
{
    const int size = c->head_size, key_head = h / (c->heads / c->key_heads), last = i + c->keys - c->queries;
    double *score = malloc((size_t)c->keys * sizeof *score), sum = 0;
    for (int e = 0; e < size; e++) out[e] = 0;
    for (int j = first[i]; j <= last; j++) {
        score[j] = 0;
        for (int e = 0; e < size; e++) score[j] += x->q[(i * c->heads + h) * size + e] * x->k[(j * c->key_heads + key_head) * size + e];
        score[j] = exp(score[j] * (double)(1.0f / sqrtf((float)size)));
        sum += score[j];
    }
    for (int j = first[i]; j <= last; j++)
        for (int e = 0; e < size; e++) out[e] += score[j] / sum * x->v[(j * c->key_heads + key_head) * size + e];
    free(score);
    return log(sum);
}

static void forward_against_formula(kernel_run *k, const attention_case *c, const attention_inputs *in, tensor o, tensor lse)
{
    const attention_doubles x = {doubles_of(in->q), doubles_of(in->k), doubles_of(in->v)};
    double row[256];
    for (int i = 0; i < c->queries; i++)
        for (int h = 0; h < c->heads; h++) {
            double want = formula_row(c, in->shape.first, &x, i, h, row);
            kernel_expect(k, fabs((double)tensor_get(lse, i, h) - want) <= 1e-6 * fmax(1, fabs(want)), "lse of query %d, head %d", i, h);
            for (int e = 0; e < c->head_size; e++) {
                double bound = o.type == DTYPE_BF16 ? TOLERANCE_BF16_ULP * fabs(row[e]) + 1e-6 : 2e-7;
                kernel_expect(k, fabs((double)tensor_get(o, i, h * c->head_size + e) - row[e]) <= bound, "o of query %d, head %d, element %d", i, h, e);
            }
        }
    free(x.q);
    free(x.k);
    free(x.v);
}

static double weighted_output(const attention_case *c, const int32_t *first, const attention_doubles *x, const double *weights)
{
    double sum = 0, row[256];
    for (int i = 0; i < c->queries; i++)
        for (int h = 0; h < c->heads; h++) {
            formula_row(c, first, x, i, h, row);
            for (int e = 0; e < c->head_size; e++) sum += row[e] * weights[(i * c->heads + h) * c->head_size + e];
        }
    return sum;
}

static void against_differences(kernel_run *k, const attention_case *c, const int32_t *first, const attention_doubles *x, const double *weights, double *moved,
                                const char *name, tensor gradient)
{
    const double step = 1e-5;
    for (int64_t at = 0; at < gradient.rows * gradient.cols; at++) {
        const double middle = moved[at];
        moved[at] = middle + step;
        double above = weighted_output(c, first, x, weights);
        moved[at] = middle - step;
        double slope = (above - weighted_output(c, first, x, weights)) / (2 * step), got = (double)tensor_get(gradient, at / gradient.cols, at % gradient.cols);
        moved[at] = middle;
        kernel_expect(k, fabs(got - slope) <= TOLERANCE_FINITE_DIFFERENCE, "central difference of %s at %d: %.9g, not %.9g", name, (int)at, got, slope);
    }
}

/* ---- rows ---- */

static void one_forward(kernel_run *k, const attention_case *c, dtype type)
{
    const int wide = c->heads * c->head_size, narrow = c->key_heads * c->head_size;
    int32_t *first = first_keys(c);
    guarded q = guarded_random(k, c->queries, wide, wide + 3, type, -2, 2), key = guarded_random(k, c->keys, narrow, narrow + 1, type, -2, 2);
    guarded v = guarded_random(k, c->keys, narrow, narrow + 2, type, -1, 1);
    guarded blank[2] = {guarded_new(c->queries, wide, wide + 5, type), guarded_new(c->queries, c->heads, c->heads + 1, DTYPE_F32)}, kept[2];
    const attention_inputs in = {.q = q.t, .k = key.t, .v = v.t, .shape = shape_of(c, first)};
    const compare_bound bounds[2] = {{0, type == DTYPE_BF16 ? TOLERANCE_ATTENTION_BF16 : TOLERANCE_ATTENTION_F32, false}, compare_rounded(DTYPE_F32, 8, 1e-6)};
    compare_levels(k, "attention", call_forward, &in, blank, 2, bounds, kept);
    forward_against_formula(k, c, &in, kept[0].t, kept[1].t);
    guarded *all[] = {&q, &key, &v, &blank[0], &blank[1], &kept[0], &kept[1]};
    for (int i = 0; i < 7; i++) guarded_free(all[i]);
    free(first);
}

/* A sample gives the same bits alone, behind others (whose tiles of keys, counted from 30, would cut it at 94), and a row at a time behind its keys
 * (as in generation). */
static void same_bits_anywhere(kernel_run *k, dtype type)
{
    enum { SECOND = 30, BEFORE = 91, SAMPLE = 100, HEADS = 4, KEY_HEADS = 2, SIZE = 32 };
    const attention_case packed = {BEFORE + SAMPLE, BEFORE + SAMPLE, HEADS, KEY_HEADS, SIZE, 0, 0};
    const int wide = HEADS * SIZE, narrow = KEY_HEADS * SIZE, rows = BEFORE + SAMPLE;
    int32_t first[BEFORE + SAMPLE] = {0}, alone_first[SAMPLE] = {0};
    for (int i = SECOND; i < rows; i++) first[i] = i < BEFORE ? SECOND : BEFORE;
    guarded q = guarded_random(k, rows, wide, wide, type, -2, 2), key = guarded_random(k, rows, narrow, narrow, type, -2, 2);
    guarded v = guarded_random(k, rows, narrow, narrow, type, -1, 1);
    guarded o[3] = {guarded_new(rows, wide, wide, type), guarded_new(SAMPLE, wide, wide, type), guarded_new(1, wide, wide, type)};
    guarded lse[3] = {guarded_new(rows, HEADS, HEADS, DTYPE_F32), guarded_new(SAMPLE, HEADS, HEADS, DTYPE_F32), guarded_new(1, HEADS, HEADS, DTYPE_F32)};
    ops_attention shape = shape_of(&packed, first);
    k->table->attention_forward(k->devices[0], o[0].t, lse[0].t, q.t, key.t, v.t, &shape);
    shape.first = alone_first;
    const tensor own_q = tensor_rows(q.t, BEFORE, SAMPLE), own_k = tensor_rows(key.t, BEFORE, SAMPLE), own_v = tensor_rows(v.t, BEFORE, SAMPLE);
    k->table->attention_forward(k->devices[0], o[1].t, lse[1].t, own_q, own_k, own_v, &shape);
    kernel_expect_same_bits(k, "a sample alone and packed", tensor_rows(o[0].t, BEFORE, SAMPLE), o[1].t);
    for (int i = 0; i < SAMPLE; i += 33) {
        k->table->attention_forward(k->devices[0], o[2].t, lse[2].t, tensor_rows(own_q, i, 1), tensor_rows(own_k, 0, i + 1), tensor_rows(own_v, 0, i + 1),
                                    &shape);
        kernel_expect_same_bits(k, "one query and all", tensor_rows(o[1].t, i, 1), o[2].t);
    }
    guarded *all[] = {&q, &key, &v, &o[0], &o[1], &o[2], &lse[0], &lse[1], &lse[2]};
    for (int i = 0; i < 9; i++) guarded_free(all[i]);
}

void check_attention_forward(kernel_run *k)
{
    for (int c = 0; c < CASES; c++) {
        one_forward(k, &cases[c], DTYPE_F32);
        one_forward(k, &cases[c], DTYPE_BF16);
    }
    same_bits_anywhere(k, DTYPE_F32);
    same_bits_anywhere(k, DTYPE_BF16);
}

static void one_backward(kernel_run *k, const attention_case *c, dtype type, bool differences)
{
    const int wide = c->heads * c->head_size, narrow = c->key_heads * c->head_size, rows = c->queries;
    int32_t *first = first_keys(c);
    guarded q = guarded_random(k, rows, wide, wide + 3, type, -2, 2), key = guarded_random(k, rows, narrow, narrow + 1, type, -2, 2);
    guarded v = guarded_random(k, rows, narrow, narrow + 2, type, -1, 1), d_o = guarded_random(k, rows, wide, wide + 1, type, -1, 1);
    guarded o = guarded_new(rows, wide, wide, type), lse = guarded_new(rows, c->heads, c->heads, DTYPE_F32);
    guarded blank[4] = {guarded_new(rows, wide, wide + 1, type), guarded_new(rows, narrow, narrow + 4, type), guarded_new(rows, narrow, narrow + 2, type),
                        guarded_new(rows, c->heads, c->heads + 1, DTYPE_F32)};
    guarded kept[4], expected[4];
    attention_inputs in = {q.t, key.t, v.t, d_o.t, o.t, lse.t, shape_of(c, first)};
    k->reference->attention_forward(k->reference_device, o.t, lse.t, q.t, key.t, v.t, &in.shape);
    compare_bound bounds[4];
    for (int i = 0; i < 4; i++) expected[i] = guarded_copy(&blank[i]);
    call_backward(k->reference, k->reference_device, &in, expected);
    for (int i = 0; i < 4; i++) bounds[i] = bound_of(type, expected[i].t);
    compare_levels(k, "attention backward", call_backward, &in, blank, 4, bounds, kept);
    if (differences) {
        const attention_doubles x = {doubles_of(q.t), doubles_of(key.t), doubles_of(v.t)};
        double *weights = doubles_of(d_o.t), *moved[] = {x.q, x.k, x.v};
        static const char *const names[] = {"dq", "dk", "dv"};
        for (int i = 0; i < 3; i++) against_differences(k, c, first, &x, weights, moved[i], names[i], kept[i].t);
        for (int i = 0; i < 3; i++) free(moved[i]);
        free(weights);
    }
    guarded *all[] = {&q, &key, &v, &d_o, &o, &lse};
    for (int i = 0; i < 6; i++) guarded_free(all[i]);
    for (int i = 0; i < 4; i++) {
        guarded_free(&blank[i]);
        guarded_free(&kept[i]);
        guarded_free(&expected[i]);
    }
    free(first);
}

/* Gradients of a sample: the same bits alone and behind others. */
static void same_gradients_anywhere(kernel_run *k, dtype type)
{
    enum {
        SECOND = 30,
        BEFORE = 91,
        SAMPLE = 100,
        HEADS = 4,
        KEY_HEADS = 2,
        SIZE = 32,
        ROWS = BEFORE + SAMPLE,
        WIDE = HEADS * SIZE,
        NARROW = KEY_HEADS * SIZE
    };
    int32_t first[ROWS] = {0}, alone[SAMPLE] = {0};
    for (int i = SECOND; i < ROWS; i++) first[i] = i < BEFORE ? SECOND : BEFORE;
    guarded q = guarded_random(k, ROWS, WIDE, WIDE, type, -2, 2), key = guarded_random(k, ROWS, NARROW, NARROW, type, -2, 2);
    guarded v = guarded_random(k, ROWS, NARROW, NARROW, type, -1, 1), d_o = guarded_random(k, ROWS, WIDE, WIDE, type, -1, 1);
    guarded o = guarded_new(ROWS, WIDE, WIDE, type), lse = guarded_new(ROWS, HEADS, HEADS, DTYPE_F32);
    guarded packed[4] = {guarded_new(ROWS, WIDE, WIDE, type), guarded_new(ROWS, NARROW, NARROW, type), guarded_new(ROWS, NARROW, NARROW, type),
                         guarded_new(ROWS, HEADS, HEADS, DTYPE_F32)};
    guarded own[4] = {guarded_new(SAMPLE, WIDE, WIDE, type), guarded_new(SAMPLE, NARROW, NARROW, type), guarded_new(SAMPLE, NARROW, NARROW, type),
                      guarded_new(SAMPLE, HEADS, HEADS, DTYPE_F32)};
    attention_inputs in = {q.t, key.t, v.t, d_o.t, o.t, lse.t, {HEADS, KEY_HEADS, SIZE, 0.2f, first}};
    k->table->attention_forward(k->devices[0], o.t, lse.t, q.t, key.t, v.t, &in.shape);
    call_backward(k->table, k->devices[0], &in, packed);
    tensor *part[] = {&in.q, &in.k, &in.v, &in.d_o, &in.o, &in.lse};
    for (int i = 0; i < 6; i++) *part[i] = tensor_rows(*part[i], BEFORE, SAMPLE);
    in.shape.first = alone;
    call_backward(k->table, k->devices[0], &in, own);
    for (int i = 0; i < 4; i++) kernel_expect_same_bits(k, "gradients of a sample alone and packed", tensor_rows(packed[i].t, BEFORE, SAMPLE), own[i].t);
    guarded *all[] = {&q, &key, &v, &d_o, &o, &lse, &packed[0], &packed[1], &packed[2], &packed[3], &own[0], &own[1], &own[2], &own[3]};
    for (int i = 0; i < 14; i++) guarded_free(all[i]);
}

void check_attention_backward(kernel_run *k)
{
    static const attention_case small[] = {{7, 7, 4, 2, 4, 3, 0}, {6, 6, 2, 1, 6, 0, 2}};
    for (int c = 0; c < 2; c++) one_backward(k, &small[c], DTYPE_F32, true);
    for (int c = 0; c < CASES; c++) {
        if (cases[c].keys != cases[c].queries) continue; /* backward has a key for each query */
        one_backward(k, &cases[c], DTYPE_F32, false);
        one_backward(k, &cases[c], DTYPE_BF16, false);
    }
    same_gradients_anywhere(k, DTYPE_F32);
    same_gradients_anywhere(k, DTYPE_BF16);
}
