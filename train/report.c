#include "train/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"

/* ---- parts ---- */

json_t *report_base(const run *r, bool with_hash)
{
    const model *m = r->m;
    char hash[SHA256_HEX_BYTES] = "";
    int64_t parameters = 0, rows, cols;
    for (int role = 0; role < TENSOR_ROLES; role++) {
        if (role == TENSOR_HEAD && !m->own_head) continue;
        model_matrix_size(m, (tensor_role)role, &rows, &cols);
        parameters += rows * cols * (role < TENSOR_BLOCK_END ? m->dims.layers : 1);
    }
    if (with_hash && source_sha256(hash, &m->source) != QLFT_OK) log_warning("the base's hash is not known: %s", qlft_last_error());
    return json_pack("{s:o, s:s, s:I, s:s}", "path", json_string_or_null(r->config->base), "architecture", m->dims.kind->hf_class, "parameters",
                     (json_int_t)parameters, "sha256", hash);
}

json_t *report_data(const dataset *data)
{
    data_counts c = dataset_counts(data);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "rows", (json_int_t)c.rows, "samples", (json_int_t)c.samples, "skipped",
                     (json_int_t)(c.bad + c.unsupervised - c.idle + c.dropped), "bad", (json_int_t)c.bad, "unsupervised", (json_int_t)c.unsupervised, "dropped",
                     (json_int_t)c.dropped, "truncated", (json_int_t)c.truncated, "split", (json_int_t)c.split, "tokens", (json_int_t)c.tokens,
                     "supervised_tokens", (json_int_t)c.supervised, "longest", (json_int_t)c.longest, "cached", (int)dataset_was_cached(data));
}

static const ledger_row *find_row(const ledger *book, const ledger_row *like)
{
    for (size_t i = 0; i < book->count; i++) {
        const ledger_row *row = &book->rows[i];
        if (row->kind == like->kind && row->where == like->where && strcmp(row->owner, like->owner) == 0 && strcmp(row->name, like->name) == 0) return row;
    }
    return NULL;
}

static json_t *report_ledger(const run *r)
{
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < r->planned.count; i++) {
        const ledger_row *row = &r->planned.rows[i], *used = find_row(&r->used, row);
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "owner", row->owner, "name", row->name, "kind", ledger_kind_name(row->kind),
                                              "tier", ledger_tier_name(row->where), "planned_bytes", (json_int_t)row->bytes, "used_bytes",
                                              (json_int_t)(used ? used->bytes : 0)));
    }
    return rows;
}

/* Peak resident memory of the process, as the system counts it. */
static int64_t process_peak_bytes(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    if (!f) return 0;
    char line[256];
    long long kib = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lld kB", &kib) == 1) break;
    fclose(f);
    return (int64_t)kib * 1024;
}

static json_t *report_memory(const run *r)
{
    int64_t planned = (int64_t)plan_total(&r->planned), used = (int64_t)plan_total(&r->used), process = process_peak_bytes();
    json_t *tiers = json_object();
    for (int i = 0; tiers && i < TIER_COUNT; i++)
        if (r->planned.peak[i] || r->used.peak[i])
            json_object_set_new(tiers, ledger_tier_name((tier)i),
                                json_pack("{s:I, s:I}", "planned_peak_bytes", (json_int_t)r->planned.peak[i], "used_peak_bytes", (json_int_t)r->used.peak[i]));
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "planned_peak_bytes", (json_int_t)planned, "used_peak_bytes", (json_int_t)used, "process_peak_bytes",
                     (json_int_t)process, "unaccounted_bytes", (json_int_t)(process - used), "tiers", tiers);
}

/* Length of the sample that a token is in, in the mean over tokens. */
static double mean_context(const dataset *data)
{
    double tokens = 0.0, squares = 0.0;
    for (int64_t i = 0; i < dataset_size(data); i++) {
        double length = (double)dataset_sample(data, i).length;
        tokens += length;
        squares += length * length;
    }
    return tokens > 0.0 ? squares / tokens : 0.0;
}

/* FLOPs a token of a step with causal attention and a frozen base: 4 N + 4 s H + 6 P + 7 L d T, with blocks recomputed 6 N + 4 s H + 8 P + 9 L d T. N weights
 * of the blocks, H of the head, which sees the supervised share s of the tokens only, P of the adapters; L layers, d width of attention, T its context. A
 * product is 2 FLOPs a weight, forward and for the gradient of its input (the adapters' gradients: 2 more); attention is 2 products forward and 5 backward over
 * half of d T. */
static double flops_per_token(const run *r, const history *h)
{
    const model *m = r->m;
    double blocks = 0.0, tokens = (double)h->tokens;
    int64_t rows, cols;
    for (int role = 0; role < BLOCK_LINEARS; role++) {
        model_matrix_size(m, (tensor_role)role, &rows, &cols);
        blocks += (double)rows * (double)cols * m->dims.layers;
    }
    double head = (double)m->dims.vocabulary * (double)m->dims.width, share = tokens > 0.0 ? (double)h->supervised_tokens / tokens : 0.0;
    double context = mean_context(r->data), width = (double)m->dims.heads * m->dims.head_size;
    bool kept = r->choice.keep_blocks;
    return (kept ? 4.0 : 6.0) * blocks + 4.0 * head * share + (kept ? 6.0 : 8.0) * (double)m->parameters +
           (kept ? 7.0 : 9.0) * m->dims.layers * width * context;
}

static json_t *report_throughput(const run *r, const history *h)
{
    double flops = flops_per_token(r, h), rate = h->seconds > 0.0 ? (double)h->tokens / h->seconds : 0.0;
    return json_pack("{s:f, s:I, s:f, s:f, s:f}", "tokens_per_second", rate, "tokens", (json_int_t)h->tokens, "seconds", h->seconds, "flops_per_token", flops,
                     "flops_per_second", flops * rate);
}

static json_t *report_steps(const history *h)
{
    json_t *steps = json_array();
    for (int64_t i = 0; steps && i < h->step_count; i++) {
        const step_record *s = &h->steps[i];
        json_array_append_new(steps,
                              json_pack("{s:I, s:f, s:f, s:f, s:I, s:I, s:f}", "step", (json_int_t)s->step, "loss", s->loss, "grad_norm", s->grad_norm, "lr",
                                        s->lr, "tokens", (json_int_t)s->tokens, "supervised_tokens", (json_int_t)s->supervised_tokens, "seconds", s->seconds));
    }
    return steps;
}

static json_t *report_evals(const history *h)
{
    json_t *evals = json_array();
    for (int64_t i = 0; evals && i < h->eval_count; i++)
        json_array_append_new(evals, json_pack("{s:I, s:f, s:I}", "step", (json_int_t)h->evals[i].step, "loss", h->evals[i].loss, "tokens",
                                               (json_int_t)h->evals[i].supervised_tokens));
    return evals;
}

static json_t *report_adapter(const run *r)
{
    int served = peft_vllm_rank(r->adapter.rank);
    json_t *adapter = json_pack("{s:s, s:i, s:f, s:f, s:f, s:b, s:i, s:I}", "kind", r->m->adapter->name, "r", r->adapter.rank, "alpha", r->adapter.alpha,
                                "scale", peft_scale(&r->adapter), "dropout", r->adapter.dropout, "rslora", (int)r->adapter.rslora, "modules", r->adapted_count,
                                "parameters", (json_int_t)r->m->parameters);
    if (adapter) json_object_set_new(adapter, "vllm_max_lora_rank", served ? json_integer(served) : json_null());
    return adapter;
}

/* Bits a weight of the base's quantized matrices. */
static double bits_per_weight(const run *r)
{
    int64_t rows, cols;
    double bytes = 0.0, weights = 0.0;
    for (int role = 0; role < BLOCK_LINEARS; role++) {
        model_matrix_size(r->m, (tensor_role)role, &rows, &cols);
        bytes += (double)nf4_total_bytes(rows * cols, r->config->double_quant);
        weights += (double)(rows * cols);
    }
    return r->config->quant == QUANT_NF4 ? 8.0 * bytes / weights : 8.0 * (double)dtype_bytes(r->m->blocks[0].linears[0].dense.type);
}

json_t *report_make(run *r, const history *h, const char *exit_text, const char *adapter_sha256)
{
    json_t *report = json_object(), *result = json_pack("{s:s}", "exit", exit_text);
    if (!report || !result) {
        json_decref(report);
        json_decref(result);
        return NULL;
    }
    json_object_set_new(result, "adapter_sha256", adapter_sha256 ? json_string(adapter_sha256) : json_null());
    json_object_set_new(result, "final_loss", h->step_count ? json_real(h->steps[h->step_count - 1].loss) : json_null());
    json_object_set_new(result, "resumed_at_step", json_integer(h->resumed_at));
    json_t *base = report_base(r, true);
    if (base) json_object_set_new(base, "bits_per_weight", json_real(bits_per_weight(r)));
    const struct {
        const char *key;
        json_t *value;
    } parts[] = {
        {"version", json_string(QLFT_VERSION)},
        {"base", base},
        {"config", config_json(r->config)},
        {"adapter", report_adapter(r)},
        {"device", json_pack("{s:s, s:s, s:s, s:i}", "name", r->dev->name, "kind", r->dev->table->name, "level", cpu_level_name(r->dev->level), "threads",
                             r->dev->threads)},
        {"data", report_data(r->data)},
        {"choices",
         json_pack("{s:s, s:s, s:I, s:I}", "checkpointing", r->choice.keep_blocks ? "none" : "block", "page-optim", r->choice.page_optim ? "on" : "off",
                   "loss-chunk", (json_int_t)r->choice.loss_rows, "micro_batch_tokens", (json_int_t)r->choice.tokens)},
        {"ledger", report_ledger(r)},
        {"memory", report_memory(r)},
        {"throughput", report_throughput(r, h)},
        {"phases", json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "load_s", r->phases.load - r->phases.quantize, "quantize_s", r->phases.quantize, "tokenize_s",
                             r->phases.tokenize, "train_s", r->phases.train, "eval_s", r->phases.eval, "save_s", r->phases.save)},
        {"eval", report_evals(h)},
        {"samples", samples_json(&h->answers)},
        {"warnings", r->warnings ? json_incref(r->warnings) : json_array()},
        {"steps", report_steps(h)},
        {"result", result},
    };
    bool whole = true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (json_object_set_new(report, parts[i].key, parts[i].value) != 0) whole = false;
    if (whole) return report;
    json_decref(report);
    return NULL;
}
