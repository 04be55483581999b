/* The kernel checker's rows of all slots but the matrix products; attention's are in kernels_attention.c.
 * Formulas are written out again here in double, as the oracle of ref; backward kernels are checked by central differences of those formulas. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/kernels_compare.h"
#include "tests/tolerance.h"

static const dtype types[] = {DTYPE_F32, DTYPE_BF16};
static const struct {
    int64_t rows, cols;
} sizes[] = {{1, 1}, {3, 7}, {2, 16}, {5, 33}, {4, 64}, {7, 100}, {3, 577}};
enum { TYPES = 2, SIZES = 7 };

/* ---- norm ---- */

typedef struct norm_inputs {
    tensor dy, x, weight;
    const float *rstd;
    float offset, eps;
} norm_inputs;

static void call_norm_forward(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const norm_inputs *in = inputs;
    t->norm_forward(d, out[0].t, out[1].t.data, in->x, in->weight, in->offset, in->eps);
}

static void call_norm_in_place(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const norm_inputs *in = inputs;
    t->norm_forward(d, out[0].t, out[1].t.data, out[0].t, in->weight, in->offset, in->eps);
}

static void call_norm_backward(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const norm_inputs *in = inputs;
    t->norm_backward(d, out[0].t, in->dy, in->x, in->weight, in->rstd, in->offset);
}

static double norm_of(const double *x, int64_t cols, int64_t j, double weight, double eps)
{
    double sum = 0;
    for (int64_t c = 0; c < cols; c++) sum += x[c] * x[c];
    return x[j] / sqrt(sum / (double)cols + eps) * weight;
}

static void norm_against_formula(kernel_run *k, const norm_inputs *in, tensor y)
{
    double *row = malloc((size_t)in->x.cols * sizeof *row);
    for (int64_t i = 0; i < y.rows; i++) {
        for (int64_t j = 0; j < y.cols; j++) row[j] = (double)tensor_get(in->x, i, j);
        for (int64_t j = 0; j < y.cols; j++) {
            double want = norm_of(row, y.cols, j, (double)tensor_get(in->weight, 0, j) + (double)in->offset, (double)in->eps);
            double bound = (y.type == DTYPE_BF16 ? 1.5 * TOLERANCE_BF16_ULP : 4 * TOLERANCE_F32_ULP) * fabs(want);
            kernel_expect(k, fabs((double)tensor_get(y, i, j) - want) <= bound, "formula of the norm at [%d, %d]", (int)i, (int)j);
        }
    }
    free(row);
}

static void check_norm_forward(kernel_run *k)
{
    for (int s = 0; s < SIZES; s++)
        for (int combination = 0; combination < 4; combination++) {
            const dtype type = types[combination & 1], weight_type = types[combination >> 1];
            const int64_t rows = sizes[s].rows, cols = sizes[s].cols;
            guarded x = guarded_random(k, rows, cols, cols + 3, type, -2, 2), weight = guarded_random(k, 1, cols, cols, weight_type, 0.5f, 1.5f);
            guarded blank[2] = {guarded_new(rows, cols, cols + 5, type), guarded_new(1, rows, rows, DTYPE_F32)}, kept[2];
            norm_inputs in = {.x = x.t, .weight = weight.t, .offset = s % 2 ? 1.0f : 0.0f, .eps = 1e-5f};
            const compare_bound same = {0, 0, true}, bounds[2] = {same, same}; /* sums are double at every level, all else is in one order */
            compare_levels(k, "norm", call_norm_forward, &in, blank, 2, bounds, kept);
            norm_against_formula(k, &in, kept[0].t);
            guarded in_place[2] = {x, blank[1]};
            compare_levels(k, "norm in place", call_norm_in_place, &in, in_place, 2, bounds, NULL);
            guarded part = guarded_new(1, cols, cols, type), whole = guarded_copy(&blank[0]);
            float rstd[16];
            k->table->norm_forward(k->devices[0], whole.t, rstd, in.x, in.weight, in.offset, in.eps);
            k->table->norm_forward(k->devices[0], part.t, rstd, tensor_rows(in.x, rows - 1, 1), in.weight, in.offset, in.eps);
            kernel_expect_same_bits(k, "a row alone and together", tensor_rows(whole.t, rows - 1, 1), part.t);
            guarded *all[] = {&x, &weight, &blank[0], &blank[1], &kept[0], &kept[1], &part, &whole};
            for (int i = 0; i < 8; i++) guarded_free(all[i]);
        }
}

/* d/dx of sum dy y by central differences. */
static double norm_slope(const norm_inputs *in, int64_t row, int64_t col)
{
    const double step = 1e-5;
    double sum = 0, *x = malloc((size_t)in->x.cols * sizeof *x);
    for (int64_t j = 0; j < in->x.cols; j++) x[j] = (double)tensor_get(in->x, row, j);
    const double middle = x[col];
    for (int64_t j = 0; j < in->x.cols; j++) {
        double weight = (double)tensor_get(in->weight, 0, j) + (double)in->offset;
        x[col] = middle + step;
        double above = norm_of(x, in->x.cols, j, weight, (double)in->eps);
        x[col] = middle - step;
        sum += (double)tensor_get(in->dy, row, j) * (above - norm_of(x, in->x.cols, j, weight, (double)in->eps)) / (2 * step);
    }
    free(x);
    return sum;
}

static void check_norm_backward(kernel_run *k)
{
    for (int s = 0; s < SIZES; s++)
        for (int combination = 0; combination < 4; combination++) {
            const dtype type = types[combination & 1], weight_type = types[combination >> 1];
            const int64_t rows = sizes[s].rows, cols = sizes[s].cols;
            guarded x = guarded_random(k, rows, cols, cols + 3, type, -2, 2), weight = guarded_random(k, 1, cols, cols, weight_type, 0.5f, 1.5f);
            guarded dy = guarded_random(k, rows, cols, cols + 1, type, -1, 1), before = guarded_random(k, rows, cols, cols + 5, type, -1, 1), kept;
            guarded y = guarded_new(rows, cols, cols, type);
            float rstd[16];
            norm_inputs in = {.x = x.t, .dy = dy.t, .weight = weight.t, .rstd = rstd, .offset = s % 2 ? 1.0f : 0.0f, .eps = 1e-5f};
            k->reference->norm_forward(k->reference_device, y.t, rstd, x.t, weight.t, in.offset, in.eps);
            const compare_bound bound = compare_rounded(type, 4, 32 * TOLERANCE_F32_ULP);
            compare_levels(k, "norm backward", call_norm_backward, &in, &before, 1, &bound, &kept);
            for (int64_t i = 0; i < rows && cols <= 33 && type == DTYPE_F32; i++)
                for (int64_t j = 0; j < cols; j++) {
                    double got = (double)tensor_get(kept.t, i, j) - (double)tensor_get(before.t, i, j);
                    kernel_expect(k, fabs(got - norm_slope(&in, i, j)) <= TOLERANCE_FINITE_DIFFERENCE, "central difference at [%d, %d] of %d", (int)i, (int)j,
                                  (int)cols);
                }
            guarded *all[] = {&x, &weight, &dy, &before, &kept, &y};
            for (int i = 0; i < 6; i++) guarded_free(all[i]);
        }
}

/* ---- rope ---- */

typedef struct rope_inputs {
    tensor cosine, sine;
    int head_size;
    float sign;
} rope_inputs;

static void call_rope(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const rope_inputs *in = inputs;
    t->rope(d, out[0].t, in->head_size, in->cosine, in->sine, in->sign);
}

static void rope_against_formula(kernel_run *k, const rope_inputs *in, tensor x, tensor y)
{
    const int half = in->head_size / 2;
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.cols; j++) {
            const int64_t in_head = j % in->head_size, pair = in_head % half;
            double c = (double)tensor_get(in->cosine, i, pair), s = (double)tensor_get(in->sine, i, pair) * (double)in->sign;
            double other = (double)tensor_get(x, i, in_head < half ? j + half : j - half),
                   want = (double)tensor_get(x, i, j) * c + (in_head < half ? -s : s) * other;
            double bound = y.type == DTYPE_BF16 ? TOLERANCE_BF16_ULP : TOLERANCE_F32_ULP;
            kernel_expect(k, fabs((double)tensor_get(y, i, j) - want) <= bound * fabs(want) + 1e-30, "formula of rope at [%d, %d]", (int)i, (int)j);
        }
}

static void check_rope(kernel_run *k)
{
    static const int heads[] = {2, 12, 20, 36, 64, 80, 256};
    for (int h = 0; h < 7; h++)
        for (int combination = 0; combination < 4; combination++) {
            const dtype type = types[combination & 1];
            const int64_t rows = 5, cols = 3 * heads[h];
            guarded x = guarded_random(k, rows, cols, cols + 7, type, -2, 2), kept;
            guarded cosine = guarded_random(k, rows, heads[h] / 2, heads[h] / 2 + 1, DTYPE_F32, -1, 1);
            guarded sine = guarded_random(k, rows, heads[h] / 2, heads[h] / 2 + 1, DTYPE_F32, -1, 1);
            const rope_inputs in = {cosine.t, sine.t, heads[h], combination < 2 ? 1.0f : -1.0f};
            const compare_bound bound = compare_rounded(type, 2, 4 * TOLERANCE_F32_ULP);
            compare_levels(k, "rope", call_rope, &in, &x, 1, &bound, &kept);
            rope_against_formula(k, &in, x.t, kept.t);
            guarded *all[] = {&x, &cosine, &sine, &kept};
            for (int i = 0; i < 4; i++) guarded_free(all[i]);
        }
}

/* ---- act ---- */

typedef struct act_inputs {
    tensor dh, gate, up;
} act_inputs;

static void call_act_forward(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const act_inputs *in = inputs;
    t->act_forward(d, out[0].t, in->gate, in->up);
}

static void call_act_into_gate(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const act_inputs *in = inputs;
    t->act_forward(d, out[0].t, out[0].t, in->up);
}

static void call_act_into_up(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const act_inputs *in = inputs;
    t->act_forward(d, out[0].t, in->gate, out[0].t);
}

static void call_act_backward(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const act_inputs *in = inputs;
    t->act_backward(d, out[0].t, out[1].t, in->dh, in->gate, in->up);
}

static void call_act_backward_in_place(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const act_inputs *in = inputs;
    t->act_backward(d, out[0].t, out[1].t, in->dh, out[0].t, out[1].t);
}

static void call_act_backward_into_dh(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const act_inputs *in = inputs;
    t->act_backward(d, out[0].t, out[1].t, out[0].t, in->gate, in->up);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static void check_act_forward(kernel_run *k)
{
    for (int s = 0; s < SIZES; s++)
        for (int t = 0; t < TYPES; t++) {
            const int64_t rows = sizes[s].rows, cols = sizes[s].cols;
            guarded gate = guarded_random(k, rows, cols, cols + 1, types[t], -90, 90), up = guarded_random(k, rows, cols, cols + 2, types[t], -2, 2);
            guarded blank = guarded_new(rows, cols, cols + 3, types[t]), kept;
            const act_inputs in = {.gate = gate.t, .up = up.t};
            tensor_put(gate.t, 0, 0, s % 2 ? 200.0f : -200.0f); /* where exp overflows */
            const compare_bound bound = compare_rounded(types[t], TOLERANCE_SILU_ULPS, TOLERANCE_SILU_TINY);
            compare_levels(k, "act", call_act_forward, &in, &blank, 1, &bound, &kept);
            compare_levels(k, "act into gate", call_act_into_gate, &in, &gate, 1, &bound, NULL);
            compare_levels(k, "act into up", call_act_into_up, &in, &up, 1, &bound, NULL);
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < cols; j++) {
                    double want = silu((double)tensor_get(gate.t, i, j)) * (double)tensor_get(up.t, i, j);
                    double ulp = types[t] == DTYPE_BF16 ? TOLERANCE_BF16_ULP : TOLERANCE_F32_ULP;
                    kernel_expect(k, fabs((double)tensor_get(kept.t, i, j) - want) <= ulp * fabs(want) + TOLERANCE_SILU_TINY, "formula of SwiGLU at [%d, %d]",
                                  (int)i, (int)j);
                }
            guarded *all[] = {&gate, &up, &blank, &kept};
            for (int i = 0; i < 4; i++) guarded_free(all[i]);
        }
}

static void act_against_differences(kernel_run *k, const act_inputs *in, tensor d_gate, tensor d_up)
{
    const double step = 1e-5;
    for (int64_t i = 0; i < d_gate.rows; i++)
        for (int64_t j = 0; j < d_gate.cols; j++) {
            double x = (double)tensor_get(in->gate, i, j), up = (double)tensor_get(in->up, i, j), dh = (double)tensor_get(in->dh, i, j);
            double by_gate = dh * up * (silu(x + step) - silu(x - step)) / (2 * step), by_up = dh * silu(x);
            kernel_expect(k, fabs((double)tensor_get(d_gate, i, j) - by_gate) <= TOLERANCE_FINITE_DIFFERENCE, "central difference by gate at [%d, %d]", (int)i,
                          (int)j);
            kernel_expect(k, fabs((double)tensor_get(d_up, i, j) - by_up) <= TOLERANCE_FINITE_DIFFERENCE, "gradient by up at [%d, %d]", (int)i, (int)j);
        }
}

static void check_act_backward(kernel_run *k)
{
    for (int s = 0; s < SIZES; s++)
        for (int t = 0; t < TYPES; t++) {
            const int64_t rows = sizes[s].rows, cols = sizes[s].cols;
            guarded gate = guarded_random(k, rows, cols, cols, types[t], -6, 6), up = guarded_random(k, rows, cols, cols, types[t], -1, 1);
            guarded dh = guarded_random(k, rows, cols, cols, types[t], -1, 1);
            guarded blank[2] = {guarded_new(rows, cols, cols + 1, types[t]), guarded_new(rows, cols, cols + 2, types[t])}, kept[2];
            const act_inputs in = {dh.t, gate.t, up.t};
            const compare_bound bound = compare_rounded(types[t], TOLERANCE_SILU_ULPS, TOLERANCE_SILU_SLOPE), bounds[2] = {bound, bound};
            compare_levels(k, "act backward", call_act_backward, &in, blank, 2, bounds, kept);
            if (types[t] == DTYPE_F32) act_against_differences(k, &in, kept[0].t, kept[1].t);
            guarded in_place[2] = {gate, up}, into_dh[2] = {dh, blank[1]};
            compare_levels(k, "act backward into gate and up", call_act_backward_in_place, &in, in_place, 2, bounds, NULL);
            compare_levels(k, "act backward into dh", call_act_backward_into_dh, &in, into_dh, 2, bounds, NULL);
            guarded *all[] = {&gate, &up, &dh, &blank[0], &blank[1], &kept[0], &kept[1]};
            for (int i = 0; i < 7; i++) guarded_free(all[i]);
        }
}

/* ---- embed ---- */

typedef struct embed_inputs {
    ops_matrix table;
    const int32_t *tokens;
} embed_inputs;

static void call_embed(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const embed_inputs *in = inputs;
    t->embed(d, out[0].t, in->table, in->tokens);
}

static void check_embed(kernel_run *k)
{
    static const int32_t tokens[] = {4, 0, 0, 2};
    for (int combination = 0; combination < 4; combination++) {
        guarded table = guarded_random(k, 5, 37, 40, types[combination & 1], -2, 2), blank = guarded_new(4, 37, 39, types[combination >> 1]), kept;
        const embed_inputs in = {ops_dense(table.t), tokens};
        const compare_bound bound = {0, 0, true};
        compare_levels(k, "embed", call_embed, &in, &blank, 1, &bound, &kept);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 37; j++) {
                float want = tensor_get(table.t, tokens[i], j);
                if (kept.t.type == DTYPE_BF16) want = bf16_to_f32(f32_to_bf16(want));
                kernel_expect(k, tensor_get(kept.t, i, j) == want, "row %d of the table", (int)tokens[i]);
            }
        guarded_free(&table);
        guarded_free(&blank);
        guarded_free(&kept);
    }
}

/* ---- xent ---- */

typedef struct xent_inputs {
    tensor logits;
    const int32_t *targets;
    dtype gradient; /* of a gradient in the logits' place */
} xent_inputs;

/* out: losses as F32 pairs of a double row, dlogits */
static void call_xent(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const xent_inputs *in = inputs;
    double losses[16];
    t->xent(d, losses, out[1].t, in->logits, in->targets);
    for (int i = 0; i < in->logits.rows; i++) tensor_put(out[0].t, 0, i, (float)losses[i]);
}

/* The view of F32 rows as rows of `type` with the same start in bytes. */
static tensor in_the_same_rows(tensor logits, dtype type)
{
    tensor t = logits;
    t.type = type;
    t.stride = logits.stride * 4 / (int64_t)dtype_bytes(type);
    return t;
}

static void call_xent_in_place(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const xent_inputs *in = inputs;
    double losses[16];
    t->xent(d, losses, in_the_same_rows(out[1].t, in->gradient), out[1].t, in->targets);
    for (int i = 0; i < out[1].t.rows; i++) tensor_put(out[0].t, 0, i, (float)losses[i]);
}

static double xent_of(tensor logits, int64_t row, int64_t target, int64_t moved, double by)
{
    double largest = -(double)INFINITY, sum = 0;
    for (int64_t j = 0; j < logits.cols; j++) largest = fmax(largest, (double)tensor_get(logits, row, j));
    for (int64_t j = 0; j < logits.cols; j++) sum += exp((double)tensor_get(logits, row, j) + (j == moved ? by : 0) - largest);
    return log(sum) + largest - (double)tensor_get(logits, row, target) - (target == moved ? by : 0);
}

static void xent_against_formula(kernel_run *k, const xent_inputs *in, tensor losses, tensor dlogits)
{
    const double step = 1e-5;
    for (int64_t i = 0; i < dlogits.rows; i++) {
        double want = xent_of(in->logits, i, in->targets[i], -1, 0);
        kernel_expect(k, fabs((double)tensor_get(losses, 0, i) - want) <= TOLERANCE_F32_ULP * fabs(want), "loss of row %d", (int)i);
        for (int64_t j = 0; j < dlogits.cols && dlogits.type == DTYPE_F32; j++) {
            double slope = (xent_of(in->logits, i, in->targets[i], j, step) - xent_of(in->logits, i, in->targets[i], j, -step)) / (2 * step);
            kernel_expect(k, fabs((double)tensor_get(dlogits, i, j) - slope) <= TOLERANCE_FINITE_DIFFERENCE, "central difference at [%d, %d]", (int)i, (int)j);
        }
    }
}

static void xent_in_place(kernel_run *k, const guarded *logits, guarded *losses, const int32_t *targets, dtype gradient, tensor expected)
{
    const xent_inputs in = {.targets = targets, .gradient = gradient};
    const compare_bound loose = {0, INFINITY, false}, bounds[2] = {compare_rounded(DTYPE_F32, 2, 1e-30), loose};
    guarded blank[2] = {*losses, *logits}, work = guarded_copy(logits), scratch = guarded_copy(losses);
    compare_levels(k, "xent in place", call_xent_in_place, &in, blank, 2, bounds, NULL);
    guarded out[2] = {scratch, work};
    call_xent_in_place(k->table, k->devices[0], &in, out);
    kernel_expect_same_bits(k, "gradient in the logits' rows", expected, in_the_same_rows(work.t, gradient));
    guarded_free(&work);
    guarded_free(&scratch);
}

static void xent_not_finite(kernel_run *k)
{
    static const float bad[] = {NAN, INFINITY, -NAN};
    for (int b = 0; b < 3; b++)
        for (int at = 0; at < 40; at += 13) {
            guarded logits = guarded_random(k, 2, 40, 40, DTYPE_F32, -1, 1);
            const int32_t targets[2] = {7, 39};
            double losses[2];
            tensor_put(logits.t, 1, at, bad[b]);
            k->table->xent(k->devices[0], losses, tensor_of(NULL, 0, 0, DTYPE_F32), logits.t, targets);
            kernel_expect(k, isfinite(losses[0]) && !isfinite(losses[1]), "a loss that is not finite shows (%d at %d)", b, at);
            guarded_free(&logits);
        }
}

static void check_xent(kernel_run *k)
{
    static const struct {
        float from, to;
    } ranges[] = {{-3, 3}, {-6000, 6000}, {9998, 10002}};
    for (int s = 0; s < SIZES; s++)
        for (int r = 0; r < 3; r++)
            for (int t = 0; t < TYPES; t++) {
                const int64_t rows = sizes[s].rows, cols = sizes[s].cols;
                guarded logits = guarded_random(k, rows, cols, cols + 6, DTYPE_F32, ranges[r].from, ranges[r].to);
                int32_t targets[16];
                for (int i = 0; i < 16; i++) targets[i] = (int32_t)kernel_random_int(k, 0, cols - 1);
                guarded blank[2] = {guarded_new(1, rows, rows, DTYPE_F32), guarded_new(rows, cols, cols + 1, types[t])}, kept[2];
                const xent_inputs in = {.logits = logits.t, .targets = targets};
                const compare_bound bounds[2] = {compare_rounded(DTYPE_F32, 2, 2e-7), compare_rounded(types[t], 6, TOLERANCE_XENT_GRADIENT_F32)};
                compare_levels(k, "xent", call_xent, &in, blank, 2, bounds, kept);
                if (cols <= 64 && r == 0) xent_against_formula(k, &in, kept[0].t, kept[1].t);
                guarded own[2] = {guarded_copy(&blank[0]), guarded_copy(&blank[1])};
                call_xent(k->table, k->devices[0], &in, own);
                xent_in_place(k, &logits, &blank[0], targets, types[t], own[1].t);
                guarded *all[] = {&logits, &blank[0], &blank[1], &kept[0], &kept[1], &own[0], &own[1]};
                for (int i = 0; i < 7; i++) guarded_free(all[i]);
            }
    xent_not_finite(k);
}

/* ---- cast, add, sum of squares, dropout ---- */

typedef struct element_inputs {
    tensor x;
    float p;
    random_key key;
    bool accumulate;
} element_inputs;

static void call_cast(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    t->cast(d, out[0].t, ((const element_inputs *)inputs)->x);
}

static void call_add(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    t->add(d, out[0].t, ((const element_inputs *)inputs)->x);
}

static void call_dropout(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const element_inputs *in = inputs;
    t->dropout(d, out[0].t, in->x, in->p, in->key, in->accumulate);
}

static void call_dropout_in_place(const ops_table *t, device *d, const void *inputs, guarded *out)
{
    const element_inputs *in = inputs;
    t->dropout(d, out[0].t, out[0].t, in->p, in->key, false);
}

static void check_cast(kernel_run *k)
{
    /* Ties to even both ways, the largest finite that rounds to Inf, subnormals, signed zero, infinities. */
    static const uint32_t special[] = {0x3f808000, 0x3f818000, 0x7f7fffff, 0x00000001, 0x00018000, 0x80000000, 0x7f800000, 0xff800000, 0x3f808001, 0x3f807fff};
    for (int s = 0; s < SIZES; s++)
        for (int combination = 0; combination < 4; combination++) {
            const int64_t rows = sizes[s].rows, cols = sizes[s].cols;
            guarded x = guarded_random(k, rows, cols, cols + 1, types[combination & 1], -2, 2),
                    blank = guarded_new(rows, cols, cols + 3, types[combination >> 1]);
            for (int64_t i = 0; i < 10 && i < cols; i++) {
                float value;
                memcpy(&value, &special[i], sizeof value);
                tensor_put(x.t, 0, i, value);
            }
            if (cols > 16) tensor_put(x.t, 0, 16, NAN);
            const element_inputs in = {.x = x.t};
            const compare_bound bound = {0, 0, true};
            compare_levels(k, "cast", call_cast, &in, &blank, 1, &bound, NULL);
            guarded_free(&x);
            guarded_free(&blank);
        }
}

static void check_add(kernel_run *k)
{
    for (int s = 0; s < SIZES; s++)
        for (int combination = 0; combination < 4; combination++) {
            const int64_t rows = sizes[s].rows, cols = sizes[s].cols;
            guarded x = guarded_random(k, rows, cols, cols + 1, types[combination & 1], -2, 2);
            guarded y = guarded_random(k, rows, cols, cols + 3, types[combination >> 1], -2, 2);
            const element_inputs in = {.x = x.t};
            const compare_bound bound = {0, 0, true};
            compare_levels(k, "add", call_add, &in, &y, 1, &bound, NULL);
            guarded_free(&x);
            guarded_free(&y);
        }
}

static void check_sum_squares(kernel_run *k)
{
    static const struct {
        int64_t rows, cols;
    } large[] = {{1, 1}, {3, 7}, {5, 33}, {1, 9000}, {130, 97}, {3000, 400}};
    for (int s = 0; s < 6; s++)
        for (int t = 0; t < TYPES; t++) {
            guarded x = guarded_random(k, large[s].rows, large[s].cols, large[s].cols + s % 2, types[t], -2, 2);
            double want = 0, first = k->table->sum_squares(k->devices[0], x.t);
            for (int64_t i = 0; i < x.t.rows; i++)
                for (int64_t j = 0; j < x.t.cols; j++) want += (double)tensor_get(x.t, i, j) * (double)tensor_get(x.t, i, j);
            kernel_expect(k, fabs(first - want) <= 1e-12 * want, "sum of squares of %d x %d: %.17g, not %.17g", (int)x.t.rows, (int)x.t.cols, first, want);
            for (int d = 1; d < KERNEL_THREADS; d++) kernel_expect(k, k->table->sum_squares(k->devices[d], x.t) == first, "same sum on %d threads", d + 1);
            guarded_free(&x);
        }
}

/* The mask is what core/random.h says, element by element. */
static void dropout_against_random(kernel_run *k, const element_inputs *in, tensor y)
{
    const float scale = (float)(1.0 / (1.0 - (double)in->p));
    for (int64_t i = 0; i < y.rows; i++)
        for (int64_t j = 0; j < y.cols; j++) {
            bool kept = random_float(in->key, (uint64_t)(i * y.cols + j)) >= in->p;
            float want = kept ? tensor_get(in->x, i, j) * scale : 0;
            if (y.type == DTYPE_BF16) want = bf16_to_f32(f32_to_bf16(want));
            kernel_expect(k, tensor_get(y, i, j) == want, "dropout at [%d, %d]", (int)i, (int)j);
        }
}

static void check_dropout(kernel_run *k)
{
    static const float rates[] = {0.0f, 0.05f, 0.5f, 0.9f};
    for (int s = 0; s < SIZES; s++)
        for (int r = 0; r < 4; r++)
            for (int t = 0; t < TYPES; t++) {
                const int64_t rows = sizes[s].rows, cols = sizes[s].cols;
                guarded x = guarded_random(k, rows, cols, cols + 2, types[t], -2, 2), y = guarded_random(k, rows, cols, cols + 1, types[t], -1, 1), kept;
                element_inputs in = {x.t, rates[r], random_key_of(k->seed, RANDOM_TEST, (uint64_t)s, (uint64_t)r), false};
                const compare_bound bound = {0, 0, true};
                compare_levels(k, "dropout", call_dropout, &in, &y, 1, &bound, &kept);
                dropout_against_random(k, &in, kept.t);
                compare_levels(k, "dropout in place", call_dropout_in_place, &in, &x, 1, &bound, NULL);
                in.accumulate = true;
                compare_levels(k, "dropout added", call_dropout, &in, &y, 1, &bound, NULL);
                guarded *all[] = {&x, &y, &kept};
                for (int i = 0; i < 3; i++) guarded_free(all[i]);
            }
}

const kernel_check elementwise_checks[] = {
    KERNEL_CHECK(norm_forward, check_norm_forward),
    KERNEL_CHECK(norm_backward, check_norm_backward),
    KERNEL_CHECK(rope, check_rope),
    KERNEL_CHECK(act_forward, check_act_forward),
    KERNEL_CHECK(act_backward, check_act_backward),
    KERNEL_CHECK(embed, check_embed),
    KERNEL_CHECK(xent, check_xent),
    KERNEL_CHECK(cast, check_cast),
    KERNEL_CHECK(add, check_add),
    KERNEL_CHECK(sum_squares, check_sum_squares),
    KERNEL_CHECK(dropout, check_dropout),
    KERNEL_CHECK(attention_forward, check_attention_forward),
    KERNEL_CHECK(attention_backward, check_attention_backward),
};
const int elementwise_check_count = (int)(sizeof elementwise_checks / sizeof *elementwise_checks);
