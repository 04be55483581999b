#include "train/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

bool run_stopped(const run *r)
{
    return r->observer && r->observer->stop && *r->observer->stop;
}

const volatile int *run_stop_flag(const run *r)
{
    return r->observer ? (const volatile int *)r->observer->stop : NULL;
}

void run_progress(const run *r, const char *phase, int64_t done, int64_t total, const char *unit)
{
    if (r->observer && r->observer->progress) r->observer->progress(r->observer->payload, phase, done, total, unit);
}

static void progress_load(void *payload, int64_t done, int64_t total)
{
    run_progress(payload, "load", done, total, "parts");
}

static void progress_tokenize(void *payload, int64_t done, int64_t total)
{
    run_progress(payload, "tokenize", done, total, "bytes");
}

qlft_status run_start(run *r, const qlft_config *c, const qlft_observer *observer)
{
    memset(r, 0, sizeof *r);
    r->config = c;
    r->observer = observer;
    r->started = clock_seconds();
    return qlft_config_check(c);
}

void run_close(run *r)
{
    batcher_close(r->batches);
    batcher_close(r->eval_batches);
    dataset_close(r->data);
    dataset_close(r->eval_data);
    tokenizer_close(r->tok);
    peft_close(&r->continued);
    kv_cache_close(&r->cache);
    free(r->adapted);
    model_close(r->m);
    device_close(r->dev);
    ledger_free(&r->planned);
    ledger_free(&r->used);
    json_decref(r->warnings);
    memset(r, 0, sizeof *r);
}

/* ---- model and adapter ---- */

static qlft_status open_device(run *r)
{
    const device_table *table = device_find("cpu");
    QLFT_TRY(table->open(&r->dev, 0, (int)r->config->threads));
    return QLFT_OK;
}

/* An option that contradicts the adapter that is continued is an error, not a silent choice. */
static qlft_status check_continued(const run *r)
{
    const qlft_config *c = r->config;
    const peft_config *a = &r->continued.config;
    if (config_given(c, "r") && c->r != a->rank)
        return status_fail(QLFT_EARG, "--r %lld: the adapter in %s has r %d; leave --r out to continue it", (long long)c->r, r->continued.folder, a->rank);
    if (config_given(c, "alpha") && c->alpha != a->alpha)
        return status_fail(QLFT_EARG, "--alpha %g: the adapter in %s has lora_alpha %g; leave --alpha out to continue it", c->alpha, r->continued.folder,
                           a->alpha);
    if (config_given(c, "rslora") && c->rslora != a->rslora)
        return status_fail(QLFT_EARG, "--rslora: the adapter in %s has use_rslora %s; leave --rslora out to continue it", r->continued.folder,
                           a->rslora ? "true" : "false");
    if (config_given(c, "targets"))
        return status_fail(QLFT_EARG, "--targets cannot be given together with --adapter %s: the adapter's own modules are trained", r->continued.folder);
    return QLFT_OK;
}

static qlft_status adapt_from_folder(run *r, bool training)
{
    QLFT_TRY(peft_open(&r->continued, r->config->adapter));
    if (training) QLFT_TRY(check_continued(r));
    r->adapter = r->continued.config;
    if (training && config_given(r->config, "dropout")) r->adapter.dropout = r->config->dropout;
    for (int i = 0; i < r->continued.count; i++) {
        const char *name = r->continued.modules[i].name;
        linear *l = model_linear(r->m, name);
        if (!l)
            return status_fail(QLFT_EFORMAT, "%s: module %s is not a linear layer of %s; is this an adapter of another model?", r->continued.folder, name,
                               r->m->source.path);
        QLFT_TRY(model_adapt_linear(r->m, l, &adapter_lora, r->adapter.rank, (float)peft_scale(&r->adapter), (float)r->adapter.dropout));
    }
    model_number_parameters(r->m);
    return QLFT_OK;
}

static qlft_status adapt_fresh(run *r)
{
    const qlft_config *c = r->config;
    targets *wanted = NULL;
    r->adapter = (peft_config){(int)c->r, config_alpha(c), c->dropout, c->rslora};
    QLFT_TRY(targets_open(&wanted, c->targets));
    qlft_status status = model_adapt(r->m, &adapter_lora, wanted, r->adapter.rank, (float)peft_scale(&r->adapter), (float)r->adapter.dropout);
    targets_close(wanted);
    return status;
}

qlft_status run_open_model(run *r, run_work work)
{
    bool training = work == RUN_TRAIN;
    r->work = work;
    QLFT_TRY(open_device(r));
    QLFT_TRY(model_open(&r->m, r->dev, r->config->base));
    if (r->config->adapter)
        QLFT_TRY(adapt_from_folder(r, training));
    else if (training)
        QLFT_TRY(adapt_fresh(r));
    r->adapted_count = model_adapted(r->m, NULL);
    r->adapted = calloc((size_t)r->adapted_count + 1, sizeof(linear *));
    if (!r->adapted) return status_fail(QLFT_ENOMEM, "out of memory");
    model_adapted(r->m, r->adapted);
    if (training && peft_vllm_rank(r->adapter.rank) == 0) log_warning("r %d: vLLM serves ranks up to 512 only", r->adapter.rank);
    r->optim = optim_find("adamw");
    return training ? source_fingerprint(r->base_fingerprint, &r->m->source) : QLFT_OK;
}

/* ---- data ---- */

static data_options data_options_of(const run *r, const char *cache, char **paths, int count)
{
    const qlft_config *c = r->config;
    data_options o;
    memset(&o, 0, sizeof o);
    o.paths = (const char *const *)paths;
    o.path_count = count;
    o.format = (data_format)c->format;
    o.template_path = c->template_path;
    o.train_on = (data_train_on)c->train_on;
    o.max_tokens = c->seq;
    o.on_bad_row = (data_on_bad_row)c->on_bad_row;
    o.on_long = (data_on_long)c->on_long;
    o.vocabulary = r->m->dims.vocabulary;
    o.cache_folder = cache;
    return o;
}

static qlft_status open_set(run *r, dataset **out, batcher **batches, char **paths, int count, bool training, const char *cache)
{
    const qlft_config *c = r->config;
    data_options o = data_options_of(r, cache, paths, count);
    QLFT_TRY(dataset_open(out, &o, r->tok, progress_tokenize, r, run_stop_flag(r)));
    batch_options b = {c->batch, c->seq, training ? c->accum : 1, training && c->shuffle, c->packing, (uint64_t)c->seed};
    return batcher_open(batches, *out, &b);
}

/* Steps of the whole run: packing may give epochs of different lengths, so each is planned once. */
static qlft_status count_steps(run *r)
{
    const qlft_config *c = r->config;
    r->steps = c->steps;
    for (int64_t epoch = 0; c->steps == 0 && epoch < c->epochs; epoch++) {
        QLFT_TRY(batcher_start(r->batches, epoch));
        r->steps += batcher_steps(r->batches);
    }
    return QLFT_OK;
}

/* Positions that the model was not made for have rotary angles that it has never seen. */
static void warn_positions(const run *r)
{
    int64_t most = r->m->dims.max_positions, longest = dataset_counts(r->data).longest;
    if (most > 0 && longest > most)
        log_warning("the longest sample has %lld tokens, the model was made for %lld: lower --seq, or expect it to do badly beyond", (long long)longest,
                    (long long)most);
}

qlft_status run_open_data(run *r)
{
    bool training = r->work == RUN_TRAIN;
    const qlft_config *c = r->config;
    double started = clock_seconds();
    char *cache = config_cache_folder(c);
    qlft_status status = QLFT_OK;
    if (c->format != FORMAT_TOKENS || training) {
        status = tokenizer_open(&r->tok, r->m->source.folder);
        if (status != QLFT_OK && c->format == FORMAT_TOKENS) {
            log_debug("no tokenizer: %s", qlft_last_error());
            status = QLFT_OK; /* rows of ids need none */
        }
    }
    if (status == QLFT_OK) status = open_set(r, &r->data, &r->batches, c->data, c->data_count, training, cache);
    if (status == QLFT_OK && training && c->eval_data_count)
        status = open_set(r, &r->eval_data, &r->eval_batches, c->eval_data, c->eval_data_count, false, cache);
    if (status == QLFT_OK && training) status = count_steps(r);
    if (status == QLFT_OK) warn_positions(r);
    free(cache);
    r->phases.tokenize = clock_seconds() - started;
    return status;
}

int64_t run_largest_batch(const run *r)
{
    int64_t most = batcher_max_tokens(r->batches);
    if (r->eval_batches && batcher_max_tokens(r->eval_batches) > most) most = batcher_max_tokens(r->eval_batches);
    return most;
}

/* ---- memory ---- */

static void bind_rows(batch *b, arena *a, int64_t tokens)
{
    int32_t **arrays[] = {&b->tokens, &b->targets, &b->positions, &b->first, &b->sample_of};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        *arrays[i] = arena_take(a, TIER_DEVICE, LEDGER_STAGING, "data", "micro-batch", (size_t)tokens * sizeof(int32_t));
    b->samples = arena_take(a, TIER_DEVICE, LEDGER_STAGING, "data", "micro-batch", (size_t)tokens * sizeof(int64_t));
}

void run_bind(run *r, arena *a)
{
    static const char *const master_name[] = {"fp32 master"};
    bool training = r->work == RUN_TRAIN;
    model_options o = {r->config->compute == COMPUTE_F32 ? DTYPE_F32 : DTYPE_BF16,
                       r->config->quant == QUANT_NF4,
                       r->config->double_quant,
                       r->work != RUN_FORWARD,
                       r->choice.keep_blocks,
                       r->choice.tokens,
                       r->choice.loss_rows,
                       (uint64_t)r->config->seed};
    r->dev->scratch = arena_take(a, TIER_DEVICE, LEDGER_SCRATCH, "kernels", "scratch of threads", (size_t)r->dev->threads * DEVICE_SCRATCH_BYTES);
    bind_rows(&r->rows, a, r->choice.tokens);
    if (r->m->adapter && training) {
        ledger_kind kinds[PAGER_ARRAYS] = {LEDGER_ADAPTER, LEDGER_OPTIMIZER, LEDGER_OPTIMIZER};
        const char *names[PAGER_ARRAYS] = {master_name[0], r->optim->state_name[0], r->optim->state_name[1]};
        pager_bind(&r->pages, a, r->dev, r->choice.page_optim, 1 + r->optim->state_count, r->m->parameters, kinds, names);
    } else if (r->m->adapter) {
        const ledger_kind kinds[] = {LEDGER_ADAPTER};
        pager_bind(&r->pages, a, r->dev, false, 1, r->m->parameters, kinds, master_name);
    }
    if (r->choice.cache_tokens) kv_cache_bind(&r->cache, a, r->m, r->choice.cache_tokens, o.compute);
    model_bind(r->m, a, &o); /* last: its scratch shares memory at the end of the tier */
}

qlft_status run_reserve(run *r)
{
    memset(&r->memory, 0, sizeof r->memory);
    r->memory.book = &r->used;
    for (int i = 0; i < TIER_COUNT; i++) {
        void *base = NULL;
        QLFT_TRY(r->dev->table->reserve(r->dev, (tier)i, r->planned.peak[i], &base));
        r->memory.base[i] = base;
        r->memory.size[i] = r->planned.peak[i];
    }
    run_bind(r, &r->memory);
    QLFT_TRY(arena_status(&r->memory));
    for (int i = 0; i < TIER_COUNT; i++)
        if (r->used.peak[i] != r->planned.peak[i])
            return status_fail(QLFT_EFIT, "tier %s: %zu bytes were planned and %zu are used: this is a bug of qlft, please report it",
                               ledger_tier_name((tier)i), r->planned.peak[i], r->used.peak[i]);
    return QLFT_OK;
}

/* ---- loading ---- */

static qlft_status load_adapter(run *r)
{
    float *master = r->pages.home[0];
    if (!r->m->adapter) return QLFT_OK;
    if (!r->continued.count) {
        for (int i = 0; i < r->adapted_count; i++) r->adapted[i]->adapter->init(r->adapted[i], master, (uint64_t)r->config->seed);
    } else {
        for (int i = 0; i < r->continued.count; i++)
            QLFT_TRY(peft_read_module(master, &r->continued, &r->continued.modules[i], model_linear(r->m, r->continued.modules[i].name)));
        peft_adapter *p = &r->continued;
        for (int i = 0; i < p->file.count; i++) safetensors_forget(&p->file, &p->file.entries[i]);
    }
    model_set_weights(r->m, master);
    return QLFT_OK;
}

qlft_status run_load(run *r)
{
    double started = clock_seconds();
    QLFT_TRY(model_load(r->m, progress_load, r, run_stop_flag(r)));
    QLFT_TRY(load_adapter(r));
    r->phases.load = clock_seconds() - started;
    r->phases.quantize = r->m->quantize_seconds;
    return QLFT_OK;
}

model_batch run_model_batch(const batch *b, uint64_t micro_step)
{
    return (model_batch){b->tokens, b->targets, b->positions, b->first, b->count, micro_step};
}
