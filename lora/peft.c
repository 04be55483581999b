#include "lora/peft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"

static const char prefix[] = "base_model.model.";
enum { NAME_BYTES = 192, CONFIG_LIMIT_BYTES = 1 << 20 };

double peft_scale(const peft_config *c)
{
    return c->alpha / (c->rslora ? sqrt((double)c->rank) : (double)c->rank);
}

int peft_vllm_rank(int rank)
{
    static const int ranks[] = {1, 8, 16, 32, 64, 128, 256, 320, 512};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
        if (ranks[i] >= rank) return ranks[i];
    return 0;
}

/* ---- reading ---- */

/* Keys that, with a value that is neither null, false, empty nor the neutral one, mean mathematics that a plain LoRA does not have. */
static const struct {
    const char *key, *neutral;
} refused[] = {{"use_dora", NULL},
               {"rank_pattern", NULL},
               {"alpha_pattern", NULL},
               {"modules_to_save", NULL},
               {"layer_replication", NULL},
               {"fan_in_fan_out", NULL},
               {"bias", "none"},
               {"lora_bias", NULL},
               {"trainable_token_indices", NULL},
               {"target_parameters", NULL},
               {"use_qalora", NULL},
               {"use_bdlora", NULL},
               {"alora_invocation_tokens", NULL},
               {"megatron_config", NULL},
               {"velora_config", NULL}};

static bool value_is_neutral(const json_t *value, const char *neutral)
{
    if (!value || json_is_null(value) || json_is_false(value)) return true;
    if (json_is_object(value)) return json_object_size(value) == 0;
    if (json_is_array(value)) return json_array_size(value) == 0;
    return neutral && json_is_string(value) && strcmp(json_string_value(value), neutral) == 0;
}

/* Some ways to initialise take a part of the base away, so their A and B belong to another base than the one on the disk (PEFT's PiSSA, OLoRA, CorDA, LoftQ
 * ...). */
static bool init_keeps_base(const json_t *value)
{
    static const char *const names[] = {"gaussian", "eva", "orthogonal"};
    if (!value || !json_is_string(value)) return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(json_string_value(value), names[i]) == 0) return true;
    return false;
}

static qlft_status read_config(peft_config *out, const json_t *config, const char *path)
{
    const char *type = NULL;
    int64_t rank = 0;
    QLFT_TRY(json_get_string(&type, config, "peft_type", "LORA", path));
    if (strcmp(type, adapter_lora.peft_type) != 0) return status_fail(QLFT_EUNSUPPORTED, "%s: peft_type %s is not supported, only LORA", path, type);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (!value_is_neutral(json_object_get(config, refused[i].key), refused[i].neutral))
            return status_fail(QLFT_EUNSUPPORTED, "%s: %s changes what the adapter computes and is not supported", path, refused[i].key);
    const json_t *init = json_object_get(config, "init_lora_weights");
    if (!init_keeps_base(init))
        return status_fail(QLFT_EUNSUPPORTED, "%s: init_lora_weights \"%s\" changes the base too; save the adapter with PEFT's conversion to a plain LoRA",
                           path, json_string_value(init));
    QLFT_TRY(json_get_int(&rank, config, "r", 8, path));
    QLFT_TRY(json_get_double(&out->alpha, config, "lora_alpha", 8.0, path));
    QLFT_TRY(json_get_double(&out->dropout, config, "lora_dropout", 0.0, path));
    QLFT_TRY(json_get_bool(&out->rslora, config, "use_rslora", false, path));
    if (rank < 1 || rank > 65536) return status_fail(QLFT_EFORMAT, "%s: r is %lld, expected 1 to 65536", path, (long long)rank);
    if (!(out->alpha > 0.0) || !isfinite(out->alpha)) return status_fail(QLFT_EFORMAT, "%s: lora_alpha is %g, expected a number above 0", path, out->alpha);
    if (!(out->dropout >= 0.0 && out->dropout < 1.0)) return status_fail(QLFT_EFORMAT, "%s: lora_dropout is %g, expected 0 to below 1", path, out->dropout);
    out->rank = (int)rank;
    return QLFT_OK;
}

static const char *peft_path(const peft_adapter *p)
{
    return p->file.files[0].path;
}

/* "base_model.model.X.lora_A.weight" -> X and which; false if the name is of another kind. */
static bool split_name(char *module, size_t bytes, char *which, const char *name)
{
    static const char tail_a[] = ".lora_A.weight", tail_b[] = ".lora_B.weight";
    size_t length = strlen(name), head = sizeof prefix - 1, tail = sizeof tail_a - 1;
    if (length <= head + tail || memcmp(name, prefix, head) != 0 || length - head - tail >= bytes) return false;
    const char *end = name + length - tail;
    if (memcmp(end, tail_a, tail) == 0)
        *which = 'A';
    else if (memcmp(end, tail_b, tail) == 0)
        *which = 'B';
    else
        return false;
    snprintf(module, bytes, "%.*s", (int)(end - name - (ptrdiff_t)head), name + head);
    return true;
}

static qlft_status collect_modules(peft_adapter *p)
{
    p->modules = calloc((size_t)p->file.count + 1, sizeof *p->modules);
    if (!p->modules) return status_fail(QLFT_ENOMEM, "out of memory for %d adapter tensors", p->file.count);
    /* Entries are sorted by name, so that A and B of a module follow each other. */
    for (int i = 0; i < p->file.count; i++) {
        const safetensors_entry *e = &p->file.entries[i];
        char name[sizeof p->modules->name], which = 0;
        if (!split_name(name, sizeof name, &which, e->name))
            return status_fail(QLFT_EUNSUPPORTED, "%s: tensor %s is not a lora_A or lora_B weight; leaving it out would change the adapter", peft_path(p),
                               e->name);
        if (e->rank != 2) return status_fail(QLFT_EFORMAT, "%s: tensor %s has %d dimensions, expected 2", peft_path(p), e->name, e->rank);
        peft_module *last = p->count ? &p->modules[p->count - 1] : NULL;
        if (!last || strcmp(last->name, name) != 0) {
            last = &p->modules[p->count++];
            memcpy(last->name, name, sizeof name);
        }
        *(which == 'A' ? &last->a : &last->b) = e;
    }
    for (int i = 0; i < p->count; i++) {
        const peft_module *m = &p->modules[i];
        if (!m->a || !m->b) return status_fail(QLFT_EFORMAT, "%s: module %s has no %s", peft_path(p), m->name, m->a ? "lora_B" : "lora_A");
    }
    return p->count ? QLFT_OK : status_fail(QLFT_EFORMAT, "%s: no adapter tensors", peft_path(p));
}

qlft_status peft_open(peft_adapter *out, const char *folder)
{
    json_t *config = NULL;
    qlft_status status = QLFT_OK;
    memset(out, 0, sizeof *out);
    out->folder = strdup(folder);
    char *config_path = path_join(folder, "adapter_config.json"), *file_path = path_join(folder, "adapter_model.safetensors");
    if (!out->folder || !config_path || !file_path) {
        status = status_fail(QLFT_ENOMEM, "out of memory");
        goto done;
    }
    if (!file_exists(config_path)) {
        status = status_fail(QLFT_EIO, "%s: no adapter_config.json there: the folder of a PEFT adapter is expected", folder);
        goto done;
    }
    if ((status = json_read_file(&config, config_path, CONFIG_LIMIT_BYTES)) != QLFT_OK) goto done;
    if ((status = read_config(&out->config, config, config_path)) != QLFT_OK) goto done;
    if ((status = safetensors_open(&out->file, file_path)) != QLFT_OK) goto done;
    status = collect_modules(out);
done:
    json_decref(config);
    free(config_path);
    free(file_path);
    if (status != QLFT_OK) peft_close(out);
    return status;
}

void peft_close(peft_adapter *p)
{
    free(p->folder);
    free(p->modules);
    safetensors_close(&p->file);
    memset(p, 0, sizeof *p);
}

static qlft_status read_matrix(float *out, const peft_adapter *p, const safetensors_entry *e, int64_t rows, int64_t cols)
{
    if (e->shape[0] != rows || e->shape[1] != cols)
        return status_fail(QLFT_EFORMAT, "%s: tensor %s is [%lld, %lld], the base and r ask for [%lld, %lld]; is this an adapter of another model?",
                           peft_path(p), e->name, (long long)e->shape[0], (long long)e->shape[1], (long long)rows, (long long)cols);
    QLFT_TRY(safetensors_to_f32(out, e, 0, e->count));
    for (int64_t i = 0; i < e->count; i++)
        if (!isfinite(out[i])) return status_fail(QLFT_EFORMAT, "%s: tensor %s is not finite at index %lld", peft_path(p), e->name, (long long)i);
    return QLFT_OK;
}

qlft_status peft_read_module(float *master, const peft_adapter *p, const peft_module *module, const linear *l)
{
    QLFT_TRY(read_matrix(master + l->offset, p, module->a, l->rank, l->in));
    return read_matrix(master + l->offset + l->rank * l->in, p, module->b, l->out, l->rank);
}

/* ---- writing ---- */

static const char *short_name(const linear *l)
{
    const char *dot = strrchr(l->name, '.');
    return dot ? dot + 1 : l->name;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Target names as PEFT writes them: short ones if these name exactly the adapted modules of every layer, else the modules' full names. */
static json_t *target_names(linear *const *list, int count, int layers)
{
    const char **names = calloc((size_t)count, sizeof *names);
    json_t *out = json_array();
    int distinct = 0;
    if (!names || !out) goto failed;
    for (int i = 0; i < count; i++) {
        int seen = 0;
        while (seen < distinct && strcmp(names[seen], short_name(list[i])) != 0) seen++;
        if (seen == distinct) names[distinct++] = short_name(list[i]);
    }
    if (count != distinct * layers) { /* a name is at most once in a layer, so equality means: each in every layer */
        distinct = count;
        for (int i = 0; i < count; i++) names[i] = list[i]->name;
    }
    qsort(names, (size_t)distinct, sizeof *names, compare_names);
    for (int i = 0; i < distinct; i++)
        if (json_array_append_new(out, json_string(names[i])) != 0) goto failed;
    free(names);
    return out;
failed:
    free(names);
    json_decref(out);
    return NULL;
}

static json_t *whole_or_real(double value)
{
    return value == floor(value) && fabs(value) < 1e15 ? json_integer((json_int_t)value) : json_real(value);
}

static qlft_status write_config(const char *folder, linear *const *list, int count, int layers, const peft_config *c, const char *base)
{
    json_t *names = target_names(list, count, layers);
    json_t *alpha = whole_or_real(c->alpha), *made_for = json_string_or_null(base);
    json_t *config = names && alpha
                         ? json_pack("{s:{}, s:n, s:o, s:s, s:b, s:b, s:b, s:n, s:n, s:n, s:o, s:f, s:n, s:s, s:i, s:{}, s:n, s:o, s:s, s:b, s:b}",
                                     "alpha_pattern", "auto_mapping", "base_model_name_or_path", made_for, "bias", "none", "fan_in_fan_out", 0,
                                     "inference_mode", 1, "init_lora_weights", 1, "layer_replication", "layers_pattern", "layers_to_transform", "lora_alpha",
                                     alpha, "lora_dropout", c->dropout, "modules_to_save", "peft_type", adapter_lora.peft_type, "r", c->rank, "rank_pattern",
                                     "revision", "target_modules", names, "task_type", "CAUSAL_LM", "use_dora", 0, "use_rslora", (int)c->rslora)
                         : NULL;
    if (!config) return status_fail(QLFT_ENOMEM, "out of memory for adapter_config.json");
    char *path = path_join(folder, "adapter_config.json");
    qlft_status status = path ? json_write_file(config, path) : status_fail(QLFT_ENOMEM, "out of memory");
    free(path);
    json_decref(config);
    return status;
}

static qlft_status check_values(const linear *l, const float *master, bool allow_zero_b)
{
    const float *values = master + l->offset;
    int64_t split = l->rank * l->in, count = split + l->rank * l->out;
    bool learned = false;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) return status_fail(QLFT_ENUMERIC, "the adapter of %s holds a value that is not finite; it is not written", l->name);
        if (i >= split && values[i] != 0.0f) learned = true;
    }
    if (learned || allow_zero_b) return QLFT_OK;
    return status_fail(
        QLFT_ENUMERIC,
        "lora_B of %s is all zero: the adapter would do nothing there, so it is not written; train more steps (the first ones of a warm-up run at rate 0)",
        l->name);
}

qlft_status peft_write(const char *folder, linear *const *list, int count, int layers, const float *master, const peft_config *config, const char *base,
                       bool allow_zero_b, char sha256[SHA256_HEX_BYTES])
{
    static const char *const metadata[] = {"format", "pt", NULL};
    qlft_status status = QLFT_OK;
    safetensors_out *tensors = calloc(2 * (size_t)count, sizeof *tensors);
    char(*names)[NAME_BYTES] = calloc(2 * (size_t)count, sizeof *names);
    char *path = path_join(folder, "adapter_model.safetensors");
    if (!tensors || !names || !path) {
        status = status_fail(QLFT_ENOMEM, "out of memory for %d adapter modules", count);
        goto done;
    }
    for (int i = 0; i < count; i++) {
        const linear *l = list[i];
        if ((status = check_values(l, master, allow_zero_b)) != QLFT_OK) goto done;
        snprintf(names[2 * i], NAME_BYTES, "%s%s.lora_A.weight", prefix, l->name);
        snprintf(names[2 * i + 1], NAME_BYTES, "%s%s.lora_B.weight", prefix, l->name);
        tensors[2 * i] = (safetensors_out){names[2 * i], ST_F32, 2, {l->rank, l->in}, master + l->offset};
        tensors[2 * i + 1] = (safetensors_out){names[2 * i + 1], ST_F32, 2, {l->out, l->rank}, master + l->offset + l->rank * l->in};
    }
    if ((status = write_config(folder, list, count, layers, config, base)) != QLFT_OK) goto done;
    status = safetensors_write(path, tensors, 2 * count, metadata, sha256);
done:
    free(tensors);
    free(names);
    free(path);
    return status;
}
