#include "tests/kernels_compare.h"

#include "tests/tolerance.h"

compare_bound compare_rounded(dtype type, double ulps, double absolute)
{
    compare_bound b = {ulps * TOLERANCE_F32_ULP + (type == DTYPE_BF16 ? TOLERANCE_BF16_ULP : 0), absolute, false};
    return b;
}

double compare_largest(tensor t)
{
    double largest = 0;
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t j = 0; j < t.cols; j++) largest = fmax(largest, fabs((double)tensor_get(t, i, j)));
    return largest;
}

static void copy_all(guarded *to, const guarded *from, int count)
{
    for (int o = 0; o < count; o++) to[o] = guarded_copy(&from[o]);
}

static void free_all(guarded *g, int count)
{
    for (int o = 0; o < count; o++) guarded_free(&g[o]);
}

void compare_levels(kernel_run *k, const char *what, compare_call call, const void *inputs, const guarded *blank, int outputs, const compare_bound *bounds,
                    guarded *kept)
{
    guarded expected[COMPARE_OUTPUTS_MOST], first[COMPARE_OUTPUTS_MOST], got[COMPARE_OUTPUTS_MOST];
    copy_all(expected, blank, outputs);
    call(k->reference, k->reference_device, inputs, expected);
    for (int threads = 0; threads < KERNEL_THREADS; threads++) {
        copy_all(got, blank, outputs);
        call(k->table, k->devices[threads], inputs, got);
        for (int o = 0; o < outputs; o++) {
            kernel_expect_guards(k, what, &got[o]);
            if (threads > 0)
                kernel_expect_same_bits(k, what, first[o].t, got[o].t);
            else if (bounds[o].bits)
                kernel_expect_same_bits(k, what, expected[o].t, got[o].t);
            else
                kernel_expect_close(k, what, expected[o].t, got[o].t, kernel_no_magnitude(), bounds[o].relative, bounds[o].absolute);
        }
        if (threads == 0) copy_all(first, got, outputs);
        free_all(got, outputs);
    }
    free_all(first, outputs);
    if (kept)
        for (int o = 0; o < outputs; o++) kept[o] = expected[o];
    else
        free_all(expected, outputs);
}
