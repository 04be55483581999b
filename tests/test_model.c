/* Whole models against PyTorch: logits, loss and every LoRA gradient of the golden cases, on every level. */
#include <math.h>

#include "commands.h"
#include "core/cpu.h"
#include "model/model.h"
#include "tolerance.h"

TestSuite(model, .init = make_folder, .fini = drop_folder);

static const char *const cases[] = {"llama", "llama_tied_llama3", "llama_bias"};
enum { CASES = sizeof cases / sizeof cases[0] };

static const char *case_path(const char *name, const char *file)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], TEST_GOLDEN "/arch/%s/%s", name, file);
    return path;
}

/* Largest difference of logits where attention_mask is 1. */
static double logits_error(const safetensors *got, const safetensors *expected, const char *name, const safetensors *grid)
{
    int64_t n = 0, m = 0, tokens = 0;
    float *a = tensor_values(got, "logits", &n), *b = tensor_values(expected, name, &m), *mask = tensor_values(grid, "attention_mask", &tokens);
    double worst = 0;
    cr_assert_eq(n, m);
    for (int64_t i = 0; i < n; i++) {
        double error = fabs((double)a[i] - b[i]);
        if (mask[i / (n / tokens)] != 0.0f && !(error <= worst)) worst = error; /* a NaN stays */
    }
    free(a);
    free(b);
    free(mask);
    return worst;
}

/* Relative L2 of each gradient (the worst) and of all together. */
static void gradient_errors(const safetensors *got, const safetensors *expected, double *worst, double *all)
{
    double difference = 0, norm = 0;
    int compared = 0;
    *worst = 0;
    for (int i = 0; i < expected->count; i++) {
        const char *name = expected->entries[i].name;
        if (strncmp(name, "grad.", 5) != 0) continue;
        int64_t n = 0, m = 0;
        float *a = tensor_values(got, name, &n), *b = tensor_values(expected, name, &m);
        cr_assert_eq(n, m);
        double error = relative_l2(a, b, n);
        if (!(error <= *worst)) *worst = error;
        for (int64_t j = 0; j < n; j++) {
            difference += ((double)a[j] - b[j]) * ((double)a[j] - b[j]);
            norm += (double)b[j] * b[j];
        }
        free(a);
        free(b);
        compared++;
    }
    cr_assert(compared > 0);
    *all = sqrt(difference / norm);
}

typedef struct bounds {
    double logits, loss, gradient, gradients, norm;
} bounds;
static const bounds in_f32 = {TOLERANCE_ARCH_LOGITS_F32, TOLERANCE_ARCH_LOSS_F32, TOLERANCE_ARCH_GRADIENT_F32, TOLERANCE_ARCH_GRADIENT_F32,
                              TOLERANCE_ARCH_GRADIENT_NORM_F32};
static const bounds in_bf16 = {TOLERANCE_ARCH_LOGITS_BF16, TOLERANCE_ARCH_LOSS_BF16, INFINITY, TOLERANCE_ARCH_GRADIENT_BF16, TOLERANCE_ARCH_GRADIENT_NORM_BF16};

/* adapter NULL: the plain model, quantized or not. */
static void check_case(const char *name, const char *config, const char *quant, const char *compute, const char *adapter, const char *expected_name,
                       const char *logits_name, double loss, double norm)
{
    const bounds *most = strcmp(compute, "f32") == 0 ? &in_f32 : &in_bf16;
    const char *out = in("out.safetensors"), *base = case_path(name, "model");
    json_t *summary = NULL;
    safetensors got, expected, grid;
    if (strcmp(config, "config.json") != 0) { /* the same weights under the other spelling of the configuration */
        char command[1200];
        snprintf(command, sizeof command, "mkdir -p %s && cp %s/model.safetensors %s/ && cp %s/%s %s/config.json", in("v5"), base, in("v5"), base, config,
                 in("v5"));
        cr_assert_eq(system(command), 0);
        base = in("v5");
    }
    OK(run_command(&summary, "probe", "base", base, "batch", case_path(name, "expected.safetensors"), "out", out, "quant", quant, "compute", compute,
                   adapter ? "adapter" : NULL, adapter, NULL));
    OK(safetensors_open(&got, out));
    OK(safetensors_open(&expected, case_path(name, expected_name)));
    OK(safetensors_open(&grid, case_path(name, "expected.safetensors")));
    double logits = logits_error(&got, &expected, logits_name, &grid), loss_error = fabs(number_at(summary, "loss", NULL) - loss);
    cr_assert(logits <= most->logits, "%s %s %s: logits differ by %g", name, quant, compute, logits);
    cr_assert(loss_error <= most->loss, "%s %s %s: loss differs by %g", name, quant, compute, loss_error);
    if (adapter) {
        double worst, all, norm_error = fabs(number_at(summary, "grad_norm", NULL) - norm) / norm;
        gradient_errors(&got, &expected, &worst, &all);
        cr_assert(worst <= most->gradient && all <= most->gradients, "%s %s: gradients differ by %g, all by %g", name, compute, worst, all);
        cr_assert(norm_error <= most->norm, "%s %s: gradient norm differs by %g", name, compute, norm_error);
    }
    safetensors_close(&got);
    safetensors_close(&expected);
    safetensors_close(&grid);
    json_decref(summary);
}

static void check_all(const char *level)
{
    static const char *const computes[] = {"f32", "bf16"};
    setenv("QLFT_CPU", level, 1);
    for (int i = 0; i < CASES; i++)
        for (int j = 0; j < 2; j++) {
            json_t *e = NULL;
            OK(json_read_file(&e, case_path(cases[i], "expected.json"), 1 << 20));
            check_case(cases[i], "config.json", "none", computes[j], NULL, "expected.safetensors", "logits_base", number_at(e, "loss_base", NULL), 0);
            check_case(cases[i], "config.json", "nf4", computes[j], NULL, "expected.safetensors", "logits_nf4", number_at(e, "loss_nf4", NULL), 0);
            check_case(cases[i], "config.v5.json", "nf4", computes[j], case_path(cases[i], "adapter"), "expected.safetensors", "logits_lora",
                       number_at(e, "lora", "loss"), number_at(e, "lora", "grad_norm"));
            if (json_object_get(e, "lora_rslora"))
                check_case(cases[i], "config.json", "nf4", computes[j], case_path(cases[i], "adapter_rslora"), "expected_rslora.safetensors", "logits",
                           number_at(e, "lora_rslora", "loss"), number_at(e, "lora_rslora", "grad_norm"));
            json_decref(e);
        }
}

static void check_level(cpu_level level)
{
    if (level > cpu_level_best()) cr_skip_test("skipped: this processor has no %s", cpu_level_name(level));
    check_all(cpu_level_name(level));
}

Test(model, goldens_ref)
{
    check_level(CPU_REF);
}

Test(model, goldens_avx2)
{
    check_level(CPU_AVX2);
}

Test(model, goldens_avx512)
{
    check_level(CPU_AVX512);
}

/* ---- what is refused ---- */

/* A copy of the llama case with a piece of config.json replaced. */
static const char *with_config(const char *from, const char *to)
{
    char command[1200];
    snprintf(command, sizeof command, "rm -rf %s && cp -r %s %s && chmod -R u+w %s && sed -i 's/%s/%s/' %s/config.json", in("changed"),
             case_path("llama", "model"), in("changed"), in("changed"), from, to, in("changed"));
    cr_assert_eq(system(command), 0);
    return in("changed");
}

static qlft_status probe_of(const char *base)
{
    return run_command(NULL, "probe", "base", base, "batch", case_path("llama", "expected.safetensors"), "out", in("o.safetensors"), NULL);
}

Test(model, what_changes_the_mathematics_is_refused_by_name)
{
    REFUSED(probe_of(with_config("\"rope_scaling\": null", "\"rope_scaling\": {\"rope_type\": \"spiral\", \"factor\": 2.0}")), QLFT_EUNSUPPORTED, "spiral",
            "config.json");
    REFUSED(probe_of(with_config("\"rope_scaling\": null", "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2.0}")), QLFT_EUNSUPPORTED, "yarn");
    REFUSED(probe_of(with_config("\"rope_scaling\": null", "\"rope_parameters\": {\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5}")),
            QLFT_EUNSUPPORTED, "partial_rotary_factor");
    REFUSED(probe_of(with_config("\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"")), QLFT_EUNSUPPORTED, "hidden_act", "gelu");
    REFUSED(probe_of(with_config("\"model_type\": \"llama\"", "\"model_type\": \"mamba\"")), QLFT_EUNSUPPORTED, "mamba");
    REFUSED(probe_of(with_config("\"mlp_bias\": false", "\"mlp_bias\": false, \"attention_multiplier\": 0.5")), QLFT_EUNSUPPORTED, "attention_multiplier");
    REFUSED(probe_of(with_config("\"mlp_bias\": false", "\"mlp_bias\": false, \"sliding_window\": 8")), QLFT_EUNSUPPORTED, "sliding_window");
    REFUSED(probe_of(with_config("\"mlp_bias\": false", "\"mlp_bias\": false, \"quantization_config\": {\"quant_method\": \"fp8\"}")), QLFT_EUNSUPPORTED,
            "quantization_config");
}

Test(model, sizes_that_do_not_fit_the_tensors_are_named)
{
    REFUSED(probe_of(with_config("\"head_dim\": 16", "\"head_dim\": 8")), QLFT_EFORMAT, "self_attn.q_proj.weight", "64, 64", "32, 64");
    REFUSED(probe_of(with_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3")), QLFT_EFORMAT, "model.layers.2.", "missing");
    REFUSED(probe_of(with_config("\"num_attention_heads\": 4", "\"num_attention_heads\": 0")), QLFT_EFORMAT, "num_attention_heads");
    REFUSED(probe_of(with_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2.5")), QLFT_EFORMAT, "num_hidden_layers");
    REFUSED(probe_of(with_config("\"vocab_size\": 300", "\"vocab_size\": 9000000000000000000")), QLFT_EFORMAT, "vocab_size");
    REFUSED(probe_of("/nowhere"), QLFT_EIO, "/nowhere");
}

/* Case C07: every spelling of the rotary scaling gives the frequencies of transformers. */
Test(model, rotary_frequencies_of_every_spelling)
{
    json_t *cases_json = NULL, *entry;
    size_t i;
    OK(json_read_file(&cases_json, TEST_GOLDEN "/cases/c07_rope.json", 1 << 20));
    cr_assert_eq(json_array_size(cases_json), 4u);
    json_array_foreach(cases_json, i, entry)
    {
        json_t *config = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "model_type", "llama", "num_hidden_layers", 1, "num_attention_heads", 1, "hidden_size", 16,
                                   "intermediate_size", 16, "vocab_size", 16),
               *expected = json_object_get(entry, "inv_freq");
        json_object_update(config, json_object_get(entry, "config"));
        model m = {0};
        float got[8];
        OK(shape_from_config(&m.dims, config, "the case"));
        cr_assert_eq(m.dims.head_size, 16);
        OK(rope_frequencies(got, &m));
        for (size_t j = 0; j < 8; j++) {
            double want = json_number_value(json_array_get(expected, j));
            cr_assert(fabs((double)got[j] - want) <= TOLERANCE_ROPE * want, "entry %zu: frequency %zu is %g, not %g", i, j, (double)got[j], want);
        }
        json_decref(config);
    }
    json_decref(cases_json);
}

/* ---- tied and own heads (case C04): one seed, the loss tells which matrix was used ---- */

/* Writes the tied case's weights with a head: the embedding times `factor` (0: none), and the config's tie key as given. */
static const char *tie_case(float factor, const char *tie)
{
    char command[1200];
    const char *from = case_path("llama_tied_llama3", "model");
    safetensors file;
    snprintf(command, sizeof command, "rm -rf %s && mkdir %s && sed 's/\"tie_word_embeddings\": true,/%s/' %s/config.json > %s/config.json", in("tie"),
             in("tie"), tie, from, in("tie"));
    cr_assert_eq(system(command), 0);
    snprintf(command, sizeof command, "%s/model.safetensors", from);
    OK(safetensors_open(&file, command));
    safetensors_out *tensors = calloc((size_t)file.count + 1, sizeof *tensors);
    uint16_t *head = NULL;
    int count = 0;
    for (int i = 0; i < file.count; i++) {
        const safetensors_entry *e = &file.entries[i];
        tensors[count] = (safetensors_out){.name = e->name, .type = e->type, .rank = e->rank, .data = e->data};
        memcpy(tensors[count++].shape, e->shape, sizeof e->shape);
        if (strcmp(e->name, "model.embed_tokens.weight") != 0 || factor == 0.0f) continue;
        head = malloc(e->bytes);
        for (int64_t j = 0; j < e->count; j++) head[j] = f32_to_bf16(factor * bf16_to_f32(((const uint16_t *)e->data)[j]));
        tensors[count] = tensors[count - 1];
        tensors[count].name = "lm_head.weight";
        tensors[count++].data = head;
    }
    OK(safetensors_write(in("tie/model.safetensors"), tensors, count, NULL, NULL));
    free(head);
    free(tensors);
    safetensors_close(&file);
    return in("tie");
}

static double loss_of(const char *base)
{
    json_t *summary = NULL;
    OK(run_command(&summary, "probe", "base", base, "batch", case_path("llama_tied_llama3", "expected.safetensors"), "out", in("o.safetensors"), "compute",
                   "f32", "quant", "none", NULL));
    double loss = number_at(summary, "loss", NULL);
    json_decref(summary);
    return loss;
}

static char last_warning[1024];
static void keep_warning(void *payload, qlft_log_level level, const char *message)
{
    (void)payload;
    if (level == QLFT_LOG_WARNING) snprintf(last_warning, sizeof last_warning, "%s", message);
}

Test(model, the_head_that_is_used_is_the_one_that_the_files_say)
{
    qlft_log_to(keep_warning, NULL, QLFT_LOG_INFO);
    double tied = loss_of(tie_case(0.0f, "\"tie_word_embeddings\": true,"));
    double halved = loss_of(tie_case(0.5f, "\"tie_word_embeddings\": false,"));
    cr_assert(fabs(tied - halved) > 1e-3);
    cr_assert_str_empty(last_warning);
    cr_assert(fabs(loss_of(tie_case(1.0f, "\"tie_word_embeddings\": true,")) - tied) < 1e-9);
    cr_assert_str_empty(last_warning);
    cr_assert(fabs(loss_of(tie_case(0.5f, "")) - halved) < 1e-9); /* key absent: untied */
    cr_assert_str_empty(last_warning);
    cr_assert(fabs(loss_of(tie_case(0.5f, "\"tie_word_embeddings\": true,")) - halved) < 1e-9);
    cr_assert(strstr(last_warning, "lm_head.weight"));
    REFUSED(probe_of(tie_case(0.0f, "\"tie_word_embeddings\": false,")), QLFT_EFORMAT, "lm_head.weight");
}

/* ---- tensors that no part of the model takes ---- */

/* The llama case's weights with one tensor more. */
static const char *with_tensor(const char *name)
{
    char command[1200];
    static const uint16_t values[64];
    safetensors file;
    snprintf(command, sizeof command, "mkdir -p %s && cp %s/config.json %s/", in("more"), case_path("llama", "model"), in("more"));
    cr_assert_eq(system(command), 0);
    OK(safetensors_open(&file, case_path("llama", "model/model.safetensors")));
    safetensors_out *tensors = calloc((size_t)file.count + 1, sizeof *tensors);
    for (int i = 0; i < file.count; i++) {
        const safetensors_entry *e = &file.entries[i];
        tensors[i] = (safetensors_out){.name = e->name, .type = e->type, .rank = e->rank, .data = e->data};
        memcpy(tensors[i].shape, e->shape, sizeof e->shape);
    }
    tensors[file.count] = (safetensors_out){name, ST_BF16, 1, {64}, values};
    OK(safetensors_write(in("more/model.safetensors"), tensors, file.count + 1, NULL, NULL));
    free(tensors);
    safetensors_close(&file);
    return in("more");
}

Test(model, tensors_that_are_not_used_are_told)
{
    static const char *const told[] = {"model.layers.0.self_attn.q_proj.bias",  /* attention_bias is false */
                                       "model.layers.2.input_layernorm.weight", /* there are two layers */
                                       "model.layers.0.input_layernorm.bias", "model.extra.weight"};
    qlft_log_to(keep_warning, NULL, QLFT_LOG_INFO);
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        last_warning[0] = 0;
        OK(probe_of(with_tensor(told[i])));
        cr_assert(strstr(last_warning, told[i]), "\"%s\" lacks %s", last_warning, told[i]);
    }
    last_warning[0] = 0;
    OK(probe_of(with_tensor("model.layers.0.self_attn.rotary_emb.inv_freq")));
    cr_assert_str_empty(last_warning);
    REFUSED(probe_of(with_tensor("model.layers.0.mlp.up_proj.weight_scale")), QLFT_EUNSUPPORTED, "weight_scale");
}

/* A GGUF file of a llama's sizes, with one number more in its metadata (NULL: none) and a bias or not. */
static qlft_status open_gguf(const char *key, double number, const char *bias)
{
    static const float zeros[64 * 64];
    const gguf_out_value values[] = {{"general.architecture", GGUF_STRING, "llama", 0}, {"llama.block_count", GGUF_U32, NULL, 1},
                                     {"llama.embedding_length", GGUF_U32, NULL, 16},    {"llama.feed_forward_length", GGUF_U32, NULL, 16},
                                     {"llama.attention.head_count", GGUF_U32, NULL, 2}, {key ? key : "general.file_type", GGUF_F32, NULL, number}};
    static const struct {
        const char *name;
        int rank;
    } weights[] = {{"token_embd", 2},   {"output_norm", 1},       {"blk.0.attn_norm", 1}, {"blk.0.ffn_norm", 1}, {"blk.0.attn_q", 2},  {"blk.0.attn_k", 2},
                   {"blk.0.attn_v", 2}, {"blk.0.attn_output", 2}, {"blk.0.ffn_gate", 2},  {"blk.0.ffn_up", 2},   {"blk.0.ffn_down", 2}};
    enum { WEIGHTS = sizeof weights / sizeof *weights };
    gguf_out_tensor tensors[WEIGHTS + 1];
    char names[WEIGHTS][64];
    for (int i = 0; i < WEIGHTS; i++) {
        snprintf(names[i], sizeof names[i], "%s.weight", weights[i].name);
        tensors[i] = (gguf_out_tensor){names[i], DTYPE_F32, weights[i].rank, {16, 16}, zeros};
    }
    tensors[WEIGHTS] = (gguf_out_tensor){bias, DTYPE_F32, 1, {16}, zeros};
    OK(gguf_write(in("m.gguf"), values, 6, tensors, bias ? WEIGHTS + 1 : WEIGHTS));
    device *d = NULL;
    model *m = NULL;
    OK(device_open_cpu(&d, CPU_REF, 1));
    qlft_status status = model_open(&m, d, in("m.gguf"));
    model_close(m);
    device_close(d);
    return status;
}

Test(model, what_changes_a_gguf_model_is_refused_by_name)
{
    static const char *const keys[] = {"llama.logit_scale", "llama.attention.scale", "llama.attention.sliding_window", "llama.final_logit_softcapping"};
    OK(open_gguf(NULL, 0, NULL));
    OK(open_gguf("llama.logit_scale", 1, NULL));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) REFUSED(open_gguf(keys[i], 8, NULL), QLFT_EUNSUPPORTED, keys[i], "m.gguf");
    REFUSED(open_gguf(NULL, 0, "blk.0.attn_k.bias"), QLFT_EUNSUPPORTED, "blk.0.attn_k.bias");
    REFUSED(open_gguf(NULL, 0, "blk.0.attn_q.bias"), QLFT_EFORMAT, "blk.0.attn_k.bias"); /* one bias means all of attention */
    REFUSED(open_gguf(NULL, 0, "blk.0.ffn_norm.bias"), QLFT_EUNSUPPORTED, "blk.0.ffn_norm.bias");
}

Test(model, a_weight_that_is_not_finite_is_named_with_its_place)
{
    tie_case(0.0f, "\"tie_word_embeddings\": true,");
    safetensors file;
    OK(safetensors_open(&file, in("tie/model.safetensors")));
    const safetensors_entry *e = safetensors_find(&file, "model.layers.1.mlp.up_proj.weight");
    long at = (const unsigned char *)e->data - file.files[0].data + 2 * 77;
    safetensors_close(&file);
    FILE *f = fopen(in("tie/model.safetensors"), "r+b");
    cr_assert(f && fseek(f, at, SEEK_SET) == 0 && fwrite("\xc0\x7f", 1, 2, f) == 2 && fclose(f) == 0); /* BF16 NaN */
    REFUSED(probe_of(in("tie")), QLFT_EFORMAT, "model.layers.1.mlp.up_proj.weight", "77");
}

/* ---- batches of any form ---- */

enum { GRID_ROWS = 2, GRID_LENGTH = 9, GRID_TOKENS = 6 };

/* Rows of GRID_TOKENS tokens, the first `left` places of a row and those behind its tokens masked. Returns the path. */
static const char *grid_batch(int left, bool with_positions, int32_t first_id, int32_t label, bool all_masked)
{
    static int32_t grids[4][GRID_ROWS * GRID_LENGTH];
    static const char *const names[4] = {"input_ids", "labels", "attention_mask", "position_ids"};
    for (int i = 0; i < GRID_ROWS * GRID_LENGTH; i++) {
        int at = i % GRID_LENGTH - left;
        bool is_token = at >= 0 && at < GRID_TOKENS;
        grids[0][i] = is_token ? 7 + 31 * at + 5 * (i / GRID_LENGTH) : 0;
        grids[1][i] = is_token && at > 0 ? grids[0][i] : -100;
        grids[2][i] = is_token && !all_masked;
        grids[3][i] = is_token ? at : 0;
    }
    grids[0][left] = first_id;
    grids[1][left + 1] = label;
    safetensors_out tensors[4];
    for (int i = 0; i < 4; i++)
        tensors[i] = (safetensors_out){.name = names[i], .type = ST_I32, .rank = 2, .shape = {GRID_ROWS, GRID_LENGTH}, .data = grids[i]};
    OK(safetensors_write(in("batch.safetensors"), tensors, with_positions ? 4 : 3, NULL, NULL));
    return in("batch.safetensors");
}

static qlft_status probe_grid(json_t **summary, const char *batch)
{
    return run_command(summary, "probe", "base", case_path("llama", "model"), "adapter", case_path("llama", "adapter"), "batch", batch, "out",
                       in("o.safetensors"), "compute", "f32", NULL);
}

Test(model, padding_on_either_side_changes_nothing)
{
    json_t *right, *left, *placed;
    OK(probe_grid(&right, grid_batch(0, false, 7, 38, false)));
    OK(probe_grid(&placed, grid_batch(3, true, 7, 38, false)));
    OK(probe_grid(&left, grid_batch(3, false, 7, 38, false))); /* positions from 3: rotary embeddings see differences only */
    cr_assert_eq(number_at(right, "supervised_tokens", NULL), GRID_ROWS * (GRID_TOKENS - 1));
    cr_assert_eq(number_at(right, "loss", NULL), number_at(placed, "loss", NULL));
    cr_assert_eq(number_at(right, "grad_norm", NULL), number_at(placed, "grad_norm", NULL));
    cr_assert(fabs(number_at(right, "loss", NULL) - number_at(left, "loss", NULL)) <= TOLERANCE_ARCH_LOSS_F32);
    json_decref(right);
    json_decref(left);
    json_decref(placed);
}

Test(model, a_batch_that_cannot_be_probed_is_told_why)
{
    REFUSED(probe_grid(NULL, grid_batch(3, false, 300, 38, false)), QLFT_EFORMAT, "batch.safetensors", "input_ids[0, 3]", "300");
    REFUSED(probe_grid(NULL, grid_batch(3, false, 7, 4000, false)), QLFT_EFORMAT, "batch.safetensors", "labels[0, 4]", "4000");
    REFUSED(probe_grid(NULL, grid_batch(3, false, 7, 38, true)), QLFT_EFORMAT, "batch.safetensors", "attention_mask");
}
