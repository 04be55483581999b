/* Whole runs: the golden 20 steps, and what must not change the numbers: resume, checkpointing, paging, threads, the split into micro-batches. */
#include <math.h>

#include "commands.h"
#include "core/cpu.h"
#include "core/gguf.h"
#include "tolerance.h"

TestSuite(train, .init = make_folder, .fini = drop_folder);

#define MODEL TEST_GOLDEN "/train/model"
#define INIT TEST_GOLDEN "/train/adapter_init"

/* Rows of the golden batches as JSONL: padding left out. Returns the path. */
static const char *golden_rows(void)
{
    safetensors file;
    int64_t n = 0;
    OK(safetensors_open(&file, TEST_GOLDEN "/train/batches.safetensors"));
    const safetensors_entry *e = safetensors_find(&file, "input_ids");
    int64_t length = e->shape[3], rows = e->count / length;
    float *ids = tensor_values(&file, "input_ids", &n), *mask = tensor_values(&file, "attention_mask", &n), *labels = tensor_values(&file, "labels", &n);
    FILE *out = fopen(in("rows.jsonl"), "w");
    for (int64_t row = 0; row < rows; row++) {
        for (int part = 0; part < 2; part++) {
            fprintf(out, part ? "], \"labels\": [" : "{\"input_ids\": [");
            for (int64_t i = 0; i < length && mask[row * length + i] != 0.0f; i++)
                fprintf(out, "%s%d", i ? ", " : "", (int)(part ? labels : ids)[row * length + i]);
        }
        fprintf(out, "]}\n");
    }
    cr_assert_eq(fclose(out), 0);
    free(ids);
    free(mask);
    free(labels);
    safetensors_close(&file);
    static char path[600];
    snprintf(path, sizeof path, "%s", in("rows.jsonl"));
    return path;
}

/* The golden run's options, then more pairs that end with NULL. */
#define GOLDEN(rows, name)                                                                                                                                     \
    "base", MODEL, "adapter", INIT, "data", rows, "format", "tokens", "shuffle", "off", "packing", "off", "batch", "2", "accum", "4", "lr", "1e-2",            \
        "schedule", "cosine", "warmup", "3", "weight-decay", "0.01", "clip", "1.2", "threads", "2", "cache", in("cache"), "out", in(name)

static void check_golden(const char *compute, int count, double loss_bound, double norm_bound, double adapter_bound)
{
    json_t *report = NULL, *golden = NULL;
    OK(json_read_file(&golden, TEST_GOLDEN "/train/train.json", 1 << 20));
    OK(run_command(&report, "train", GOLDEN(golden_rows(), "out"), "steps", count == 2 ? "2" : "20", "compute", compute, NULL));
    json_t *steps = json_object_get(report, "steps"), *expected = json_object_get(golden, "steps");
    cr_assert_eq(json_array_size(steps), (size_t)count);
    for (size_t i = 0; i < (size_t)count; i++) {
        const json_t *a = json_array_get(steps, i), *b = json_array_get(expected, i);
        double loss = fabs(number_at(a, "loss", NULL) - number_at(b, "loss", NULL));
        double norm = fabs(number_at(a, "grad_norm", NULL) / number_at(b, "grad_norm", NULL) - 1);
        cr_assert(loss <= loss_bound, "step %zu: loss differs by %g", i + 1, loss);
        cr_assert(norm <= norm_bound, "step %zu: gradient norm differs by %g", i + 1, norm);
        cr_assert(fabs(number_at(a, "lr", NULL) - number_at(b, "lr", NULL)) <= 1e-12);
        cr_assert_eq(number_at(a, "supervised_tokens", NULL), number_at(b, "tokens", NULL));
    }
    safetensors got, want;
    OK(safetensors_open(&got, in("out/adapter_model.safetensors")));
    OK(safetensors_open(&want, count == 2 ? TEST_GOLDEN "/train/adapter_step02/adapter_model.safetensors"
                                          : TEST_GOLDEN "/train/adapter_step20/adapter_model.safetensors"));
    cr_assert_eq(got.count, want.count);
    for (int i = 0; i < want.count; i++) {
        int64_t n = 0, m = 0;
        float *a = tensor_values(&got, want.entries[i].name, &n), *b = tensor_values(&want, want.entries[i].name, &m);
        double error = relative_l2(a, b, n);
        cr_assert(n == m && error <= adapter_bound, "%s differs by %g", want.entries[i].name, error);
        free(a);
        free(b);
    }
    safetensors_close(&got);
    safetensors_close(&want);
    json_decref(report);
    json_decref(golden);
}

Test(train, golden_steps_f32)
{
    check_golden("f32", 20, TOLERANCE_TRAIN_LOSS_F32, TOLERANCE_TRAIN_NORM_F32, TOLERANCE_TRAIN_ADAPTER_F32);
}

Test(train, golden_steps_bf16)
{
    check_golden("bf16", 20, TOLERANCE_TRAIN_LOSS_BF16, TOLERANCE_TRAIN_NORM_BF16, TOLERANCE_TRAIN_ADAPTER_BF16);
}

/* The run ends within the warm-up of 3 steps, which keeps its slope. */
Test(train, golden_first_steps_f32)
{
    check_golden("f32", 2, TOLERANCE_TRAIN_LOSS_F32, TOLERANCE_TRAIN_NORM_F32, TOLERANCE_TRAIN_ADAPTER_F32);
}

Test(train, golden_steps_ref)
{
    setenv("QLFT_CPU", "ref", 1);
    check_golden("f32", 20, TOLERANCE_TRAIN_LOSS_F32, TOLERANCE_TRAIN_NORM_F32, TOLERANCE_TRAIN_ADAPTER_F32);
}

/* ---- identities: the same bytes ---- */

static void same_adapter(const char *a, const char *b)
{
    char one[SHA256_HEX_BYTES], two[SHA256_HEX_BYTES], path[600];
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", in(a));
    OK(file_sha256(one, path));
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", in(b));
    OK(file_sha256(two, path));
    cr_assert_str_eq(one, two, "%s and %s differ", a, b);
}

/* A fresh adapter with dropout on the golden rows: a run in which every mechanism has something to do. */
#define PLAIN(rows, name, compute_type)                                                                                                                        \
    "base", MODEL, "data", rows, "format", "tokens", "batch", "2", "accum", "3", "steps", "6", "warmup", "1", "lr", "5e-3", "dropout", "0.3", "r", "4",        \
        "seed", "7", "compute", compute_type, "cache", in("cache"), "out", in(name)

static void check_identities(const char *compute)
{
    const char *rows = golden_rows();
    OK(run_command(NULL, "train", PLAIN(rows, "a", compute), "threads", "1", "checkpointing", "none", "page-optim", "off", NULL));
    OK(run_command(NULL, "train", PLAIN(rows, "b", compute), "threads", "2", "checkpointing", "none", "page-optim", "off", NULL));
    same_adapter("a", "b");
    OK(run_command(NULL, "train", PLAIN(rows, "c", compute), "threads", "2", "checkpointing", "block", "page-optim", "off", NULL));
    same_adapter("a", "c");
    OK(run_command(NULL, "train", PLAIN(rows, "d", compute), "threads", "3", "checkpointing", "none", "page-optim", "on", "loss-chunk", "3", NULL));
    same_adapter("a", "d");
    OK(run_command(NULL, "train", PLAIN(rows, "e", compute), "seed", "8", NULL));
    char one[SHA256_HEX_BYTES], two[SHA256_HEX_BYTES];
    OK(file_sha256(one, in("a/adapter_model.safetensors")));
    OK(file_sha256(two, in("e/adapter_model.safetensors")));
    cr_assert_str_neq(one, two);
}

Test(train, threads_checkpointing_paging_and_chunks_do_not_change_a_byte_f32)
{
    check_identities("f32");
}

Test(train, threads_checkpointing_paging_and_chunks_do_not_change_a_byte_bf16)
{
    check_identities("bf16");
}

/* ---- resume ---- */

/* Stops a run after some steps, as a signal would. */
static volatile sig_atomic_t stop_now;
static int64_t stop_after;
static void count_steps(void *payload, const qlft_metrics *m)
{
    (void)payload;
    if (m->step >= stop_after) stop_now = 1;
}

static bool at_evaluation; /* stop behind the evaluation of the step instead */
static void count_evals(void *payload, int64_t step, double loss, int64_t supervised_tokens)
{
    (void)payload;
    (void)loss;
    (void)supervised_tokens;
    if (step >= stop_after) stop_now = 1;
}

static qlft_status train_until(int64_t step, ...)
{
    va_list options;
    va_start(options, step);
    qlft_config *c = configured("train", options);
    va_end(options);
    qlft_observer observer = {.step = at_evaluation ? NULL : count_steps, .eval = at_evaluation ? count_evals : NULL, .stop = &stop_now};
    char *report = NULL;
    stop_now = 0;
    stop_after = step;
    qlft_status status = qlft_train(&report, c, &observer);
    qlft_free(report);
    qlft_config_free(c);
    return status;
}

Test(train, a_run_stopped_anywhere_and_resumed_ends_in_the_same_bytes)
{
    const char *rows = golden_rows();
    json_t *report = NULL, *whole = NULL;
    OK(run_command(&whole, "train", PLAIN(rows, "a", "bf16"), "epochs", "1", "eval-data", rows, NULL));
    cr_assert_eq(train_until(2, PLAIN(rows, "b", "bf16"), "eval-data", rows, NULL), QLFT_ESIGNAL);
    cr_assert(strstr(qlft_last_error(), "step 2"), "%s", qlft_last_error());
    OK(json_read_file(&report, in("b/report.json"), 1 << 20));
    cr_assert_str_eq(json_string_value(json_object_get(json_object_get(report, "result"), "exit")), "interrupted at step 2");
    json_decref(report);
    cr_assert_eq(train_until(5, PLAIN(rows, "b", "bf16"), "eval-data", rows, "resume", "auto", NULL), QLFT_ESIGNAL);
    OK(run_command(&report, "train", PLAIN(rows, "b", "bf16"), "eval-data", rows, "resume", "auto", NULL));
    same_adapter("a", "b");
    /* the report of the resumed run tells the whole story, with the same numbers */
    json_t *steps = json_object_get(report, "steps"), *evals = json_object_get(report, "eval");
    cr_assert_eq(json_array_size(steps), 6u);
    cr_assert_eq(json_array_size(evals), 2u);
    for (size_t i = 0; i < 6; i++)
        cr_assert_eq(number_at(json_array_get(steps, i), "loss", NULL), number_at(json_array_get(json_object_get(whole, "steps"), i), "loss", NULL));
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(number_at(json_array_get(evals, i), "loss", NULL), number_at(json_array_get(json_object_get(whole, "eval"), i), "loss", NULL));
    json_decref(report);
    json_decref(whole);
}

Test(train, a_resumed_run_must_be_the_same_run)
{
    const char *rows = golden_rows();
    cr_assert_eq(train_until(2, PLAIN(rows, "b", "f32"), NULL), QLFT_ESIGNAL);
    REFUSED(run_command(NULL, "train", PLAIN(rows, "b", "f32"), "resume", "auto", "lr", "1e-3", NULL), QLFT_EARG, "--lr", "0.005", "0.001");
    REFUSED(run_command(NULL, "train", PLAIN(rows, "b", "f32"), "resume", in("nowhere"), NULL), QLFT_EIO, "nowhere");
}

/* Changes one byte, or cuts the file there. */
static void damage(const char *path, long at, bool cut)
{
    if (cut) {
        cr_assert_eq(truncate(path, at), 0);
        return;
    }
    FILE *f = fopen(path, "r+b");
    cr_assert(f && fseek(f, at, SEEK_SET) == 0);
    int byte = fgetc(f);
    cr_assert(fseek(f, at, SEEK_SET) == 0 && fputc(byte ^ 1, f) != EOF && fclose(f) == 0);
}

Test(train, a_damaged_checkpoint_is_told_with_the_one_before_it_and_that_one_serves)
{
    const char *rows = golden_rows();
    OK(run_command(NULL, "train", PLAIN(rows, "a", "f32"), "save-every", "2", "keep", "3", NULL));
    OK(run_command(NULL, "train", PLAIN(rows, "b", "f32"), "save-every", "2", "keep", "3", NULL));
    damage(in("b/checkpoints/step-6/state.safetensors"), 300, true);
    REFUSED(run_command(NULL, "train", PLAIN(rows, "b", "f32"), "resume", "auto", NULL), QLFT_EFORMAT, "step-6/state.safetensors", "--resume ",
            "b/checkpoints/step-4");
    damage(in("b/checkpoints/step-4/adapter_model.safetensors"), 3000, true);
    REFUSED(run_command(NULL, "train", PLAIN(rows, "b", "f32"), "resume", in("b/checkpoints/step-4"), NULL), QLFT_EFORMAT, "step-4/adapter_model", "step-2");
    OK(run_command(NULL, "train", PLAIN(rows, "b", "f32"), "resume", in("b/checkpoints/step-2"), NULL));
    same_adapter("a", "b");
    damage(in("a/checkpoints/step-2/state.safetensors"), 10, true);
    REFUSED(run_command(NULL, "train", PLAIN(rows, "a", "f32"), "resume", in("a/checkpoints/step-2"), NULL), QLFT_EFORMAT, "no earlier checkpoint");
    REFUSED(run_command(NULL, "train", PLAIN(rows, "a", "f32"), "resume", in("a"), NULL), QLFT_EIO, "checkpoints/step-100");
}

Test(train, a_run_is_not_resumed_on_another_base_or_with_another_adapter_s_scale)
{
    const char *rows = golden_rows();
    char command[1200];
    snprintf(command, sizeof command, "cp -r " MODEL " %s && chmod -R u+w %s", in("base"), in("base"));
    cr_assert_eq(system(command), 0);
    cr_assert_eq(
        train_until(2, "base", in("base"), "adapter", INIT, "data", rows, "format", "tokens", "steps", "6", "out", in("o"), "cache", in("cache"), NULL),
        QLFT_ESIGNAL);
    /* without --adapter the scale would be that of the defaults */
    REFUSED(run_command(NULL, "train", "base", in("base"), "r", "8", "data", rows, "format", "tokens", "steps", "6", "out", in("o"), "cache", in("cache"),
                        "resume", "auto", "alpha", "5", NULL),
            QLFT_EARG, "--alpha");
    safetensors file;
    OK(safetensors_open(&file, in("base/model.safetensors")));
    const safetensors_entry *e = safetensors_find(&file, "model.layers.1.mlp.up_proj.weight");
    long at = (const unsigned char *)e->data - file.files[0].data + 2 * 77;
    safetensors_close(&file);
    damage(in("base/model.safetensors"), at, false);
    REFUSED(run_command(NULL, "train", "base", in("base"), "adapter", INIT, "data", rows, "format", "tokens", "steps", "6", "out", in("o"), "cache",
                        in("cache"), "resume", "auto", NULL),
            QLFT_EARG, "--base", "other weights");
}

static void check_evals(const json_t *report)
{
    const json_t *eval;
    size_t i;
    cr_assert_eq(json_array_size(json_object_get(report, "eval")), 7u);
    json_array_foreach(json_object_get(report, "eval"), i, eval) cr_assert_eq(number_at(eval, "step", NULL), (double)i);
}

/* Stopped before or behind the evaluation of a step: it is done, once. */
Test(train, a_run_stopped_around_an_evaluation_has_each_once)
{
    const char *rows = golden_rows();
    for (int behind = 0; behind < 2; behind++) {
        json_t *report = NULL;
        at_evaluation = behind;
        cr_assert_eq(train_until(2, PLAIN(rows, "a", "f32"), "eval-data", rows, "eval-every", "1", NULL), QLFT_ESIGNAL);
        OK(run_command(&report, "train", PLAIN(rows, "a", "f32"), "eval-data", rows, "eval-every", "1", "resume", "auto", NULL));
        check_evals(report);
        json_decref(report);
    }
}

/* The last checkpoint is saved before the last evaluation. */
Test(train, a_finished_run_that_is_resumed_has_its_last_evaluation)
{
    const char *rows = golden_rows();
    json_t *first = NULL, *again = NULL;
    OK(run_command(&first, "train", PLAIN(rows, "a", "f32"), "eval-data", rows, "save-every", "0", NULL));
    OK(run_command(&again, "train", PLAIN(rows, "a", "f32"), "eval-data", rows, "save-every", "0", "resume", "auto", NULL));
    cr_assert(json_equal(json_object_get(first, "eval"), json_object_get(again, "eval")));
    cr_assert_eq(json_array_size(json_object_get(again, "eval")), 2u);
    cr_assert(json_equal(json_object_get(first, "steps"), json_object_get(again, "steps")));
    cr_assert_eq(number_at(again, "throughput", "tokens"), number_at(first, "throughput", "tokens"));
    json_decref(first);
    json_decref(again);
}

/* ---- normalisation (case D01) ---- */

Test(train, the_split_into_micro_batches_does_not_change_the_gradient)
{
    const char *rows = golden_rows();
    static const char *const splits[][2] = {{"8", "1"}, {"4", "2"}, {"2", "4"}, {"1", "8"}};
    double loss[4], norm[4];
    for (int i = 0; i < 4; i++) {
        json_t *report = NULL;
        char name[] = "s0";
        name[1] = (char)('0' + i);
        OK(run_command(&report, "train", GOLDEN(rows, name), "steps", "2", "compute", "f32", "batch", splits[i][0], "accum", splits[i][1], NULL));
        const json_t *step = json_array_get(json_object_get(report, "steps"), 1);
        loss[i] = number_at(step, "loss", NULL);
        norm[i] = number_at(step, "grad_norm", NULL);
        cr_assert(fabs(loss[i] / loss[0] - 1) <= TOLERANCE_SPLIT, "loss of split %d differs by %g", i, loss[i] / loss[0] - 1);
        cr_assert(fabs(norm[i] / norm[0] - 1) <= TOLERANCE_SPLIT, "norm of split %d differs by %g", i, norm[i] / norm[0] - 1);
        json_decref(report);
    }
    for (int i = 1; i < 4; i++) { /* and the adapters after two steps (the first runs at rate 0) */
        safetensors a, b;
        char path[] = "s0/adapter_model.safetensors";
        OK(safetensors_open(&a, in(path)));
        path[1] = (char)('0' + i);
        OK(safetensors_open(&b, in(path)));
        for (int j = 0; j < a.count; j++) {
            int64_t n = 0;
            float *x = tensor_values(&a, a.entries[j].name, &n), *y = tensor_values(&b, a.entries[j].name, &n);
            cr_assert(relative_l2(y, x, n) <= TOLERANCE_SPLIT_ADAPTER, "split %d: %s differs by %g", i, a.entries[j].name, relative_l2(y, x, n));
            free(x);
            free(y);
        }
        safetensors_close(&a);
        safetensors_close(&b);
    }
}

/* Cases D05, D12: a row's loss does not depend on its company. */
Test(train, packing_is_the_sum_of_its_samples)
{
    const char *rows = golden_rows();
    json_t *packed = NULL, *alone = NULL;
    OK(run_command(&packed, "eval", "base", MODEL, "adapter", TEST_GOLDEN "/train/adapter_step20", "data", rows, "format", "tokens", "compute", "f32", "seq",
                   "64", "cache", in("cache"), NULL));
    OK(run_command(&alone, "eval", "base", MODEL, "adapter", TEST_GOLDEN "/train/adapter_step20", "data", rows, "format", "tokens", "compute", "f32", "seq",
                   "20", "cache", in("cache"), NULL));
    cr_assert_eq(number_at(packed, "supervised_tokens", NULL), number_at(alone, "supervised_tokens", NULL));
    cr_assert(fabs(number_at(packed, "loss", NULL) / number_at(alone, "loss", NULL) - 1) <= 1e-6);
    json_decref(packed);
    json_decref(alone);
}

/* ---- plan = use ---- */

Test(train, planned_is_used_row_by_row_and_plan_says_the_same_before)
{
    const char *rows = golden_rows();
    static const char *const modes[][2] = {{"none", "on"}, {"block", "off"}};
    for (int i = 0; i < 2; i++) {
        json_t *report = NULL, *plan = NULL, *row;
        size_t at;
        OK(run_command(&plan, "plan", PLAIN(rows, "p", "bf16"), "checkpointing", modes[i][0], "page-optim", modes[i][1], NULL));
        OK(run_command(&report, "train", PLAIN(rows, "p", "bf16"), "checkpointing", modes[i][0], "page-optim", modes[i][1], NULL));
        json_t *ledger = json_object_get(report, "ledger"), *said = json_object_get(plan, "ledger");
        cr_assert(json_array_size(ledger) > 10);
        cr_assert_eq(json_array_size(ledger), json_array_size(said));
        json_array_foreach(ledger, at, row)
        {
            cr_assert_eq(number_at(row, "planned_bytes", NULL), number_at(row, "used_bytes", NULL), "%s", json_string_value(json_object_get(row, "name")));
            cr_assert_eq(number_at(row, "planned_bytes", NULL), number_at(json_array_get(said, at), "planned_bytes", NULL));
        }
        cr_assert_eq(number_at(report, "memory", "planned_peak_bytes"), number_at(report, "memory", "used_peak_bytes"));
        cr_assert_eq(number_at(report, "memory", "planned_peak_bytes"), number_at(plan, "memory", "planned_peak_bytes"));
        json_decref(report);
        json_decref(plan);
    }
}

Test(train, a_budget_that_is_too_small_names_rows_and_remedies)
{
    const char *rows = golden_rows();
    json_t *plan = NULL;
    REFUSED(run_command(&plan, "plan", PLAIN(rows, "p", "bf16"), "memory", "1MiB", NULL), QLFT_EFIT, "--memory", "MiB", "Largest rows", "frees");
    cr_assert(plan != NULL);
    cr_assert(json_is_false(json_object_get(plan, "fits")));
    json_decref(plan);
    REFUSED(run_command(NULL, "train", PLAIN(rows, "p", "bf16"), "memory", "1MiB", NULL), QLFT_EFIT, "1.0 MiB (--memory)");
}

static bool pulled(const json_t *plan, const char *name)
{
    const json_t *lever;
    size_t i;
    json_array_foreach(json_object_get(plan, "levers"), i, lever)
    {
        if (!strcmp(json_string_value(json_object_get(lever, "name")), name)) return json_is_true(json_object_get(lever, "pulled"));
    }
    cr_assert(false, "no lever %s", name);
    return false;
}

/* A smaller loss chunk is tried first; here it frees too little, so blocks are recomputed and the chunk is as it was. */
Test(train, only_the_levers_that_are_needed_stay_pulled)
{
    const char *rows = golden_rows();
    json_t *whole = NULL, *tight = NULL;
    char memory[32];
    OK(run_command(&whole, "plan", PLAIN(rows, "p", "f32"), NULL));
    cr_assert(!pulled(whole, "loss-chunk") && !pulled(whole, "checkpointing"));
    const json_t *device_tier = json_object_get(json_object_get(json_object_get(whole, "memory"), "tiers"), "device");
    snprintf(memory, sizeof memory, "%lldB", (long long)number_at(device_tier, "planned_peak_bytes", NULL) - 4096);
    OK(run_command(&tight, "plan", PLAIN(rows, "p", "f32"), "memory", memory, NULL));
    cr_assert(!pulled(tight, "loss-chunk") && pulled(tight, "checkpointing"));
    cr_assert_eq(number_at(tight, "choices", "loss-chunk"), number_at(whole, "choices", "loss-chunk"));
    json_decref(whole);
    json_decref(tight);
}

/* ---- what stops a run ---- */

Test(train, a_save_that_would_do_nothing_is_refused)
{
    const char *rows = golden_rows();
    REFUSED(run_command(NULL, "train", PLAIN(rows, "z", "f32"), "steps", "1", "warmup", "1", NULL), QLFT_ENUMERIC, "lora_B", "zero");
    cr_assert(!file_exists(in("z/adapter_model.safetensors")));
    OK(run_command(NULL, "train", PLAIN(rows, "z", "f32"), "steps", "1", "warmup", "0", NULL));
    cr_assert(file_exists(in("z/adapter_model.safetensors")));
}

/* The golden adapter with a B so large that the first product overflows. */
static void write_hot_adapter(void)
{
    char command[600];
    safetensors file;
    snprintf(command, sizeof command, "cp -r " INIT " %s", in("hot"));
    cr_assert_eq(system(command), 0);
    OK(safetensors_open(&file, INIT "/adapter_model.safetensors"));
    safetensors_out *tensors = calloc((size_t)file.count, sizeof *tensors);
    for (int i = 0; i < file.count; i++) {
        const safetensors_entry *e = &file.entries[i];
        tensors[i] = (safetensors_out){.name = e->name, .type = e->type, .rank = e->rank, .data = e->data};
        memcpy(tensors[i].shape, e->shape, sizeof e->shape);
        if (!strstr(e->name, "layers.1.mlp.down_proj.lora_B")) continue;
        float *values = malloc(e->bytes);
        for (int64_t j = 0; j < e->count; j++) values[j] = 3e38f;
        tensors[i].data = values; /* the test ends soon */
    }
    OK(safetensors_write(in("hot/adapter_model.safetensors"), tensors, file.count, NULL, NULL));
    free(tensors);
    safetensors_close(&file);
}

Test(train, a_loss_that_is_not_finite_names_step_and_samples_and_saves_nothing)
{
    const char *rows = golden_rows();
    write_hot_adapter();
    REFUSED(run_command(NULL, "train", "base", MODEL, "adapter", in("hot"), "data", rows, "format", "tokens", "compute", "f32", "cache", in("cache"), "out",
                        in("n"), NULL),
            QLFT_ENUMERIC, "step 1", "not finite", "rows.jsonl line ", "no checkpoint");
    cr_assert(!file_exists(in("n/adapter_model.safetensors")));
}

Test(train, an_adapter_of_another_shape_or_kind_is_refused)
{
    const char *rows = golden_rows();
    REFUSED(run_command(NULL, "train", GOLDEN(rows, "o"), "r", "4", NULL), QLFT_EARG, "--r 4", "r 8");
    REFUSED(run_command(NULL, "train", "base", TEST_GOLDEN "/arch/llama/model", "adapter", INIT, "data", rows, "format", "tokens", "out", in("o"), "cache",
                        in("cache"), "targets", "q_proj", NULL),
            QLFT_EARG, "--targets");
    REFUSED(run_command(NULL, "train", PLAIN(rows, "o", "f32"), "targets", "q_proj,nose_proj", NULL), QLFT_EARG, "nose_proj");
    REFUSED(run_command(NULL, "train", PLAIN(rows, "o", "f32"), "r", "65", NULL), QLFT_EARG, "--r 65", "_proj");
}

/* ---- targets, scaling and files ---- */

Test(train, targets_and_rank_stabilised_scaling_reach_the_files)
{
    const char *rows = golden_rows();
    json_t *config = NULL, *summary = NULL;
    OK(run_command(NULL, "train", PLAIN(rows, "t", "f32"), "targets", "q_proj,v_proj", "rslora", "on", "alpha", "32", "r", "16", "gguf", "on", NULL));
    OK(json_read_file(&config, in("t/adapter_config.json"), 1 << 20));
    cr_assert_eq(number_at(config, "lora_alpha", NULL), 32);
    cr_assert_eq(number_at(config, "r", NULL), 16);
    cr_assert(json_is_true(json_object_get(config, "use_rslora")));
    cr_assert_eq(json_array_size(json_object_get(config, "target_modules")), 2u);
    safetensors file;
    OK(safetensors_open(&file, in("t/adapter_model.safetensors")));
    cr_assert_eq(file.count, 8);
    const safetensors_entry *b = safetensors_find(&file, "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight");
    cr_assert(b && b->shape[0] == 32 && b->shape[1] == 16);
    safetensors_close(&file);
    /* llama.cpp knows alpha / r only: 32 / sqrt(16) = 8 = 128 / 16 */
    gguf g;
    double alpha = 0;
    OK(gguf_open(&g, in("t/adapter.gguf")));
    OK(gguf_get_double(&alpha, &g, "adapter.lora.alpha", 0));
    cr_assert_eq(alpha, 128);
    gguf_close(&g);
    OK(run_command(&summary, "export", "base", MODEL, "adapter", in("t"), "format", "gguf", "out", in("e.gguf"), NULL));
    cr_assert_eq(number_at(summary, "scale", NULL), 8);
    char one[SHA256_HEX_BYTES], two[SHA256_HEX_BYTES];
    OK(file_sha256(one, in("t/adapter.gguf")));
    OK(file_sha256(two, in("e.gguf")));
    cr_assert_str_eq(one, two);
    json_decref(config);
    json_decref(summary);
}

/* ---- conversations, with a tokenizer and a template ---- */

Test(train, conversations_are_learned_and_answered_before_and_after)
{
    char command[2000];
    snprintf(command, sizeof command,
             "cp -r " MODEL " %s && cp " TEST_GOLDEN "/cases/b14_tokenizer.json %s/tokenizer.json && cp " TEST_GOLDEN
             "/cases/b14_tokenizer_config.json %s/tokenizer_config.json && cp " TEST_GOLDEN "/cases/b14_generation_config.json %s/generation_config.json",
             in("chat"), in("chat"), in("chat"), in("chat"));
    cr_assert_eq(system(command), 0);
    FILE *rows = fopen(in("chat.jsonl"), "w");
    for (int i = 0; i < 24; i++)
        fprintf(rows, "{\"messages\": [{\"role\": \"user\", \"content\": \"say %c\"}, {\"role\": \"assistant\", \"content\": \"%c%c%c\"}]}\n", 'a' + i % 6,
                'a' + i % 6, 'a' + i % 6, 'a' + i % 6);
    cr_assert_eq(fclose(rows), 0);
    json_t *report = NULL;
    OK(run_command(&report, "train", "base", in("chat"), "data", in("chat.jsonl"), "eval-data", in("chat.jsonl"), "epochs", "6", "batch", "2", "accum", "2",
                   "seq", "64", "lr", "2e-2", "r", "8", "cache", in("cache"), "out", in("out"), NULL));
    json_t *samples = json_object_get(report, "samples"), *evals = json_object_get(report, "eval");
    cr_assert_eq(json_array_size(samples), 2u);
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(samples, 1), "prompt")), "say b");
    cr_assert(json_is_string(json_object_get(json_array_get(samples, 1), "after")));
    cr_assert(number_at(json_array_get(evals, 1), "loss", NULL) < number_at(json_array_get(evals, 0), "loss", NULL) - 1);
    /* three letters and the token that ends the turn, in each of 24 rows */
    cr_assert_eq(number_at(report, "data", "supervised_tokens"), 24 * 4);
    json_decref(report);
}
