/* Levels, conversions, ledger and arena, random numbers, status. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/device.h"
#include "core/ledger.h"
#include "core/random.h"

Test(status, every_code_has_an_exit_status_and_a_text)
{
    const int expected[][2] = {{QLFT_OK, 0},   {QLFT_EARG, 2},    {QLFT_EIO, 3},          {QLFT_EFORMAT, 3},  {QLFT_ENOMEM, 4},
                               {QLFT_EFIT, 4}, {QLFT_EDEVICE, 5}, {QLFT_EUNSUPPORTED, 3}, {QLFT_ENUMERIC, 6}, {QLFT_ESIGNAL, 130}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        cr_assert_eq(qlft_exit_status((qlft_status)expected[i][0]), expected[i][1]);
        cr_assert(strlen(qlft_status_text((qlft_status)expected[i][0])) > 0);
    }
}

Test(status, a_message_may_quote_the_one_before_and_take_a_prefix)
{
    cr_assert_eq(status_fail(QLFT_EIO, "inner %d", 7), QLFT_EIO);
    status_fail(QLFT_EIO, "outer: %s", qlft_last_error());
    cr_assert_str_eq(qlft_last_error(), "outer: inner 7");
    cr_assert_eq(status_prefix(QLFT_EFORMAT, "line %d: ", 3), QLFT_EFORMAT);
    cr_assert_str_eq(qlft_last_error(), "line 3: outer: inner 7");
}

Test(dtype, bf16_rounds_to_nearest_even)
{
    const struct {
        uint32_t from;
        uint16_t to;
    } cases[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x7f7fffff, 0x7f80},
                 {0x80000000, 0x8000}, {0x7f800000, 0x7f80}, {0x7f800001, 0x7fc0}, {0x00000001, 0x0000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float value;
        memcpy(&value, &cases[i].from, 4);
        cr_assert_eq(f32_to_bf16(value), cases[i].to, "case %zu: %04x", i, f32_to_bf16(value));
    }
}

/* Every F16 value, widened by the definition of the format (IEEE 754 binary16). */
Test(dtype, f16_is_exact_both_ways)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        int exponent = (int)(bits >> 10 & 31), mantissa = (int)(bits & 1023);
        float value = f16_to_f32((uint16_t)bits);
        if (exponent == 31) {
            cr_assert(mantissa ? isnan(value) : isinf(value));
            continue;
        }
        double expected = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
        cr_assert_eq((double)fabsf(value), expected);
        cr_assert_eq((bits & 0x8000) != 0, signbit(value) != 0);
        cr_assert_eq(f32_to_f16(value), bits);
    }
    cr_assert_eq(f32_to_f16(65520.0f), 0x7c00); /* rounds up to infinity */
    cr_assert_eq(f32_to_f16(65519.0f), 0x7bff);
    cr_assert_eq(f32_to_f16(2.9802322e-8f), 0x0000); /* half of the smallest, to even */
    cr_assert_eq(f32_to_f16(2.9802326e-8f), 0x0001);
}

/* Known answers of Philox 4x32-10 from the authors' Random123 distribution (kat_vectors). */
Test(random, philox_known_answers)
{
    const struct {
        uint64_t low, high;
        uint32_t key[2], out[4];
    } cases[] = {{0, 0, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                 {UINT64_MAX, UINT64_MAX, {0xffffffff, 0xffffffff}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                 {0x85a308d3243f6a88, 0x0370734413198a2e, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t out[4];
        random_key key = {{cases[i].key[0], cases[i].key[1]}};
        random_block(out, key, cases[i].low, cases[i].high);
        for (int j = 0; j < 4; j++) cr_assert_eq(out[j], cases[i].out[j], "case %zu word %d: %08x", i, j, out[j]);
    }
}

Test(random, streams_are_uniform_and_apart)
{
    random_key a = random_key_of(1, RANDOM_TEST, 0, 0), b = random_key_of(1, RANDOM_TEST, 0, 1), c = random_key_of(2, RANDOM_TEST, 0, 0);
    enum { N = 100000 };
    double sum = 0, squares = 0, same = 0;
    for (uint64_t i = 0; i < N; i++) {
        double x = random_double(a, i);
        cr_assert(x >= 0.0 && x < 1.0);
        sum += x;
        squares += x * x;
        same += (random_uint(a, i) == random_uint(b, i)) + (random_uint(a, i) == random_uint(c, i));
    }
    cr_assert(fabs(sum / N - 0.5) < 5.0 * sqrt(1.0 / 12.0 / N)); /* five standard deviations */
    cr_assert(fabs(squares / N - 1.0 / 3.0) < 5.0 * sqrt(4.0 / 45.0 / N));
    cr_assert(same < 3);
}

Test(random, permutation_holds_each_once_and_every_place_is_possible)
{
    uint32_t order[50], seen[50][50] = {{0}};
    for (uint64_t seed = 0; seed < 2000; seed++) {
        uint32_t marks[50] = {0};
        random_permutation(random_key_of(seed, RANDOM_TEST, 0, 0), order, 50);
        for (uint32_t i = 0; i < 50; i++) {
            marks[order[i]]++;
            seen[i][order[i]]++;
        }
        for (int i = 0; i < 50; i++) cr_assert_eq(marks[i], 1);
    }
    for (int i = 0; i < 50; i++)
        for (int j = 0; j < 50; j++) cr_assert(seen[i][j] > 5 && seen[i][j] < 90, "%d %d: %u of 40", i, j, seen[i][j]);
}

/* A bind as a run does it: the same function dry and real. */
static void bind(arena *a, tensor out[3])
{
    out[0] = arena_tensor(a, TIER_DEVICE, LEDGER_BASE, "model", "weights", 3, 5, DTYPE_F32);
    size_t mark = arena_mark(a, TIER_DEVICE);
    out[1] = arena_tensor(a, TIER_DEVICE, LEDGER_STAGING, "load", "one tensor", 100, 1, DTYPE_BF16);
    arena_release(a, TIER_DEVICE, mark);
    out[2] = arena_tensor(a, TIER_DEVICE, LEDGER_ACTIVATION, "blocks", "x", 7, 1, DTYPE_U8);
}

Test(ledger, dry_and_real_give_the_same_rows_and_peak)
{
    ledger planned = {0}, used = {0};
    arena dry = {.book = &planned}, real = {.book = &used};
    tensor t[3];
    bind(&dry, t);
    cr_assert_eq(arena_status(&dry), QLFT_OK);
    cr_assert_null(t[0].data);
    cr_assert_eq(planned.peak[TIER_DEVICE], 64 + ARENA_RED_ZONE + 256);
    real.base[TIER_DEVICE] = aligned_alloc(64, planned.peak[TIER_DEVICE]);
    real.size[TIER_DEVICE] = planned.peak[TIER_DEVICE];
    bind(&real, t);
    cr_assert_eq(arena_status(&real), QLFT_OK);
    cr_assert_eq(planned.count, 3u);
    cr_assert_eq(used.count, planned.count);
    for (size_t i = 0; i < planned.count; i++) {
        cr_assert_eq(used.rows[i].bytes, planned.rows[i].bytes);
        cr_assert_str_eq(used.rows[i].name, planned.rows[i].name);
    }
    cr_assert_eq(used.peak[TIER_DEVICE], planned.peak[TIER_DEVICE]);
    cr_assert_eq(t[1].data, t[2].data); /* released space is shared */
    cr_assert_eq((uintptr_t)t[2].data % 64, 0u);
    free(real.base[TIER_DEVICE]);
    ledger_free(&planned);
    ledger_free(&used);
}

#if ARENA_RED_ZONE
#include <sanitizer/asan_interface.h>

Test(ledger, what_lies_between_takes_is_forbidden)
{
    ledger book = {0};
    arena a = {.book = &book};
    a.size[TIER_DEVICE] = 1024;
    a.base[TIER_DEVICE] = aligned_alloc(64, 1024);
    char *x = arena_take(&a, TIER_DEVICE, LEDGER_BASE, "a", "x", 60);
    size_t mark = arena_mark(&a, TIER_DEVICE);
    char *y = arena_take(&a, TIER_DEVICE, LEDGER_BASE, "a", "y", 65);
    cr_assert(!__asan_region_is_poisoned(x, 60) && !__asan_region_is_poisoned(y, 65));
    cr_assert(__asan_address_is_poisoned(x + 60) && __asan_address_is_poisoned(y - 1) && __asan_address_is_poisoned(y + 65));
    arena_release(&a, TIER_DEVICE, mark);
    cr_assert(!__asan_address_is_poisoned(y + 65));
    arena_allow(a.base[TIER_DEVICE], 1024);
    free(a.base[TIER_DEVICE]);
    ledger_free(&book);
}
#endif

Test(ledger, taking_more_than_planned_or_more_than_can_be_is_found)
{
    ledger book = {0};
    arena small = {.book = &book}, dry = {.book = &book};
    static unsigned char memory[128];
    small.base[TIER_DEVICE] = memory;
    small.size[TIER_DEVICE] = 64;
    cr_assert_not_null(arena_take(&small, TIER_DEVICE, LEDGER_BASE, "a", "b", 64));
    cr_assert_null(arena_take(&small, TIER_DEVICE, LEDGER_BASE, "a", "b", 1));
    cr_assert_eq(arena_status(&small), QLFT_EFIT);
    arena_tensor(&dry, TIER_HOST, LEDGER_BASE, "a", "c", INT64_MAX / 2, 8, DTYPE_F32);
    cr_assert_eq(arena_status(&dry), QLFT_EFIT);
    ledger_free(&book);
}

Test(cpu, a_level_can_be_lowered_but_not_invented)
{
    cpu_level level;
    setenv("QLFT_CPU", "ref", 1);
    cr_assert_eq(cpu_level_choose(&level), QLFT_OK);
    cr_assert_eq(level, CPU_REF);
    setenv("QLFT_CPU", "avx9000", 1);
    cr_assert_eq(cpu_level_choose(&level), QLFT_EARG);
    cr_assert(strstr(qlft_last_error(), "avx9000"));
    unsetenv("QLFT_CPU");
    cr_assert_eq(cpu_level_choose(&level), QLFT_OK);
    cr_assert_eq(level, cpu_level_best());
    cr_assert(cpu_count() >= 1);
}

Test(device, memory_is_zero_and_an_impossible_wish_is_refused)
{
    device *d = NULL;
    void *memory = NULL;
    cr_assert_eq(device_open_cpu(&d, CPU_REF, 2), QLFT_OK);
    cr_assert_eq(d->table->reserve(d, TIER_HOST, 100000, &memory), QLFT_OK);
    for (int i = 0; i < 100000; i++) cr_assert_eq(((unsigned char *)memory)[i], 0);
    cr_assert_eq(d->table->reserve(d, TIER_HOST, (size_t)1 << 60, &memory), QLFT_ENOMEM);
    cr_assert_null(memory);
    device_close(d);
    device_close(NULL);
}
