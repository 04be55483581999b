/* The kernel checker: frame, and the rows of the matrix kernels. */
#include "tests/kernels.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { GUARD_BYTES = 256, GUARD_FILL = 0xC3, BLANK_FILL = 0xFF, BLANK_FILL_INTEGER = 0xA5 };

/* ---- random numbers (splitmix64: not the library's own, which is under test elsewhere) ---- */

static uint64_t random_next(kernel_run *k)
{
    uint64_t z = (k->seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double kernel_random(kernel_run *k)
{
    return (double)(random_next(k) >> 11) * 0x1p-53;
}

int64_t kernel_random_int(kernel_run *k, int64_t from, int64_t to)
{
    return from + (int64_t)(random_next(k) % (uint64_t)(to - from + 1));
}

/* ---- tensors with guards ---- */

static unsigned char *row_bytes(const guarded *g, int64_t row)
{
    return (unsigned char *)g->t.data + (size_t)(row * g->t.stride) * dtype_bytes(g->t.type);
}

guarded guarded_new(int64_t rows, int64_t cols, int64_t stride, dtype type)
{
    guarded g = {0};
    size_t element = dtype_bytes(type), body = (size_t)(rows * stride) * element;
    g.bytes = body + 2 * GUARD_BYTES;
    g.memory = malloc(g.bytes);
    cr_assert_not_null(g.memory);
    memset(g.memory, GUARD_FILL, g.bytes);
    g.t = tensor_of(g.memory + GUARD_BYTES, rows, cols, type);
    g.t.stride = stride;
    int blank = type == DTYPE_F32 || type == DTYPE_BF16 || type == DTYPE_F16 ? BLANK_FILL : BLANK_FILL_INTEGER;
    for (int64_t row = 0; row < rows; row++) memset(row_bytes(&g, row), blank, (size_t)cols * element);
    return g;
}

guarded guarded_random(kernel_run *k, int64_t rows, int64_t cols, int64_t stride, dtype type, float from, float to)
{
    guarded g = guarded_new(rows, cols, stride, type);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t col = 0; col < cols; col++) tensor_put(g.t, row, col, from + (to - from) * (float)kernel_random(k));
    return g;
}

guarded guarded_copy(const guarded *g)
{
    guarded copy = *g;
    copy.memory = malloc(g->bytes);
    cr_assert_not_null(copy.memory);
    memcpy(copy.memory, g->memory, g->bytes);
    copy.t.data = copy.memory + GUARD_BYTES;
    return copy;
}

void guarded_free(guarded *g)
{
    free(g->memory);
    memset(g, 0, sizeof *g);
}

/* ---- expectations ---- */

static bool fail(const kernel_run *k, const char *what, const char *format, ...) CORE_PRINTF(3, 4);
static bool fail(const kernel_run *k, const char *what, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cr_expect_fail("%s, level %s: %s: %s", k->slot, k->table->name, what, text);
    return false;
}

bool kernel_expect(kernel_run *k, bool condition, const char *format, ...)
{
    if (condition) return true;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fail(k, text, "does not hold");
}

bool kernel_expect_guards(kernel_run *k, const char *what, const guarded *g)
{
    size_t element = dtype_bytes(g->t.type);
    unsigned char *from = g->memory;
    for (int64_t row = 0; row <= g->t.rows; row++) {
        unsigned char *to = row < g->t.rows ? row_bytes(g, row) : g->memory + g->bytes;
        for (; from < to; from++)
            if (*from != GUARD_FILL)
                return fail(k, what, "written outside, at byte %td of the data (%s row %lld)", from - (unsigned char *)g->t.data, "before", (long long)row);
        from = to + (size_t)g->t.cols * element;
    }
    return true;
}

bool kernel_expect_close(kernel_run *k, const char *what, tensor expected, tensor got, tensor magnitude, double relative, double absolute)
{
    for (int64_t row = 0; row < expected.rows; row++)
        for (int64_t col = 0; col < expected.cols; col++) {
            double want = (double)tensor_get(expected, row, col), have = (double)tensor_get(got, row, col);
            double size = magnitude.data ? (double)tensor_get(magnitude, row, col) : fabs(want);
            if (isnan(want) ? !isnan(have) : !(want == have || fabs(want - have) <= relative * size + absolute))
                return fail(k, what, "[%lld, %lld] is %.9g, not %.9g (allowed %.3g)", (long long)row, (long long)col, have, want, relative * size + absolute);
        }
    return true;
}

bool kernel_expect_same_bits(kernel_run *k, const char *what, tensor expected, tensor got)
{
    size_t element = dtype_bytes(expected.type), bytes = (size_t)expected.cols * element;
    for (int64_t row = 0; row < expected.rows; row++) {
        const char *a = (const char *)expected.data + (size_t)(row * expected.stride) * element;
        const char *b = (const char *)got.data + (size_t)(row * got.stride) * element;
        if (memcmp(a, b, bytes)) return fail(k, what, "other bits in row %lld", (long long)row);
    }
    return true;
}
