/* Cross entropy at every level against PyTorch's numbers (tests/golden/loss): only counted rows are given to the kernel, as the head does. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/json.h"
#include "core/safetensors.h"
#include "ops/ops.h"
#include "tests/tolerance.h"

enum { ROWS = 2, LENGTH = 9, VOCABULARY = 40, ROWS_MOST = ROWS * LENGTH, IGNORED = -100 };

typedef struct loss_case {
    int64_t count;
    int32_t targets[ROWS_MOST];
    float logits[ROWS_MOST][VOCABULARY], gradient[ROWS_MOST][VOCABULARY]; /* of the mean */
} loss_case;

static const safetensors_entry *entry_of(const safetensors *file, const char *name, const char *what)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, what);
    const safetensors_entry *entry = safetensors_find(file, full);
    cr_assert_not_null(entry, "%s", full);
    return entry;
}

/* The logits at position t predict the label at t + 1. */
static void load_case(loss_case *c, const safetensors *file, const char *name)
{
    const safetensors_entry *logits = entry_of(file, name, "logits"), *labels = entry_of(file, name, "labels"), *gradient = entry_of(file, name, "dlogits");
    cr_assert(logits->count == ROWS_MOST * VOCABULARY && labels->count == ROWS_MOST && gradient->count == logits->count);
    c->count = 0;
    for (int at = 0; at < ROWS_MOST; at++) {
        int64_t label = IGNORED;
        if (at % LENGTH + 1 < LENGTH) cr_assert_eq(safetensors_to_i64(&label, labels, at + 1, 1), QLFT_OK);
        if (label == IGNORED) continue;
        c->targets[c->count] = (int32_t)label;
        cr_assert_eq(safetensors_to_f32(c->logits[c->count], logits, (int64_t)at * VOCABULARY, VOCABULARY), QLFT_OK);
        cr_assert_eq(safetensors_to_f32(c->gradient[c->count], gradient, (int64_t)at * VOCABULARY, VOCABULARY), QLFT_OK);
        c->count++;
    }
}

/* Sum of the losses; the gradient is compared. */
static double run_case(loss_case *c, device *d, const char *name)
{
    static float dlogits[ROWS_MOST][VOCABULARY];
    double losses[ROWS_MOST], sum = 0;
    ops_for(d)->xent(d, losses, tensor_of(dlogits, c->count, VOCABULARY, DTYPE_F32), tensor_of(c->logits, c->count, VOCABULARY, DTYPE_F32), c->targets);
    for (int64_t i = 0; i < c->count; i++) {
        sum += losses[i];
        for (int j = 0; j < VOCABULARY; j++) {
            double got = (double)dlogits[i][j] / (double)c->count, error = fabs(got - (double)c->gradient[i][j]);
            cr_assert(error <= TOLERANCE_XENT_GRADIENT_F32, "%s at level %s: gradient [%d, %d] is %.9g, not %.9g", name, cpu_level_name(d->level), (int)i, j,
                      got, (double)c->gradient[i][j]);
        }
    }
    return sum;
}

Test(loss, follows_pytorch_at_every_level)
{
    static loss_case c;
    safetensors file;
    json_t *golden, *expected;
    const char *name;
    int cases = 0;
    cr_assert_eq(json_read_file(&golden, TEST_GOLDEN "/loss/loss.json", 1 << 20), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(safetensors_open(&file, TEST_GOLDEN "/loss/loss.safetensors"), QLFT_OK, "%s", qlft_last_error());
    for (int level = 0; level <= (int)cpu_level_best(); level++) {
        device *d;
        cr_assert_eq(device_open_cpu(&d, (cpu_level)level, 2), QLFT_OK, "%s", qlft_last_error());
        json_object_foreach(golden, name, expected)
        {
            if (json_object_get(expected, "micro_batches")) continue; /* the window is the trainer's */
            const double want = json_number_value(json_object_get(expected, "loss_sum"));
            load_case(&c, &file, name);
            cr_assert_eq(c.count, json_integer_value(json_object_get(expected, "tokens")), "%s", name);
            double got = run_case(&c, d, name);
            cr_assert(fabs(got - want) <= TOLERANCE_XENT_MEAN_F32 * want, "%s at level %s: %.12g, not %.12g", name, cpu_level_name(d->level), got, want);
            cases++;
        }
        device_close(d);
    }
    cr_assert_eq(cases, 9 * ((int)cpu_level_best() + 1));
    safetensors_close(&file);
    json_decref(golden);
}
