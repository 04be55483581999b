#include "train/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

/* ---- history and metrics.jsonl ---- */

void history_free(history *h)
{
    free(h->steps);
    free(h->evals);
    samples_close(&h->answers);
    memset(h, 0, sizeof *h);
}

static qlft_status history_add(history *h, const step_record *s)
{
    if (h->step_count == h->step_capacity) {
        int64_t capacity = h->step_capacity ? 2 * h->step_capacity : 256;
        step_record *steps = realloc(h->steps, (size_t)capacity * sizeof *steps);
        if (!steps) return status_fail(QLFT_ENOMEM, "out of memory for the history of steps");
        h->steps = steps;
        h->step_capacity = capacity;
    }
    h->steps[h->step_count++] = *s;
    h->tokens += s->tokens;
    h->supervised_tokens += s->supervised_tokens;
    h->seconds += s->seconds;
    return QLFT_OK;
}

static qlft_status history_add_eval(history *h, const eval_record *e)
{
    if (h->eval_count == h->eval_capacity) {
        int64_t capacity = h->eval_capacity ? 2 * h->eval_capacity : 16;
        eval_record *evals = realloc(h->evals, (size_t)capacity * sizeof *evals);
        if (!evals) return status_fail(QLFT_ENOMEM, "out of memory for the history of evaluations");
        h->evals = evals;
        h->eval_capacity = capacity;
    }
    h->evals[h->eval_count++] = *e;
    return QLFT_OK;
}

/* {"evals": [[step, loss, supervised tokens], ...], "before": [...]}; yours; NULL without memory. */
static char *evals_text(const history *h)
{
    json_t *list = json_array();
    bool whole = list != NULL;
    for (int64_t i = 0; whole && i < h->eval_count; i++) {
        const eval_record *e = &h->evals[i];
        whole = json_array_append_new(list, json_pack("[I, f, I]", (json_int_t)e->step, e->loss, (json_int_t)e->supervised_tokens)) == 0;
    }
    json_t *kept = whole ? json_pack("{s:O, s:o}", "evals", list, "before", samples_before_json(&h->answers)) : NULL;
    char *text = kept ? json_dumps(kept, JSON_COMPACT) : NULL;
    json_decref(list);
    json_decref(kept);
    return text;
}

qlft_status history_evals_from(history *h, const char *text)
{
    json_t *kept = NULL;
    QLFT_TRY(json_parse(&kept, text, strlen(text), "the checkpoint's evaluations"));
    const json_t *list = json_object_get(kept, "evals");
    qlft_status status = samples_before_from(&h->answers, json_object_get(kept, "before"));
    for (size_t i = 0; status == QLFT_OK && i < json_array_size(list); i++) {
        eval_record e;
        json_int_t step, supervised;
        if (json_unpack(json_array_get(list, i), "[I, F, I]", &step, &e.loss, &supervised) != 0) {
            status = status_fail(QLFT_EFORMAT, "the checkpoint's evaluations are damaged");
            break;
        }
        e.step = step;
        e.supervised_tokens = supervised;
        status = history_add_eval(h, &e);
    }
    json_decref(kept);
    return status;
}

static json_t *step_json(const step_record *s)
{
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:f}", "step", (json_int_t)s->step, "epoch", (json_int_t)s->epoch, "loss", s->loss, "grad_norm",
                     s->grad_norm, "lr", s->lr, "tokens", (json_int_t)s->tokens, "supervised_tokens", (json_int_t)s->supervised_tokens, "seconds", s->seconds);
}

static bool step_from_json(step_record *s, const json_t *line)
{
    json_int_t step, epoch, tokens, supervised;
    if (json_unpack((json_t *)(uintptr_t)line, "{s:I, s:I, s:F, s:F, s:F, s:I, s:I, s:F}", "step", &step, "epoch", &epoch, "loss", &s->loss, "grad_norm",
                    &s->grad_norm, "lr", &s->lr, "tokens", &tokens, "supervised_tokens", &supervised, "seconds", &s->seconds) != 0)
        return false;
    s->step = step;
    s->epoch = epoch;
    s->tokens = tokens;
    s->supervised_tokens = supervised;
    return true;
}

/* Lines of an earlier process up to `step`; a torn last line is dropped. */
static qlft_status read_metrics(history *h, const char *path, int64_t step)
{
    char *text = NULL;
    size_t bytes = 0;
    if (!file_exists(path)) return QLFT_OK;
    QLFT_TRY(file_read_text(&text, &bytes, path, (size_t)1 << 32));
    qlft_status status = QLFT_OK;
    for (char *line = text, *end; status == QLFT_OK && (end = strchr(line, '\n')) != NULL; line = end + 1) {
        json_t *value = json_loadb(line, (size_t)(end - line), 0, NULL);
        step_record s;
        /* A run that went on in another folder begins with a later step than 1. */
        bool next = value && step_from_json(&s, value) && s.step <= step && (!h->step_count || s.step == h->steps[h->step_count - 1].step + 1);
        if (next) status = history_add(h, &s);
        json_decref(value);
    }
    free(text);
    return status;
}

/* A line of metrics.jsonl, without its end; yours; NULL without memory. */
static char *step_text(const step_record *s)
{
    json_t *value = step_json(s);
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    return text;
}

static qlft_status write_metrics(const history *h, const char *path)
{
    file_writer w;
    QLFT_TRY(file_writer_open(&w, path));
    for (int64_t i = 0; i < h->step_count; i++) {
        char *text = step_text(&h->steps[i]);
        if (!text) {
            file_writer_abandon(&w);
            return status_fail(QLFT_ENOMEM, "out of memory for %s", path);
        }
        file_writer_print(&w, "%s\n", text);
        free(text);
    }
    return file_writer_commit(&w);
}

qlft_status history_begin(history *h, const char *out, int64_t step)
{
    char *path = path_join(out, "metrics.jsonl");
    if (!path) return status_fail(QLFT_ENOMEM, "out of memory");
    qlft_status status = step ? read_metrics(h, path, step) : QLFT_OK;
    if (status == QLFT_OK) status = write_metrics(h, path);
    free(path);
    h->resumed_at = step;
    return status;
}

static qlft_status append_metrics(const char *out, const step_record *s)
{
    char *path = path_join(out, "metrics.jsonl"), *text = step_text(s);
    if (!path || !text) {
        free(path);
        free(text);
        return status_fail(QLFT_ENOMEM, "out of memory for a line of metrics.jsonl");
    }
    FILE *f = fopen(path, "a");
    bool written = f && fprintf(f, "%s\n", text) >= 0;
    int error = errno;
    if (f && fclose(f) != 0 && written) {
        written = false;
        error = errno;
    }
    qlft_status status = written ? QLFT_OK
                                 : status_fail(QLFT_EIO, "%s: the line of step %lld cannot be written: %s; --resume auto goes on from the last checkpoint",
                                               path, (long long)s->step, strerror(error));
    free(text);
    free(path);
    return status;
}

/* ---- evaluation ---- */

qlft_status trainer_eval(run *r, batcher *batches, double *loss, int64_t *supervised, int64_t *tokens)
{
    double sum = 0.0, started = clock_seconds();
    int64_t counted = 0, all = 0;
    QLFT_TRY(batcher_start(batches, 0));
    int64_t count = batcher_micro_batches(batches);
    for (int64_t i = 0; i < count; i++) {
        if (run_stopped(r)) return status_fail(QLFT_ESIGNAL, "stopped while evaluating");
        QLFT_TRY(batcher_get(batches, i, &r->rows));
        model_batch b = run_model_batch(&r->rows, 0);
        QLFT_TRY(model_forward(r->m, &b, false, NULL, 0));
        sum += model_loss(r->m, &b, false);
        counted += r->rows.counted;
        all += r->rows.count;
        run_progress(r, "eval", i + 1, count, "micro-batches");
    }
    r->phases.eval += clock_seconds() - started;
    *supervised = counted;
    if (tokens) *tokens = all;
    if (!counted) return status_fail(QLFT_EFORMAT, "the evaluation rows have no supervised token, so they have no loss; see `qlft tokens` on them");
    *loss = sum / (double)counted;
    return isfinite(*loss) ? QLFT_OK : status_fail(QLFT_ENUMERIC, "the loss on the evaluation rows is not finite");
}

/* Evaluates if this step is to be and was not yet: a run that was stopped after its checkpoint, but before its evaluation, makes up for it. */
static qlft_status eval_now(run *r, history *h, int64_t step)
{
    double started = clock_seconds();
    if (step == 0 || step == r->steps) QLFT_TRY(samples_answer(&h->answers, r, step > 0));
    r->phases.eval += clock_seconds() - started;
    eval_record e = {step, 0, 0.0};
    bool due = step == 0 || step == r->steps || (r->config->eval_every && step % r->config->eval_every == 0);
    bool done = h->eval_count && h->evals[h->eval_count - 1].step >= step;
    if (!r->eval_batches || !due || done) return QLFT_OK;
    QLFT_TRY(trainer_eval(r, r->eval_batches, &e.loss, &e.supervised_tokens, NULL));
    if (r->observer && r->observer->eval) r->observer->eval(r->observer->payload, step, e.loss, e.supervised_tokens);
    return history_add_eval(h, &e);
}

/* ---- one step ---- */

/* "train.jsonl lines 3, 17, 20": the samples of the micro-batch in hand whose loss is not finite (all of them if none stands out). */
static void name_samples(const run *r, char *out, size_t bytes)
{
    const batch *b = &r->rows;
    size_t used = 0;
    int named = 0;
    for (int round = 0; round < 2 && !named; round++)
        for (int64_t s = 0; s < b->sample_count && named < 8; s++) {
            bool bad = round == 1;
            for (int64_t i = 0; i < b->count && !bad; i++) bad = b->sample_of[i] == s && !isfinite(r->m->token_losses[i]);
            if (!bad) continue;
            sample it = dataset_sample(r->data, b->samples[s]);
            int n = snprintf(out + used, bytes - used, "%s%s line %lld", named ? ", " : "", r->config->data[it.file], (long long)it.line);
            if (n < 0 || (size_t)n >= bytes - used) return;
            used += (size_t)n;
            named++;
        }
}

/* `which`: what the samples are of ("": the loss is theirs alone). */
static qlft_status stop_not_finite(const run *r, const cursor *at, const char *what, const char *which)
{
    char rows[1024] = "", *last = NULL;
    name_samples(r, rows, sizeof rows);
    if (checkpoint_find(&last, r->config->out) != QLFT_OK) last = NULL;
    qlft_status status =
        status_fail(QLFT_ENUMERIC,
                    "step %lld: the %s is not finite; rows%s: %s. No adapter is written; %s%s. A lower --lr, --compute f32, or leaving these rows out may help",
                    (long long)at->step + 1, what, which, rows, last ? "the last good checkpoint is " : "there is no checkpoint yet", last ? last : "");
    free(last);
    return status;
}

typedef struct window {
    double loss;
    int64_t tokens, counted;
    bool context;
} window;

static qlft_status accumulate(run *r, cursor *at, window *w)
{
    QLFT_TRY(batcher_get(r->batches, at->micro_batch, &r->rows));
    model_batch b = run_model_batch(&r->rows, (uint64_t)at->micro_step);
    QLFT_TRY(model_forward(r->m, &b, true, NULL, 0));
    double loss = model_loss(r->m, &b, true);
    if (!isfinite(loss)) return stop_not_finite(r, at, "loss", "");
    model_backward(r->m, &b);
    w->loss += loss;
    w->tokens += r->rows.count;
    w->counted += r->rows.counted;
    for (int64_t i = 0; i < b.count && !w->context; i++) w->context = b.targets[i] >= 0 && b.positions[i] > 0;
    at->micro_batch++;
    at->micro_step++;
    return QLFT_OK;
}

static bool all_zero(tensor t)
{
    for (int64_t i = 0; i < t.rows * t.cols; i++)
        if (((const float *)t.data)[i] != 0.0f) return false;
    return true;
}

/* Every target is trained: B has a gradient in the first step that has targets, A as soon as B is not zero. A target predicted from a single token gives q and
 * k none (a softmax over one key is constant), so a step of such rows proves nothing. */
static qlft_status check_gradients(const run *r, cursor *at, const window *w)
{
    if (!w->counted || !w->context || (at->checked_a && at->checked_b)) return QLFT_OK;
    bool learning = true;
    for (int i = 0; i < r->adapted_count; i++) {
        const linear *l = r->adapted[i];
        if (!at->checked_b && all_zero(l->db))
            return status_fail(QLFT_ENUMERIC, "step %lld: lora_B of %s has no gradient; it is not being trained, so the run stops", (long long)at->step + 1,
                               l->name);
        tensor b = tensor_of(r->pages.home[0] + l->offset + l->rank * l->in, l->out, l->rank, DTYPE_F32);
        if (all_zero(b)) learning = false;
        if (learning && all_zero(l->da))
            return status_fail(QLFT_ENUMERIC, "step %lld: lora_A of %s has no gradient; it is not being trained, so the run stops", (long long)at->step + 1,
                               l->name);
    }
    at->checked_b = true;
    at->checked_a = learning;
    return QLFT_OK;
}

/* One optimizer step, page by page: fetch, step, new compute weights, store. */
static void step_pages(run *r, const optim_hyper *hyper)
{
    size_t element = dtype_bytes(r->m->options.compute);
    for (int64_t page = 0; page < pager_pages(&r->pages); page++) {
        float *at[PAGER_ARRAYS] = {NULL};
        int64_t first, count;
        pager_fetch(&r->pages, page, at, &first, &count);
        void *state[2] = {at[1], at[2]};
        r->optim->step(r->dev, at[0], r->m->gradients + first, state, count, hyper);
        tensor weights = tensor_of((char *)r->m->weights + (size_t)first * element, 1, count, r->m->options.compute);
        r->m->ops->cast(r->dev, weights, tensor_of(at[0], 1, count, DTYPE_F32));
        pager_store(&r->pages, page);
    }
}

static double rate_of(const run *r, int64_t step)
{
    const qlft_config *c = r->config;
    schedule_shape s = {config_schedule(c), r->steps, config_steps_of(c->warmup, r->steps), config_steps_of(c->decay, r->steps), c->min_lr};
    return c->lr * schedule_factor(&s, step);
}

static qlft_status update(run *r, cursor *at, const window *w, step_record *record)
{
    const qlft_config *c = r->config;
    QLFT_TRY(check_gradients(r, at, w));
    record->lr = rate_of(r, at->step + 1);
    if (!w->counted) { /* nothing to learn in this window: weights and states stay */
        log_warning("step %lld has no supervised token: nothing is updated", (long long)at->step + 1);
        return QLFT_OK;
    }
    double norm = sqrt(r->m->ops->sum_squares(r->dev, tensor_of(r->m->gradients, 1, r->m->parameters, DTYPE_F32))) / (double)w->counted;
    if (!isfinite(norm)) return stop_not_finite(r, at, "gradient", r->config->accum > 1 ? " of the last micro-batch" : "");
    optim_hyper h = {(float)record->lr, (float)c->beta1,        (float)c->beta2,
                     (float)c->eps,     (float)c->weight_decay, (float)(clip_factor(norm, c->clip) / (double)w->counted),
                     at->step + 1};
    step_pages(r, &h);
    record->grad_norm = norm;
    record->loss = w->loss / (double)w->counted;
    return QLFT_OK;
}

/* Moves to the next epoch when this one is used up. */
static qlft_status next_epoch(run *r, cursor *at)
{
    if (at->micro_batch < batcher_micro_batches(r->batches)) return QLFT_OK;
    at->epoch++;
    at->micro_batch = 0;
    return batcher_start(r->batches, at->epoch);
}

static qlft_status train_step(run *r, cursor *at, step_record *record)
{
    double started = clock_seconds();
    window w = {0.0, 0, 0, false};
    QLFT_TRY(next_epoch(r, at));
    memset(r->m->gradients, 0, (size_t)r->m->parameters * sizeof(float));
    *record = (step_record){.step = at->step + 1, .epoch = at->epoch};
    int64_t left = batcher_micro_batches(r->batches) - at->micro_batch, count = left < r->config->accum ? left : r->config->accum;
    for (int64_t i = 0; i < count; i++) {
        QLFT_TRY(accumulate(r, at, &w));
        if (count > 1) run_progress(r, "micro-batch", i + 1, count, "micro-batches");
    }
    QLFT_TRY(update(r, at, &w, record));
    at->step++;
    record->tokens = w.tokens;
    record->supervised_tokens = w.counted;
    record->seconds = clock_seconds() - started;
    return QLFT_OK;
}

/* ---- the loop ---- */

static void tell_step(const run *r, const step_record *s)
{
    const qlft_metrics m = {s->step, r->steps, s->tokens, s->supervised_tokens, s->loss, s->grad_norm, s->lr, s->seconds};
    if (r->observer && r->observer->step) r->observer->step(r->observer->payload, &m);
    run_progress(r, "train", s->step, r->steps, "steps");
}

static qlft_status save_now(run *r, const cursor *at, const history *h)
{
    double started = clock_seconds();
    char *evals = evals_text(h);
    qlft_status status = evals ? checkpoint_save(r, at, evals) : status_fail(QLFT_ENOMEM, "out of memory");
    free(evals);
    r->phases.save += clock_seconds() - started;
    return status;
}

static void warn_first_loss(const run *r, const step_record *s)
{
    double chance = log((double)r->m->dims.vocabulary);
    if (s->step == 1 && s->loss > 1.2 * chance)
        log_warning("the first loss is %.3f, above %.3f of guessing among %lld tokens: base, tokenizer and template may not belong together (see qlft tokens)",
                    s->loss, chance, (long long)r->m->dims.vocabulary);
}

qlft_status trainer_run(run *r, cursor *at, history *h)
{
    const qlft_config *c = r->config;
    double started = clock_seconds();
    qlft_status status = batcher_start(r->batches, at->epoch);
    if (status == QLFT_OK) status = eval_now(r, h, at->step);
    while (status == QLFT_OK && at->step < r->steps) {
        step_record s;
        if (run_stopped(r)) {
            status = QLFT_ESIGNAL;
            break;
        }
        QLFT_TRY(train_step(r, at, &s));
        warn_first_loss(r, &s);
        QLFT_TRY(history_add(h, &s));
        QLFT_TRY(append_metrics(c->out, &s));
        tell_step(r, &s);
        if (at->step == r->steps || (c->save_every && at->step % c->save_every == 0)) QLFT_TRY(save_now(r, at, h));
        status = eval_now(r, h, at->step);
    }
    r->phases.train = clock_seconds() - started - r->phases.eval - r->phases.save;
    if (status != QLFT_ESIGNAL) return status;
    QLFT_TRY(save_now(r, at, h));
    return status_fail(QLFT_ESIGNAL, "interrupted at step %lld of %lld; go on with --resume auto", (long long)at->step, (long long)r->steps);
}
