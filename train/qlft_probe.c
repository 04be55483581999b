/* qlft probe: one forward and backward pass, everything written out, to be set beside another implementation. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/run.h"

/* The batch file, [B, T] each. */
typedef struct probe_batch {
    int64_t rows, length;
    int64_t *ids, *labels, *mask, *positions; /* mask and positions may be NULL */
    int64_t *place;                           /* [B * T]: index in the flat run, -1 for masked tokens */
} probe_batch;

static void probe_batch_free(probe_batch *p)
{
    free(p->ids);
    free(p->labels);
    free(p->mask);
    free(p->positions);
    free(p->place);
}

static qlft_status read_grid(int64_t **out, const safetensors *file, const char *name, const char *path, probe_batch *p, bool optional)
{
    const safetensors_entry *e = safetensors_find(file, name);
    *out = NULL;
    if (!e) return optional ? QLFT_OK : status_fail(QLFT_EFORMAT, "%s: tensor %s is missing; a probe batch holds input_ids and labels, [B, T]", path, name);
    if (e->rank != 2 || e->count == 0) return status_fail(QLFT_EFORMAT, "%s: tensor %s has %d dimensions or no elements, expected [B, T]", path, name, e->rank);
    if (!p->rows) {
        p->rows = e->shape[0];
        p->length = e->shape[1];
    }
    if (e->shape[0] != p->rows || e->shape[1] != p->length)
        return status_fail(QLFT_EFORMAT, "%s: tensor %s is [%lld, %lld], input_ids is [%lld, %lld]", path, name, (long long)e->shape[0], (long long)e->shape[1],
                           (long long)p->rows, (long long)p->length);
    *out = malloc((size_t)e->count * sizeof **out);
    if (!*out) return status_fail(QLFT_ENOMEM, "out of memory for %s", name);
    qlft_status status = safetensors_to_i64(*out, e, 0, e->count);
    return status == QLFT_OK ? status : status_prefix(status, "%s: ", path);
}

static qlft_status probe_batch_read(probe_batch *p, const char *path)
{
    safetensors file;
    QLFT_TRY(safetensors_open(&file, path));
    qlft_status status = read_grid(&p->ids, &file, "input_ids", path, p, false);
    if (status == QLFT_OK) status = read_grid(&p->labels, &file, "labels", path, p, false);
    if (status == QLFT_OK) status = read_grid(&p->mask, &file, "attention_mask", path, p, true);
    if (status == QLFT_OK) status = read_grid(&p->positions, &file, "position_ids", path, p, true);
    safetensors_close(&file);
    if (status == QLFT_OK && p->rows * p->length > INT32_MAX / 4)
        status = status_fail(QLFT_EFORMAT, "%s: a batch of %lld tokens is too large to probe", path, (long long)(p->rows * p->length));
    if (status == QLFT_OK && !(p->place = malloc((size_t)(p->rows * p->length) * sizeof *p->place))) status = status_fail(QLFT_ENOMEM, "out of memory");
    return status;
}

/* Numbers the tokens that are not masked; *out is how many there are. */
static qlft_status probe_place(int64_t *out, probe_batch *p, const char *path)
{
    int64_t used = 0;
    for (int64_t i = 0; i < p->rows * p->length; i++) p->place[i] = p->mask && !p->mask[i] ? -1 : used++;
    *out = used;
    return used ? QLFT_OK : status_fail(QLFT_EFORMAT, "%s: attention_mask hides every token", path);
}

static qlft_status probe_fill(batch *b, const probe_batch *p, int64_t vocabulary, const char *path)
{
    b->count = b->counted = 0;
    for (int64_t row = 0; row < p->rows; row++) {
        int64_t start = b->count;
        for (int64_t t = 0; t < p->length; t++) {
            int64_t i = row * p->length + t, id = p->ids[i], label = t + 1 < p->length ? p->labels[i + 1] : -100, at = p->place[i];
            if (label != -100 && (at < 0 || p->place[i + 1] < 0))
                return status_fail(QLFT_EFORMAT, "%s: labels[%lld, %lld] is counted, but attention_mask hides that token or the one before it", path,
                                   (long long)row, (long long)t + 1);
            if (at < 0) continue;
            if (id < 0 || id >= vocabulary)
                return status_fail(QLFT_EFORMAT, "%s: input_ids[%lld, %lld] = %lld is outside the vocabulary of %lld", path, (long long)row, (long long)t,
                                   (long long)id, (long long)vocabulary);
            if (label != -100 && (label < 0 || label >= vocabulary))
                return status_fail(QLFT_EFORMAT, "%s: labels[%lld, %lld] = %lld is outside the vocabulary of %lld; -100 is not counted", path, (long long)row,
                                   (long long)t + 1, (long long)label, (long long)vocabulary);
            int64_t position = p->positions ? p->positions[i] : t;
            if (position < 0 || position > INT32_MAX)
                return status_fail(QLFT_EFORMAT, "%s: position_ids[%lld, %lld] is %lld", path, (long long)row, (long long)t, (long long)position);
            b->tokens[at] = (int32_t)id;
            b->targets[at] = label == -100 ? -1 : (int32_t)label;
            b->positions[at] = (int32_t)position;
            b->first[at] = (int32_t)start;
            b->counted += label != -100;
            b->count++;
        }
    }
    return QLFT_OK;
}

/* ---- output ---- */

typedef struct probe_output {
    safetensors_out *tensors;
    char (*names)[224];
    int count;
    float *logits;
    float loss, norm;
} probe_output;

static void probe_add(probe_output *o, const char *name, int rank, const int64_t *extent, const float *data)
{
    safetensors_out *t = &o->tensors[o->count];
    snprintf(o->names[o->count], sizeof o->names[0], "%s", name);
    t->name = o->names[o->count++];
    t->type = ST_F32;
    t->rank = rank;
    for (int i = 0; i < rank; i++) t->shape[i] = extent[i];
    t->data = data;
}

static void probe_add_gradients(probe_output *o, const run *r)
{
    char name[224];
    for (int i = 0; i < r->adapted_count; i++) {
        const linear *l = r->adapted[i];
        const int64_t a[2] = {l->rank, l->in}, b[2] = {l->out, l->rank};
        snprintf(name, sizeof name, "grad.base_model.model.%s.lora_A.weight", l->name);
        probe_add(o, name, 2, a, l->da.data);
        snprintf(name, sizeof name, "grad.base_model.model.%s.lora_B.weight", l->name);
        probe_add(o, name, 2, b, l->db.data);
    }
}

static void probe_logits(run *r, const probe_batch *p, float *out)
{
    int64_t vocabulary = r->m->dims.vocabulary;
    memset(out, 0, (size_t)(p->rows * p->length * vocabulary) * sizeof *out);
    for (int64_t i = 0; i < p->rows * p->length; i++)
        if (p->place[i] >= 0) model_logits(r->m, p->place[i], 1, out + i * vocabulary);
}

/* The gradient of the mean: sums divided once by the number of counted tokens. */
static double probe_gradients(run *r, int64_t counted)
{
    for (int64_t i = 0; i < r->m->parameters; i++) r->m->gradients[i] /= (float)counted;
    return sqrt(r->m->ops->sum_squares(r->dev, tensor_of(r->m->gradients, 1, r->m->parameters, DTYPE_F32)));
}

static qlft_status probe_pass(run *r, const probe_batch *p, probe_output *o)
{
    const int64_t logits_shape[3] = {p->rows, p->length, r->m->dims.vocabulary}, one[1] = {1};
    batch *b = &r->rows;
    QLFT_TRY(probe_fill(b, p, r->m->dims.vocabulary, r->config->batch_path));
    model_batch mb = run_model_batch(b, 0);
    QLFT_TRY(model_forward(r->m, &mb, false, NULL, 0));
    probe_logits(r, p, o->logits);
    double sum = model_loss(r->m, &mb, r->m->adapter != NULL);
    o->loss = b->counted ? (float)(sum / (double)b->counted) : 0.0f;
    probe_add(o, "logits", 3, logits_shape, o->logits);
    probe_add(o, "loss", 1, one, &o->loss);
    if (!r->m->adapter) return QLFT_OK;
    model_backward(r->m, &mb);
    if (b->counted) o->norm = (float)probe_gradients(r, b->counted);
    probe_add_gradients(o, r);
    probe_add(o, "grad_norm", 1, one, &o->norm);
    return QLFT_OK;
}

static qlft_status probe_output_alloc(probe_output *o, const run *r, const probe_batch *p)
{
    size_t count = 0, bytes = 0;
    if (__builtin_mul_overflow((size_t)(p->rows * p->length), (size_t)r->m->dims.vocabulary, &count) || __builtin_mul_overflow(count, sizeof(float), &bytes) ||
        !(o->logits = malloc(bytes)))
        return status_fail(QLFT_ENOMEM, "out of memory for logits of %lld tokens", (long long)(p->rows * p->length));
    o->tensors = calloc(2 * (size_t)r->adapted_count + 3, sizeof *o->tensors);
    o->names = calloc(2 * (size_t)r->adapted_count + 3, sizeof *o->names);
    return o->tensors && o->names ? QLFT_OK : status_fail(QLFT_ENOMEM, "out of memory");
}

static char *probe_summary(const run *r, const probe_output *o, const char *path)
{
    json_t *summary =
        json_pack("{s:o, s:o, s:I, s:I, s:i, s:f}", "out", json_string_or_null(path), "loss", json_real_or_null((double)o->loss), "tokens",
                  (json_int_t)r->rows.count, "supervised_tokens", (json_int_t)r->rows.counted, "tensors", o->count, "seconds", clock_seconds() - r->started);
    if (summary && r->m->adapter) json_object_set_new(summary, "grad_norm", json_real_or_null((double)o->norm));
    char *text = summary ? json_dumps(summary, JSON_INDENT(1)) : NULL;
    json_decref(summary);
    return text;
}

qlft_status qlft_probe(char **json_text, const qlft_config *c, const qlft_observer *observer)
{
    run r;
    probe_batch p;
    probe_output o;
    memset(&p, 0, sizeof p);
    memset(&o, 0, sizeof o);
    int64_t used = 0;
    *json_text = NULL;
    qlft_status status = run_start(&r, c, observer);
    if (status == QLFT_OK) status = probe_batch_read(&p, c->batch_path);
    if (status == QLFT_OK) status = run_open_model(&r, RUN_GRADIENT);
    if (status == QLFT_OK) status = probe_place(&used, &p, c->batch_path);
    if (status == QLFT_OK) status = plan_make(&r, used);
    if (status == QLFT_OK) status = run_reserve(&r);
    if (status == QLFT_OK) status = run_load(&r);
    if (status == QLFT_OK) status = probe_output_alloc(&o, &r, &p);
    if (status == QLFT_OK) status = probe_pass(&r, &p, &o);
    if (status == QLFT_OK) status = safetensors_write(c->out, o.tensors, o.count, NULL, NULL);
    if (status == QLFT_OK && !(*json_text = probe_summary(&r, &o, c->out))) status = status_fail(QLFT_ENOMEM, "out of memory");
    probe_batch_free(&p);
    free(o.tensors);
    free(o.names);
    free(o.logits);
    run_close(&r);
    return status;
}
