/* Adapters: which layers, how they begin, masks of dropout, PEFT folders and GGUF files. */
#include <math.h>
#include <stdlib.h>

#include "core/gguf.h"
#include "core/json.h"
#include "core/random.h"
#include "lora/gguf_lora.h"
#include "lora/peft.h"
#include "model/model.h"
#include "temporary.h"

TestSuite(lora, .init = make_folder, .fini = drop_folder);

static json_t *case_json(const char *name)
{
    json_t *value = NULL;
    char path[512];
    snprintf(path, sizeof path, TEST_GOLDEN "/cases/%s", name);
    OK(json_read_file(&value, path, 1 << 20));
    return value;
}

/* ---- a model of the sizes of a configuration, with random weights ---- */

static void add_weight(safetensors_out *list, int *count, char (*names)[112], const char *name, int64_t rows, int64_t cols, uint64_t *state)
{
    uint16_t *values = malloc((size_t)(rows * cols) * sizeof *values);
    for (int64_t i = 0; i < rows * cols; i++) values[i] = f32_to_bf16((float)(next_random(state) % 2001) / 10000.0f - 0.1f);
    snprintf(names[*count], sizeof names[0], "%s.weight", name);
    list[*count] = (safetensors_out){names[*count], ST_BF16, rows == 1 ? 1 : 2, {rows == 1 ? cols : rows, cols}, values};
    (*count)++;
}

static const char *write_model(const json_t *config)
{
    safetensors_out list[64] = {0};
    char names[64][112], name[96];
    int count = 0;
    uint64_t state = 7;
    model m = {0};
    OK(shape_from_config(&m.dims, config, "the case"));
    for (int role = 0; role < TENSOR_ROLES; role++)
        for (int layer = 0; layer < (role < TENSOR_BLOCK_END ? m.dims.layers : 1); layer++) {
            int64_t rows, cols;
            model_matrix_size(&m, (tensor_role)role, &rows, &cols);
            const char *pattern = m.dims.kind->names[role].hf, *hole = strstr(pattern, "%d");
            if (hole)
                snprintf(name, sizeof name, "%.*s%d%s", (int)(hole - pattern), pattern, layer, hole + 2);
            else
                snprintf(name, sizeof name, "%s", pattern);
            add_weight(list, &count, names, name, rows, cols, &state);
        }
    OK(folder_make(in("model")));
    OK(json_write_file(config, in("model/config.json")));
    OK(safetensors_write(in("model/model.safetensors"), list, count, NULL, NULL));
    for (int i = 0; i < count; i++) free((void *)(uintptr_t)list[i].data);
    return in("model");
}

/* The model of case E01 with its adapter, and random values in it. */
typedef struct adapted {
    device *dev;
    model *m;
    linear *list[64];
    int count;
    peft_config config;
    float *master;
} adapted;

static void adapted_open(adapted *a)
{
    json_t *expected = case_json("e01_expected_keys.json");
    targets *wanted = NULL;
    memset(a, 0, sizeof *a);
    a->config = (peft_config){4, 8.0, 0.05, false};
    OK(device_open_cpu(&a->dev, CPU_REF, 1));
    OK(model_open(&a->m, a->dev, write_model(json_object_get(expected, "config"))));
    OK(targets_open(&wanted, "q_proj,v_proj,down_proj"));
    OK(model_adapt(a->m, &adapter_lora, wanted, a->config.rank, (float)peft_scale(&a->config), 0.0f));
    targets_close(wanted);
    a->count = model_adapted(a->m, a->list);
    a->master = malloc((size_t)a->m->parameters * sizeof(float));
    for (int64_t i = 0; i < a->m->parameters; i++) a->master[i] = random_float(random_key_of(1, RANDOM_TEST, 0, 0), (uint64_t)i) - 0.5f;
    json_decref(expected);
}

static void adapted_close(adapted *a)
{
    free(a->master);
    model_close(a->m);
    device_close(a->dev);
}

static qlft_status write_to(const adapted *a, const char *name, bool allow_zero_b)
{
    OK(folder_make(in(name)));
    return peft_write(in(name), a->list, a->count, a->m->dims.layers, a->master, &a->config, "some/base", allow_zero_b, NULL);
}

/* ---- PEFT: writing ---- */

/* Cases E01, E04: exactly these names and shapes. */
Test(lora, a_written_adapter_has_the_names_and_shapes_of_peft)
{
    adapted a;
    adapted_open(&a);
    OK(write_to(&a, "out", false));
    json_t *expected = case_json("e01_expected_keys.json"), *keys = json_object_get(expected, "keys"), *extents;
    safetensors file;
    const char *name;
    OK(safetensors_open(&file, in("out/adapter_model.safetensors")));
    cr_assert_eq((size_t)file.count, json_object_size(keys));
    json_object_foreach(keys, name, extents)
    {
        const safetensors_entry *e = safetensors_find(&file, name);
        cr_assert(e, "%s is missing", name);
        cr_assert(e->rank == 2 && e->shape[0] == json_integer_value(json_array_get(extents, 0)) &&
                      e->shape[1] == json_integer_value(json_array_get(extents, 1)),
                  "%s", name);
    }
    safetensors_close(&file);
    json_t *config = NULL;
    OK(json_read_file(&config, in("out/adapter_config.json"), 1 << 20));
    static const char *const targeted[] = {"down_proj", "q_proj", "v_proj"};
    json_t *list = json_object_get(config, "target_modules");
    cr_assert_eq(json_array_size(list), 3u);
    for (size_t i = 0; i < 3; i++) cr_assert_str_eq(json_string_value(json_array_get(list, i)), targeted[i]);
    cr_assert_str_eq(json_string_value(json_object_get(config, "base_model_name_or_path")), "some/base");
    cr_assert_str_eq(json_string_value(json_object_get(config, "peft_type")), "LORA");
    cr_assert_str_eq(json_string_value(json_object_get(config, "task_type")), "CAUSAL_LM");
    json_decref(config);
    json_decref(expected);
    adapted_close(&a);
}

/* Short names would adapt more than was trained: PEFT reads them as "ends in". */
Test(lora, targets_of_some_layers_only_are_written_in_full)
{
    adapted a;
    adapted_open(&a);
    a.list[1] = a.list[3]; /* layer 0: q; layer 1: q */
    OK(folder_make(in("out")));
    OK(peft_write(in("out"), a.list, 1, 2, a.master, &a.config, "b", false, NULL));
    json_t *config = NULL;
    OK(json_read_file(&config, in("out/adapter_config.json"), 1 << 20));
    cr_assert_str_eq(json_string_value(json_array_get(json_object_get(config, "target_modules"), 0)), "model.layers.0.self_attn.q_proj");
    json_decref(config);
    adapted_close(&a);
}

Test(lora, what_is_written_is_read_back_to_the_bit)
{
    adapted a;
    peft_adapter p;
    adapted_open(&a);
    a.config = (peft_config){4, 6.5, 0.125, true};
    OK(write_to(&a, "out", false));
    OK(peft_open(&p, in("out")));
    cr_assert(p.config.rank == 4 && p.config.alpha == 6.5 && p.config.dropout == 0.125 && p.config.rslora);
    cr_assert_eq(p.count, a.count);
    float *master = calloc((size_t)a.m->parameters, sizeof *master);
    for (int i = 0; i < p.count; i++) {
        linear *l = model_linear(a.m, p.modules[i].name);
        cr_assert(l && l->adapter, "%s", p.modules[i].name);
        OK(peft_read_module(master, &p, &p.modules[i], l));
    }
    cr_assert_eq(memcmp(master, a.master, (size_t)a.m->parameters * sizeof *master), 0);
    free(master);
    peft_close(&p);
    adapted_close(&a);
}

Test(lora, an_adapter_that_does_nothing_or_is_not_finite_is_not_written)
{
    adapted a;
    adapted_open(&a);
    const linear *l = a.list[4];
    float *b = a.master + l->offset + l->rank * l->in, kept = b[3];
    b[3] = NAN;
    REFUSED(write_to(&a, "out", true), QLFT_ENUMERIC, l->name, "not finite");
    b[3] = kept;
    a.master[l->offset + 1] = INFINITY;
    REFUSED(write_to(&a, "out", false), QLFT_ENUMERIC, l->name, "not finite");
    a.master[l->offset + 1] = 0.0f;
    memset(b, 0, (size_t)(l->rank * l->out) * sizeof *b);
    REFUSED(write_to(&a, "out", false), QLFT_ENUMERIC, l->name, "all zero");
    cr_assert(!file_exists(in("out/adapter_config.json")) && !file_exists(in("out/adapter_model.safetensors")));
    OK(write_to(&a, "out", true)); /* a checkpoint before anything was learned */
    adapted_close(&a);
}

/* ---- PEFT: reading ---- */

/* Opens the adapter in "out" with one key of its configuration changed to `value` (JSON). */
static qlft_status open_changed(const char *key, const char *value)
{
    json_t *config = NULL, *changed = NULL;
    peft_adapter p;
    OK(json_read_file(&config, in("out/adapter_config.json"), 1 << 20));
    OK(json_parse(&changed, value, strlen(value), key));
    json_object_set_new(config, key, changed);
    OK(folder_make(in("changed")));
    OK(json_write_file(config, in("changed/adapter_config.json")));
    json_decref(config);
    char command[1200];
    snprintf(command, sizeof command, "cp %s %s", in("out/adapter_model.safetensors"), in("changed/"));
    cr_assert_eq(system(command), 0);
    qlft_status status = peft_open(&p, in("changed"));
    if (status == QLFT_OK) peft_close(&p);
    return status;
}

Test(lora, what_changes_the_mathematics_of_an_adapter_is_refused_by_name)
{
    static const char *const refused[][2] = {{"use_dora", "true"},
                                             {"bias", "\"all\""},
                                             {"fan_in_fan_out", "true"},
                                             {"rank_pattern", "{\"q_proj\": 8}"},
                                             {"alpha_pattern", "{\"q_proj\": 8}"},
                                             {"modules_to_save", "[\"lm_head\"]"},
                                             {"layer_replication", "[[0, 2]]"},
                                             {"lora_bias", "true"},
                                             {"trainable_token_indices", "[1]"},
                                             {"target_parameters", "[\"x\"]"},
                                             {"init_lora_weights", "\"pissa_niter_4\""},
                                             {"init_lora_weights", "\"olora\""},
                                             {"peft_type", "\"LOHA\""}};
    static const char *const wrong[][2] = {{"r", "0"}, {"r", "-1"}, {"lora_alpha", "0"}, {"lora_dropout", "1.0"}, {"r", "\"8\""}};
    static const char *const fine[][2] = {
        {"bias", "\"none\""}, {"rank_pattern", "{}"}, {"modules_to_save", "null"}, {"init_lora_weights", "\"gaussian\""}, {"use_dora", "false"}};
    adapted a;
    adapted_open(&a);
    OK(write_to(&a, "out", false));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        REFUSED(open_changed(refused[i][0], refused[i][1]), QLFT_EUNSUPPORTED, refused[i][0], "adapter_config.json");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) REFUSED(open_changed(wrong[i][0], wrong[i][1]), QLFT_EFORMAT, wrong[i][0]);
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) OK(open_changed(fine[i][0], fine[i][1]));
    adapted_close(&a);
}

/* Writes an adapter file of the tensors given and opens it. */
static qlft_status open_tensors(const safetensors_out *tensors, int count)
{
    peft_adapter p;
    OK(folder_make(in("t")));
    OK(file_write_text(in("t/adapter_config.json"), "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4}"));
    OK(safetensors_write(in("t/adapter_model.safetensors"), tensors, count, NULL, NULL));
    qlft_status status = peft_open(&p, in("t"));
    if (status == QLFT_OK) peft_close(&p);
    return status;
}

Test(lora, tensors_that_are_no_pair_of_a_and_b_are_refused_by_name)
{
    static const float x[64] = {1.0f};
    safetensors_out a = {"base_model.model.m.q_proj.lora_A.weight", ST_F32, 2, {2, 8}, x},
                    b = {"base_model.model.m.q_proj.lora_B.weight", ST_F32, 2, {8, 2}, x};
    safetensors_out flat = b, head = {"base_model.model.lm_head.weight", ST_F32, 2, {8, 2}, x}, bare = {"m.q_proj.lora_B.weight", ST_F32, 2, {8, 2}, x};
    flat.rank = 1;
    flat.shape[0] = 16;
    OK(open_tensors((safetensors_out[]){a, b}, 2));
    REFUSED(open_tensors((safetensors_out[]){a}, 1), QLFT_EFORMAT, "m.q_proj", "lora_B");
    REFUSED(open_tensors((safetensors_out[]){b}, 1), QLFT_EFORMAT, "m.q_proj", "lora_A");
    REFUSED(open_tensors((safetensors_out[]){a, flat}, 2), QLFT_EFORMAT, "lora_B", "1 dimensions");
    REFUSED(open_tensors((safetensors_out[]){a, b, head}, 3), QLFT_EUNSUPPORTED, "lm_head.weight");
    REFUSED(open_tensors((safetensors_out[]){a, b, bare}, 3), QLFT_EUNSUPPORTED, "m.q_proj.lora_B.weight");
    OK(folder_make(in("empty")));
    peft_adapter p;
    REFUSED(peft_open(&p, in("empty")), QLFT_EIO, "adapter_config.json");
}

Test(lora, values_of_another_shape_or_not_finite_are_refused_by_name)
{
    adapted a;
    peft_adapter p;
    adapted_open(&a);
    OK(write_to(&a, "out", false));
    OK(peft_open(&p, in("out")));
    linear *l = model_linear(a.m, p.modules[0].name), narrow = *l;
    narrow.in--;
    REFUSED(peft_read_module(a.master, &p, &p.modules[0], &narrow), QLFT_EFORMAT, "lora_A", "another model");
    safetensors_entry bad = *p.modules[0].b;
    float *values = calloc((size_t)bad.count, sizeof *values);
    values[5] = NAN;
    bad.data = values;
    peft_module broken = p.modules[0];
    broken.b = &bad;
    REFUSED(peft_read_module(a.master, &p, &broken, l), QLFT_EFORMAT, "lora_B", "index 5");
    free(values);
    peft_close(&p);
    adapted_close(&a);
}

/* Cases D11, E03. */
Test(lora, scales_and_ranks_of_servers)
{
    static const int ranks[][2] = {{4, 8}, {16, 16}, {17, 32}, {24, 32}, {64, 64}, {100, 128}, {257, 320}, {512, 512}, {513, 0}};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) cr_assert_eq(peft_vllm_rank(ranks[i][0]), ranks[i][1], "rank %d", ranks[i][0]);
    cr_assert_eq(peft_scale(&(peft_config){16, 32.0, 0.0, false}), 2.0);
    cr_assert_eq(peft_scale(&(peft_config){16, 32.0, 0.0, true}), 8.0);
}

/* ---- targets ---- */

static bool matches(const char *text, const char *module)
{
    targets *t = NULL;
    OK(targets_open(&t, text));
    bool matched = targets_match(t, module);
    targets_close(t);
    return matched;
}

Test(lora, targets_match_as_in_peft)
{
    const char *q = "model.layers.1.self_attn.q_proj", *gate = "model.layers.11.mlp.gate_proj";
    cr_assert(matches("all-linear", q) && matches("all-linear", gate));
    cr_assert(matches("q_proj", q) && matches("v_proj, q_proj", q) && !matches("q_proj", gate));
    cr_assert(!matches("proj", q), "a name is whole, not the end of one");
    cr_assert(matches("self_attn.q_proj", q) && matches("model.layers.1.self_attn.q_proj", q) && !matches("odel.layers.1.self_attn.q_proj", q));
    cr_assert(matches(".*\\.q_proj", q) && matches("model\\.layers\\.(0|1)\\..*", q));
    cr_assert(!matches("q_proj$", q), "a pattern matches the whole name");
    cr_assert(!matches("model\\.layers\\.1", q) && !matches("model\\.layers\\.(0|1)\\..*", gate));
}

Test(lora, targets_that_are_nothing_are_refused_by_name)
{
    targets *t = NULL;
    REFUSED(targets_open(&t, "(q_proj"), QLFT_EARG, "(q_proj", "all-linear");
    REFUSED(targets_open(&t, " , "), QLFT_EARG, "empty");
    OK(targets_open(&t, "q_proj,nose_proj"));
    cr_assert(targets_match(t, "model.layers.0.self_attn.q_proj"));
    REFUSED(targets_check_used(t, "q_proj, k_proj"), QLFT_EARG, "nose_proj", "q_proj, k_proj");
    targets_close(t);
    /* a pattern that goes on for ever is told, not taken for one that does not match */
    OK(targets_open(&t, "(a+a+)+[bc]"));
    cr_assert(!targets_match(t, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    REFUSED(targets_check_used(t, "q_proj"), QLFT_EARG, "pattern");
    targets_close(t);
}

/* ---- initial values (case D09) ---- */

Test(lora, a_begins_uniform_within_one_over_root_in_and_b_at_zero)
{
    enum { IN = 64, RANK = 64, OUT = 32, COUNT = RANK * IN };
    linear l = {.site = 3, .in = IN, .out = OUT, .rank = RANK, .adapter = &adapter_lora}, other = l;
    other.site = 4;
    float x[RANK * (IN + OUT)], y[RANK * (IN + OUT)];
    double sum = 0.0, squares = 0.0, most = 0.0;
    int same = 0;
    adapter_lora.init(&l, x, 11);
    for (int i = 0; i < COUNT; i++) {
        sum += x[i];
        squares += (double)x[i] * x[i];
        most = fmax(most, fabs((double)x[i]));
    }
    cr_assert(most <= 0.125 && most > 0.1245, "largest %g", most);
    cr_assert(fabs(sum / COUNT) < 5 * 0.072169 / sqrt(COUNT)); /* five standard deviations */
    cr_assert(fabs(sqrt(squares / COUNT) - 0.072169) < 5 * 0.072169 * sqrt(0.8 / (4.0 * COUNT)));
    for (int i = COUNT; i < RANK * (IN + OUT); i++) cr_assert_eq(x[i], 0.0f);
    adapter_lora.init(&l, y, 11);
    cr_assert_eq(memcmp(x, y, sizeof x), 0);
    adapter_lora.init(&l, y, 12);
    for (int i = 0; i < COUNT; i++) same += x[i] == y[i];
    adapter_lora.init(&other, y, 11);
    for (int i = 0; i < COUNT; i++) same += x[i] == y[i];
    cr_assert(same < 10, "%d values of another seed or layer are the same", same);
}

/* ---- dropout (case D06) ---- */

enum { TOKENS = 40, WIDTH = 64 };

/* A linear whose adapter shows its mask: A is the identity and x is 1, so u = drop(1). */
typedef struct masked {
    float a[WIDTH * WIDTH], b[WIDTH], da[WIDTH * WIDTH], db[WIDTH], base[WIDTH], x[TOKENS * WIDTH], u[TOKENS * WIDTH], dropped[TOKENS * WIDTH],
        low_rank[TOKENS * WIDTH], dy[TOKENS], y[TOKENS], dx[TOKENS * WIDTH];
    linear l;
    linear_context c;
} masked;

static void masked_make(masked *m, device *dev, uint64_t seed, uint64_t micro_step, uint64_t site)
{
    memset(m, 0, sizeof *m);
    for (int i = 0; i < WIDTH; i++) m->a[i * WIDTH + i] = 1.0f, m->b[i] = 1.0f;
    for (int i = 0; i < TOKENS * WIDTH; i++) m->x[i] = 1.0f;
    for (int i = 0; i < TOKENS; i++) m->dy[i] = 1.0f;
    m->l = (linear){.site = site,
                    .out = 1,
                    .in = WIDTH,
                    .dense = tensor_of(m->base, 1, WIDTH, DTYPE_F32),
                    .adapter = &adapter_lora,
                    .rank = WIDTH,
                    .scale = 1.0f,
                    .dropout = 0.3f};
    m->l.a = tensor_of(m->a, WIDTH, WIDTH, DTYPE_F32);
    m->l.b = tensor_of(m->b, 1, WIDTH, DTYPE_F32);
    m->l.da = tensor_of(m->da, WIDTH, WIDTH, DTYPE_F32);
    m->l.db = tensor_of(m->db, 1, WIDTH, DTYPE_F32);
    m->c = (linear_context){.dev = dev, .ops = ops_for(dev), .training = true, .seed = seed, .micro_step = micro_step};
    m->c.dropped = tensor_of(m->dropped, TOKENS, WIDTH, DTYPE_F32);
    m->c.low_rank[0] = tensor_of(m->low_rank, TOKENS, WIDTH, DTYPE_F32);
    linear_forward(&m->c, &m->l, tensor_of(m->y, TOKENS, 1, DTYPE_F32), tensor_of(m->x, TOKENS, WIDTH, DTYPE_F32), tensor_of(m->u, TOKENS, WIDTH, DTYPE_F32),
                   0.0f);
}

/* Share of elements that two masks agree on; 0.7 * 0.7 + 0.3 * 0.3 = 0.58 of independent ones. */
static double agreement(const masked *x, const masked *y)
{
    int same = 0;
    for (int i = 0; i < TOKENS * WIDTH; i++) same += x->u[i] == y->u[i];
    return (double)same / (TOKENS * WIDTH);
}

Test(lora, no_two_micro_batches_layers_or_seeds_share_a_mask)
{
    static const uint64_t keys[][3] = {{5, 0, 0}, {5, 1, 0}, {5, 0, 1}, {5, 1, 1}, {6, 0, 0}, {5, 2, 0}, {5, 0, 2}};
    enum { MASKS = sizeof keys / sizeof *keys };
    static masked masks[MASKS], again;
    device *dev = NULL;
    OK(device_open_cpu(&dev, CPU_REF, 1));
    const double spread = 5 * sqrt(0.58 * 0.42 / (TOKENS * WIDTH)), kept_spread = 5 * sqrt(0.7 * 0.3 / (TOKENS * WIDTH));
    for (int i = 0; i < MASKS; i++) {
        int kept = 0;
        masked_make(&masks[i], dev, keys[i][0], keys[i][1], keys[i][2]);
        for (int j = 0; j < TOKENS * WIDTH; j++) {
            cr_assert(masks[i].u[j] == 0.0f || fabs((double)masks[i].u[j] - 1 / 0.7) < 1e-6);
            kept += masks[i].u[j] != 0.0f;
        }
        cr_assert(fabs((double)kept / (TOKENS * WIDTH) - 0.7) < kept_spread, "mask %d keeps %d", i, kept);
        for (int j = 0; j < i; j++)
            cr_assert(fabs(agreement(&masks[i], &masks[j]) - 0.58) < spread, "masks %d and %d agree on %g", i, j, agreement(&masks[i], &masks[j]));
        masked_make(&again, dev, keys[i][0], keys[i][1], keys[i][2]); /* a recomputation */
        cr_assert_eq(memcmp(again.u, masks[i].u, sizeof again.u), 0);
    }
    device_close(dev);
}

Test(lora, the_backward_pass_has_the_mask_of_the_forward_pass)
{
    static masked m;
    device *dev = NULL;
    OK(device_open_cpu(&dev, CPU_REF, 1));
    masked_make(&m, dev, 1, 2, 3);
    linear *l = &m.l;
    tensor dy = tensor_of(m.dy, TOKENS, 1, DTYPE_F32), u = tensor_of(m.u, TOKENS, WIDTH, DTYPE_F32);
    linear_backward(&m.c, &l, &dy, &u, 1, tensor_of(m.x, TOKENS, WIDTH, DTYPE_F32), tensor_of(m.dx, TOKENS, WIDTH, DTYPE_F32));
    /* t = dy B = 1, so dx = drop(1) = u, dA[r, j] = dB[j] = the sum of u over tokens */
    for (int i = 0; i < TOKENS * WIDTH; i++) cr_assert(fabs((double)m.dx[i] - m.u[i]) < 1e-6, "dx at %d: %g, mask %g", i, m.dx[i], m.u[i]);
    for (int j = 0; j < WIDTH; j++) {
        double sum = 0.0;
        for (int i = 0; i < TOKENS; i++) sum += m.u[i * WIDTH + j];
        cr_assert(fabs(m.db[j] - sum) < 1e-4);
        for (int r = 0; r < WIDTH; r++) cr_assert(fabs(m.da[r * WIDTH + j] - sum) < 1e-4);
    }
    device_close(dev);
}

/* ---- GGUF (case C15) ---- */

static int64_t row_at(const json_t *table, const char *key, size_t i)
{
    return (int64_t)json_integer_value(json_array_get(json_object_get(table, key), i));
}

Test(lora, a_gguf_adapter_has_rows_of_q_and_k_in_pair_order_and_a_scale_that_llama_cpp_reads)
{
    enum { RANK = 2, IN = 4, Q = 16, K = 8, PARAMETERS = RANK * (IN + Q) + RANK * (IN + K) + RANK * (IN + K) };
    json_t *table = case_json("c15_gguf_qk_rows.json");
    linear q = {.name = "q", .out = Q, .in = IN, .rank = RANK}, k = {.name = "k", .out = K, .in = IN, .rank = RANK, .offset = RANK * (IN + Q)};
    linear v = {.name = "v", .out = K, .in = IN, .rank = RANK, .offset = RANK * (IN + Q) + RANK * (IN + K)};
    const gguf_lora_module modules[] = {{&q, "blk.0.attn_q.weight", 2}, {&k, "blk.0.attn_k.weight", 1}, {&v, "blk.0.attn_v.weight", 0}};
    float master[PARAMETERS], got[Q * RANK];
    for (int i = 0; i < PARAMETERS; i++) master[i] = (float)(i + 1);
    OK(gguf_lora_write(in("a.gguf"), "llama", modules, 3, master, 8.0, 16));
    gguf g;
    double alpha = 0.0;
    OK(gguf_open(&g, in("a.gguf")));
    cr_assert_eq(g.tensor_count, 6);
    for (int i = 0; i < 3; i++) {
        const linear *l = modules[i].l;
        char name[128];
        snprintf(name, sizeof name, "%s.lora_b", modules[i].name);
        const gguf_tensor *b = gguf_find_tensor(&g, name);
        cr_assert(b && b->rank == 2 && b->shape[0] == l->out && b->shape[1] == RANK, "%s", name);
        OK(gguf_to_f32(got, b, 0, b->count));
        for (int64_t row = 0; row < l->out; row++) {
            int64_t from = i == 2 ? row : row_at(table, i == 0 ? "gguf_row_i_is_hf_row" : "k_proj_gguf_row_i_is_hf_row", (size_t)row);
            for (int r = 0; r < RANK; r++)
                cr_assert_eq(got[row * RANK + r], master[l->offset + RANK * IN + from * RANK + r], "%s row %lld", name, (long long)row);
        }
        snprintf(name, sizeof name, "%s.lora_a", modules[i].name);
        const gguf_tensor *a = gguf_find_tensor(&g, name);
        cr_assert(a && a->shape[0] == RANK && a->shape[1] == IN, "%s", name);
        OK(gguf_to_f32(got, a, 0, a->count));
        cr_assert_eq(memcmp(got, master + l->offset, RANK * IN * sizeof *got), 0);
    }
    for (size_t i = 0; i < Q; i++) cr_assert_eq(gguf_pair_row((int64_t)i, 8), row_at(table, "hf_row_i_is_gguf_row", i));
    OK(gguf_get_double(&alpha, &g, "adapter.lora.alpha", 0.0));
    cr_assert_eq(alpha, 128.0); /* case D11: alpha / r is the scale */
    gguf_close(&g);
    master[2] = NAN;
    REFUSED(gguf_lora_write(in("b.gguf"), "llama", modules, 3, master, 8.0, 16), QLFT_ENUMERIC, "lora_A of q");
    master[2] = 1.0f;
    memset(master + v.offset + RANK * IN, 0, RANK * K * sizeof *master);
    REFUSED(gguf_lora_write(in("b.gguf"), "llama", modules, 3, master, 8.0, 16), QLFT_ENUMERIC, "lora_B of v", "all zero");
    cr_assert(!file_exists(in("b.gguf")));
    json_decref(table);
}
