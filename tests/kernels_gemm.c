/* The kernel checker's rows of the matrix products and of NF4 operands. The oracle is a plain sum in double, written here again. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "nf4/nf4.h"
#include "tests/kernels.h"
#include "tests/tolerance.h"

enum { PRODUCTS_MOST = 2 };

/* One call of gemm. w as the products take it, and what it stands for as floats (wide). */
typedef struct gemm_case {
    int64_t rows, cols;
    dtype x_type, y_type;
    int count;
    ops_product products[PRODUCTS_MOST];
    float *wide[PRODUCTS_MOST];
    guarded x[PRODUCTS_MOST], w[PRODUCTS_MOST], y, bias;
    nf4_matrix packed;
    unsigned char *packed_memory;
    float alpha, beta;
} gemm_case;

static float rounded(float value, dtype type)
{
    return type == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(value)) : value;
}

/* ---- operands ---- */

static void *give(unsigned char **at, size_t bytes)
{
    void *p = *at;
    *at += (bytes + 63) / 64 * 64;
    return p;
}

/* w as NF4, with the map and offset of double quantization or without. */
static void operand_nf4(kernel_run *k, gemm_case *c, const guarded *values)
{
    int64_t rows = values->t.rows, cols = values->t.cols, n = rows * cols;
    nf4_matrix *m = &c->packed;
    memset(m, 0, sizeof *m);
    m->rows = rows;
    m->cols = cols;
    m->double_quant = kernel_random(k) < 0.7;
    unsigned char *at = c->packed_memory = aligned_alloc(64, (nf4_total_bytes(n, m->double_quant) + 256) / 64 * 64);
    cr_assert_not_null(at);
    m->codes = give(&at, nf4_codes_bytes(n));
    m->scale = give(&at, (size_t)(m->double_quant ? nf4_superblocks(n) : nf4_blocks(n)) * sizeof(float));
    if (m->double_quant) m->absmax = give(&at, (size_t)nf4_blocks(n));
    float *absmax = malloc((size_t)nf4_blocks(n) * sizeof *absmax);
    cr_assert_eq(nf4_quantize(k->reference_device, m, values->t.data, DTYPE_F32, absmax), QLFT_OK, "%s", qlft_last_error());
    free(absmax);
}

/* Product p of the case, [inner] wide; kind: 0 F32, 1 BF16, 2 NF4. */
static void add_product(kernel_run *k, gemm_case *c, int64_t inner, bool transposed, int kind)
{
    int p = c->count++;
    int64_t rows = transposed ? c->cols : inner, cols = transposed ? inner : c->cols, gap = kind == 2 ? 0 : kernel_random_int(k, 0, 3);
    c->x[p] = guarded_random(k, c->rows, inner, inner + kernel_random_int(k, 0, 3), c->x_type, -1, 1);
    c->w[p] = guarded_random(k, rows, cols, cols + gap, kind == 1 ? DTYPE_BF16 : DTYPE_F32, -1, 1);
    c->products[p].x = c->x[p].t;
    c->products[p].transposed = transposed;
    c->products[p].w = ops_dense(c->w[p].t);
    if (kind == 2) {
        operand_nf4(k, c, &c->w[p]);
        c->products[p].w = nf4_operand(k->devices[0], &c->packed);
    }
    float *wide = c->wide[p] = malloc((size_t)(rows * cols) * sizeof *wide);
    cr_assert_not_null(wide);
    for (int64_t i = 0; i < rows * cols; i++) {
        if (kind == 2)
            nf4_decode(&c->packed, i, 1, wide + i, DTYPE_F32);
        else
            wide[i] = tensor_get(c->w[p].t, i / cols, i % cols);
        wide[i] = rounded(wide[i], c->x_type);
    }
}

static void case_free(gemm_case *c)
{
    for (int p = 0; p < c->count; p++) {
        guarded_free(&c->x[p]);
        guarded_free(&c->w[p]);
        free(c->wide[p]);
    }
    guarded_free(&c->y);
    guarded_free(&c->bias);
    free(c->packed_memory);
}

/* ---- oracle ---- */

/* The right side and the error allowed: that of a sum in blocks in F32 (TOLERANCE_SUM_F32), and of rounding to y's type. */
static void oracle(const gemm_case *c, tensor expected, tensor allowed)
{
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t j = 0; j < c->cols; j++) {
            double sum = 0, size = 0;
            int64_t inner = 0;
            for (int p = 0; p < c->count; p++) {
                const ops_product *product = &c->products[p];
                int64_t width = product->x.cols;
                for (int64_t n = 0; n < width; n++) {
                    double term = (double)tensor_get(product->x, i, n) * (double)c->wide[p][product->transposed ? j * width + n : n * c->cols + j];
                    sum += term;
                    size += fabs(term);
                }
                inner += width;
            }
            double bias = c->bias.t.data ? (double)tensor_get(c->bias.t, 0, j) : 0.0, before = c->beta != 0.0f ? (double)tensor_get(c->y.t, i, j) : 0.0;
            double value = (double)c->alpha * sum + bias + before;
            size = fabs((double)c->alpha) * size + fabs(bias) + fabs(before);
            tensor_put(expected, i, j, (float)value);
            tensor_put(allowed, i, j, (float)(TOLERANCE_SUM_F32(inner) * size + (c->y_type == DTYPE_BF16 ? TOLERANCE_ROUND_BF16 * fabs(value) : 0.0)));
        }
}

static void call(kernel_run *k, const gemm_case *c, int threads, tensor y)
{
    k->table->gemm(k->devices[threads - 1], y, c->products, c->count, c->alpha, c->bias.t.data, c->beta);
}

/* A row by itself, and a part of the rows, have the bits that they have in the whole. */
static void check_rows_alone(kernel_run *k, const gemm_case *c, const guarded *whole, const char *what)
{
    for (int i = 0; i < 3; i++) {
        int64_t from = kernel_random_int(k, 0, c->rows - 1), count = i == 0 ? 1 : kernel_random_int(k, 1, c->rows - from);
        gemm_case part = *c;
        guarded y = guarded_copy(&c->y);
        for (int p = 0; p < c->count; p++) part.products[p].x = tensor_rows(c->products[p].x, from, count);
        call(k, &part, 1, tensor_rows(y.t, from, count));
        kernel_expect_same_bits(k, what, tensor_rows(whole->t, from, count), tensor_rows(y.t, from, count));
        kernel_expect_guards(k, what, &y);
        guarded_free(&y);
    }
}

static void check_case(kernel_run *k, const gemm_case *c, const char *what)
{
    guarded expected = guarded_new(c->rows, c->cols, c->cols, DTYPE_F32), allowed = guarded_new(c->rows, c->cols, c->cols, DTYPE_F32);
    guarded y[KERNEL_THREADS];
    oracle(c, expected.t, allowed.t);
    for (int i = 0; i < KERNEL_THREADS; i++) {
        y[i] = guarded_copy(&c->y);
        call(k, c, i + 1, y[i].t);
        kernel_expect_close(k, what, expected.t, y[i].t, allowed.t, 1.0, 0.0);
        kernel_expect_same_bits(k, what, y[0].t, y[i].t);
        kernel_expect_guards(k, what, &y[i]);
    }
    check_rows_alone(k, c, &y[0], what);
    for (int i = 0; i < KERNEL_THREADS; i++) guarded_free(&y[i]);
    guarded_free(&expected);
    guarded_free(&allowed);
}

static gemm_case case_new(kernel_run *k, int64_t rows, int64_t cols, dtype x_type, dtype y_type, bool bias)
{
    gemm_case c = {0};
    c.rows = rows;
    c.cols = cols;
    c.x_type = x_type;
    c.y_type = y_type;
    c.alpha = kernel_random(k) < 0.5 ? 1.0f : -0.75f;
    c.beta = kernel_random(k) < 0.5 ? 1.0f : 0.0f;
    /* With beta 0, y is not read: it is NaN. */
    c.y = c.beta != 0.0f ? guarded_random(k, rows, cols, cols + kernel_random_int(k, 0, 5), y_type, -1, 1)
                         : guarded_new(rows, cols, cols + kernel_random_int(k, 0, 5), y_type);
    if (bias) c.bias = guarded_random(k, 1, cols, cols, DTYPE_F32, -1, 1);
    return c;
}

/* Sizes at and around those of vectors, micro-kernels, tiles and blocks of the inner dimension. */
static void check_gemm(kernel_run *k)
{
    static const int64_t rows[] = {1, 2, 5, 6, 7, 13, 48, 65, 130}, cols[] = {1, 8, 15, 16, 17, 31, 48, 64, 65, 100, 192},
                         inners[] = {1, 2, 3, 16, 31, 64, 77, 192};
    for (int i = 0; i < 150; i++) {
        char what[128];
        int64_t inner = inners[kernel_random_int(k, 0, 7)];
        int kind = (int)kernel_random_int(k, 0, 2);
        bool transposed = kernel_random(k) < 0.5, two = kernel_random(k) < 0.4;
        gemm_case c = case_new(k, rows[kernel_random_int(k, 0, 8)], cols[kernel_random_int(k, 0, 10)], i % 2 ? DTYPE_BF16 : DTYPE_F32,
                               i / 2 % 2 ? DTYPE_BF16 : DTYPE_F32, i % 3 == 0);
        add_product(k, &c, inner, transposed, kind);
        if (two) add_product(k, &c, kernel_random_int(k, 1, 20), !transposed, kind == 2 ? 0 : 1 - kind);
        snprintf(what, sizeof what, "case %d: [%lld, %lld], inner %lld, %s x, %s y, weights of kind %d%s%s", i, (long long)c.rows, (long long)c.cols,
                 (long long)inner, dtype_name(c.x_type), dtype_name(c.y_type), kind, transposed ? ", transposed" : "", two ? ", two products" : "");
        check_case(k, &c, what);
        case_free(&c);
    }
}

/* More than one block of the inner dimension, with half a pair at the end. */
static void check_gemm_deep(kernel_run *k)
{
    static const int64_t inners[] = {1023, 1024, 1025, 2049, 4099};
    for (int i = 0; i < 20; i++) {
        char what[64];
        int64_t cols = i % 5 == 4 ? kernel_random_int(k, 100, 330) : kernel_random_int(k, 1, 40); /* where x is deep a tile has many strips */
        gemm_case c = case_new(k, kernel_random_int(k, 1, 9), cols, i % 2 ? DTYPE_BF16 : DTYPE_F32, i % 3 ? DTYPE_F32 : DTYPE_BF16, i % 2);
        add_product(k, &c, inners[i % 5], i / 5 % 2 == 0, i % 3);
        snprintf(what, sizeof what, "inner %lld, weights of kind %d", (long long)inners[i % 5], i % 3);
        check_case(k, &c, what);
        case_free(&c);
    }
}

/* Exact: small whole numbers, whose sums every order gives without rounding. So a wrong element cannot hide in a bound. */
static void check_gemm_exact(kernel_run *k)
{
    for (int i = 0; i < 16; i++) {
        gemm_case c = case_new(k, 23, 81, i % 2 ? DTYPE_BF16 : DTYPE_F32, DTYPE_F32, false);
        c.alpha = 1.0f;
        add_product(k, &c, 67, i / 2 % 2, i / 4 % 2);
        guarded expected = guarded_copy(&c.y), y = guarded_copy(&c.y);
        for (int64_t row = 0; row < c.x[0].t.rows; row++)
            for (int64_t n = 0; n < 67; n++) tensor_put(c.x[0].t, row, n, (float)kernel_random_int(k, -8, 8));
        for (int64_t row = 0; row < c.w[0].t.rows; row++)
            for (int64_t n = 0; n < c.w[0].t.cols; n++) tensor_put(c.w[0].t, row, n, (float)kernel_random_int(k, -8, 8));
        c.beta = 0.0f;
        for (int64_t row = 0; row < c.rows; row++)
            for (int64_t j = 0; j < c.cols; j++) {
                float sum = 0.0f;
                for (int64_t n = 0; n < 67; n++)
                    sum += tensor_get(c.x[0].t, row, n) * (c.products[0].transposed ? tensor_get(c.w[0].t, j, n) : tensor_get(c.w[0].t, n, j));
                tensor_put(expected.t, row, j, sum);
            }
        call(k, &c, 2, y.t);
        kernel_expect_same_bits(k, "whole numbers", expected.t, y.t);
        guarded_free(&expected);
        guarded_free(&y);
        case_free(&c);
    }
}

static void check_gemm_all(kernel_run *k)
{
    check_gemm(k);
    check_gemm_deep(k);
    check_gemm_exact(k);
}

/* ---- weight gradients ---- */

static void outer_oracle(tensor y, tensor a, tensor b, float alpha, tensor expected, tensor allowed)
{
    for (int64_t r = 0; r < y.rows; r++)
        for (int64_t c = 0; c < y.cols; c++) {
            double before = (double)tensor_get(y, r, c), sum = 0, size = 0;
            for (int64_t n = 0; n < a.rows; n++) {
                double term = (double)tensor_get(a, n, r) * (double)tensor_get(b, n, c);
                sum += term;
                size += fabs(term);
            }
            tensor_put(expected, r, c, (float)(before + (double)alpha * sum));
            tensor_put(allowed, r, c, (float)(TOLERANCE_SUM_F32(a.rows) * (fabs(before) + fabs((double)alpha) * size)));
        }
}

static void check_outer_case(kernel_run *k, int64_t tokens, int64_t rows, int64_t cols, dtype a_type, dtype b_type)
{
    char what[96];
    guarded a = guarded_random(k, tokens, rows, rows + kernel_random_int(k, 0, 3), a_type, -1, 1);
    guarded b = guarded_random(k, tokens, cols, cols + kernel_random_int(k, 0, 3), b_type, -1, 1);
    guarded blank = guarded_random(k, rows, cols, cols + kernel_random_int(k, 0, 3), DTYPE_F32, -1, 1), y[KERNEL_THREADS];
    guarded expected = guarded_new(rows, cols, cols, DTYPE_F32), allowed = guarded_new(rows, cols, cols, DTYPE_F32);
    float alpha = kernel_random(k) < 0.5 ? 1.0f : 0.3f;
    snprintf(what, sizeof what, "%lld tokens, [%lld, %lld], %s x %s", (long long)tokens, (long long)rows, (long long)cols, dtype_name(a_type),
             dtype_name(b_type));
    outer_oracle(blank.t, a.t, b.t, alpha, expected.t, allowed.t);
    for (int i = 0; i < KERNEL_THREADS; i++) {
        y[i] = guarded_copy(&blank);
        k->table->gemm_outer(k->devices[i], y[i].t, a.t, b.t, alpha);
        kernel_expect_close(k, what, expected.t, y[i].t, allowed.t, 1.0, 0.0);
        kernel_expect_same_bits(k, what, y[0].t, y[i].t);
        kernel_expect_guards(k, what, &y[i]);
    }
    guarded *all[] = {&a, &b, &blank, &expected, &allowed, &y[0], &y[1], &y[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guarded_free(all[i]);
}

static void check_outer(kernel_run *k)
{
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16};
    static const int64_t ranks[] = {1, 4, 8, 16, 17, 64}, widths[] = {1, 31, 64, 65, 200};
    for (int i = 0; i < 60; i++) {
        int64_t rank = ranks[i % 6], width = widths[i % 5];
        check_outer_case(k, kernel_random_int(k, 1, 80), i % 2 ? rank : width, i % 2 ? width : rank, types[i / 2 % 2], types[i / 4 % 2]);
    }
    check_outer_case(k, 1025, 16, 50, DTYPE_BF16, DTYPE_BF16);
    check_outer_case(k, 2047, 40, 8, DTYPE_F32, DTYPE_BF16);
}

const kernel_check gemm_checks[] = {
    KERNEL_CHECK(gemm, check_gemm_all),
    KERNEL_CHECK(gemm_outer, check_outer),
};
const int gemm_check_count = sizeof gemm_checks / sizeof *gemm_checks;

/* ---- NF4's own table: every level gives ref's bits ---- */

static void check_nf4_level(kernel_run *k, cpu_level level, int64_t n)
{
    const nf4_table *tables[2] = {nf4_at(CPU_REF), nf4_at(level)};
    nf4_matrix m[2] = {{0}};
    guarded values = guarded_random(k, 1, n, n, DTYPE_F32, -1, 1);
    float *x = values.t.data;
    for (int64_t i = 0; i < n; i++) {
        if (kernel_random(k) < 0.02) x[i] = 0.0f;
        if (i / NF4_BLOCK % 7 == 3) x[i] = 0.0f; /* whole blocks */
        if (i / NF4_BLOCK % 7 == 4) x[i] *= 0x1p-130f;
        if (i / NF4_BLOCK % 7 == 5) x[i] = nf4_midpoints[(size_t)i % 15]; /* ties, with one value of size 1 */
        if (i / NF4_BLOCK % 7 == 5 && i % NF4_BLOCK == 1) x[i] = 1.0f;
    }
    guarded codes[2], absmax[2];
    for (int i = 0; i < 2; i++) {
        codes[i] = guarded_new(1, (int64_t)nf4_codes_bytes(n), (int64_t)nf4_codes_bytes(n), DTYPE_U8);
        absmax[i] = guarded_new(1, nf4_blocks(n), nf4_blocks(n), DTYPE_F32);
        m[i].rows = 1;
        m[i].cols = n;
        m[i].codes = codes[i].t.data;
        m[i].scale = absmax[i].t.data;
        kernel_expect(k, tables[i]->quantize_blocks(m[i].codes, m[i].scale, x, 0, n) == -1, "n %lld: finite", (long long)n);
        kernel_expect_guards(k, "codes", &codes[i]);
        kernel_expect_guards(k, "absmax", &absmax[i]);
    }
    kernel_expect_same_bits(k, "codes", codes[0].t, codes[1].t);
    kernel_expect_same_bits(k, "absmax", absmax[0].t, absmax[1].t);
    for (int i = 0; i < 40; i++) {
        int64_t first = kernel_random_int(k, 0, n - 1), count = kernel_random_int(k, 1, n - first);
        dtype type = i % 2 ? DTYPE_BF16 : DTYPE_F32;
        guarded part[2];
        for (int j = 0; j < 2; j++) {
            part[j] = guarded_new(1, count, count, type);
            tables[j]->decode(&m[0], first, count, part[j].t.data, type);
            kernel_expect_guards(k, "decode", &part[j]);
        }
        kernel_expect_same_bits(k, "decode", part[0].t, part[1].t);
        for (int j = 0; j < 2; j++) guarded_free(&part[j]);
    }
    for (int i = 0; i < 2; i++) {
        guarded_free(&codes[i]);
        guarded_free(&absmax[i]);
    }
    guarded_free(&values);
}

Test(kernels, nf4)
{
    static const int64_t sizes[] = {1, 2, 63, 64, 65, 127, 640, 1000, 4097};
    for (int level = CPU_AVX2; level < CPU_LEVELS; level++) {
        if (level > (int)cpu_level_best()) {
            printf("skipped: nf4 at level %s, which this processor has not\n", cpu_level_name((cpu_level)level));
            continue;
        }
        kernel_run k = {.slot = "nf4", .table = ops_at((cpu_level)level), .seed = 77};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_nf4_level(&k, (cpu_level)level, sizes[i]);
    }
}
