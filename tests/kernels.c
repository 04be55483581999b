/* The kernel checker's frame; the rows are in kernels_*.c. */
#include "tests/kernels.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { GUARD_BYTES = 256, BLANK_BYTE = 0xA5 };

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

static unsigned char guard_byte(const guarded *g, size_t at)
{
    return (unsigned char)(at % 2 ? g->fill >> 8 : g->fill);
}

guarded guarded_new(int64_t rows, int64_t cols, int64_t stride, dtype type)
{
    static uint16_t count;
    guarded g = {0};
    size_t element = dtype_bytes(type), body = (size_t)(rows * stride) * element;
    g.bytes = body + 2 * GUARD_BYTES;
    g.memory = malloc(g.bytes);
    cr_assert_not_null(g.memory);
    g.fill = (uint16_t)(0x7fc1 + count++ % 62);
    for (size_t i = 0; i < g.bytes; i++) g.memory[i] = guard_byte(&g, i);
    g.t = tensor_of(g.memory + GUARD_BYTES, rows, cols, type);
    g.t.stride = stride;
    for (int64_t row = 0; row < rows; row++) {
        memset(row_bytes(&g, row), BLANK_BYTE, (size_t)cols * element);
        if (type == DTYPE_F32 || type == DTYPE_BF16 || type == DTYPE_F16)
            for (int64_t col = 0; col < cols; col++) tensor_put(g.t, row, col, NAN);
    }
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
    size_t element = dtype_bytes(g->t.type), at = 0;
    for (int64_t row = 0; row <= g->t.rows; row++) {
        size_t end = row < g->t.rows ? (size_t)(row_bytes(g, row) - g->memory) : g->bytes;
        for (; at < end; at++)
            if (g->memory[at] != guard_byte(g, at))
                return fail(k, what, "written outside, %lld bytes from the start, before row %lld", (long long)at - GUARD_BYTES, (long long)row);
        at = end + (size_t)g->t.cols * element;
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

/* ---- the runs ---- */

static bool same_slot(const ops_table *a, const ops_table *b, size_t slot)
{
    return memcmp((const char *)a + slot, (const char *)b + slot, sizeof(void (*)(void))) == 0;
}

/* Returns how many rows ran. */
static int run_checks(kernel_run *k, cpu_level level, const kernel_check *checks, int count)
{
    int ran = 0;
    for (int i = 0; i < count; i++) {
        if (level > CPU_REF && same_slot(k->table, ops_at((cpu_level)(level - 1)), checks[i].slot)) {
            printf("skipped: %s at level %s is the kernel of the level below\n", checks[i].name, k->table->name);
            continue;
        }
        k->slot = checks[i].name;
        k->seed = 1000 + (uint64_t)i;
        checks[i].check(k);
        ran++;
    }
    return ran;
}

static void run_level(cpu_level level)
{
    if (level > cpu_level_best()) cr_skip_test("skipped: this processor has no %s", cpu_level_name(level));
    kernel_run k = {0};
    k.table = ops_at(level);
    k.reference = ops_at(CPU_REF);
    cr_assert_eq(device_open_cpu(&k.reference_device, CPU_REF, 1), QLFT_OK, "%s", qlft_last_error());
    for (int i = 0; i < KERNEL_THREADS; i++) cr_assert_eq(device_open_cpu(&k.devices[i], level, i + 1), QLFT_OK, "%s", qlft_last_error());
    int ran = run_checks(&k, level, gemm_checks, gemm_check_count) + run_checks(&k, level, elementwise_checks, elementwise_check_count);
    printf("level %s: %d of %d rows ran\n", cpu_level_name(level), ran, gemm_check_count + elementwise_check_count);
    for (int i = 0; i < KERNEL_THREADS; i++) device_close(k.devices[i]);
    device_close(k.reference_device);
}

Test(kernels, ref)
{
    run_level(CPU_REF);
}

Test(kernels, avx2)
{
    run_level(CPU_AVX2);
}

Test(kernels, avx512)
{
    run_level(CPU_AVX512);
}
