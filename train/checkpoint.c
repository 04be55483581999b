#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"

/* Options that decide the numbers of a run: a resumed run must have them as they were. */
static const char *const decisive[] = {"quant", "double-quant", "compute", "targets", "shuffle",  "seq",      "packing", "epochs",       "steps",
                                       "batch", "accum",        "lr",      "min-lr",  "schedule", "warmup",   "decay",   "weight-decay", "clip",
                                       "beta1", "beta2",        "eps",     "optim",   "seed",     "train-on", "format",  "on-long"};
enum { DECISIVE = sizeof decisive / sizeof decisive[0] };

/* What a resumed run must share with the one that was started, as JSON; yours; NULL without memory. The adapter's numbers are those in use: a run that
 * continues an adapter has them from there. */
static char *run_sign(const run *r)
{
    const peft_config *a = &r->adapter;
    json_t *config = config_json(r->config);
    json_t *sign = json_pack("{s:s, s:s, s:i, s:f, s:f, s:b}", "base", r->base_fingerprint, "data", dataset_hash(r->data), "r", a->rank, "alpha", a->alpha,
                             "dropout", a->dropout, "rslora", (int)a->rslora);
    bool whole = config && sign;
    for (int i = 0; whole && i < DECISIVE; i++) whole = json_object_set(sign, decisive[i], json_object_get(config, decisive[i])) == 0;
    char *text = whole ? json_dumps(sign, JSON_COMPACT) : NULL;
    json_decref(config);
    json_decref(sign);
    return text;
}

static qlft_status sign_differs(const char *path, const char *key, const json_t *was, const json_t *is)
{
    if (strcmp(key, "base") == 0) return status_fail(QLFT_EARG, "--resume %s: --base holds other weights than the base that the run was started with", path);
    if (strcmp(key, "data") == 0)
        return status_fail(QLFT_EARG, "--resume %s: --data, its template or the tokenizer is not what the run was started with", path);
    char *before = json_dumps(was ? was : json_null(), JSON_ENCODE_ANY), *now = json_dumps(is, JSON_ENCODE_ANY);
    qlft_status status = status_fail(
        QLFT_EARG, "--resume %s: --%s was %s when the run was started and is %s now; a resumed run must go on as it was (or start anew without --resume)", path,
        key, before ? before : "?", now ? now : "?");
    free(before);
    free(now);
    return status;
}

static qlft_status check_sign(const run *r, const char *stored, const char *path)
{
    char *own_text = run_sign(r);
    json_t *own = NULL, *other = NULL, *value = NULL;
    const char *key = NULL;
    qlft_status status = own_text ? json_parse(&own, own_text, strlen(own_text), "this run") : status_fail(QLFT_ENOMEM, "out of memory");
    if (status == QLFT_OK) status = json_parse(&other, stored, strlen(stored), path);
    if (status == QLFT_OK) {
        json_object_foreach(own, key, value)
        {
            json_t *was = json_object_get(other, key);
            if (was && json_equal(was, value)) continue;
            status = sign_differs(path, key, was, value);
            break;
        }
    }
    json_decref(own);
    json_decref(other);
    free(own_text);
    return status;
}

/* ---- saving ---- */

static qlft_status write_state(const run *r, const cursor *at, const char *evals, const char *folder)
{
    char numbers[5][32], *sign = run_sign(r), *path = path_join(folder, "state.safetensors");
    const long long values[5] = {(long long)at->step, (long long)at->epoch, (long long)at->micro_batch, (long long)at->micro_step,
                                 (long long)(at->checked_a + 2 * at->checked_b)};
    if (!sign || !path) {
        free(sign);
        free(path);
        return status_fail(QLFT_ENOMEM, "out of memory");
    }
    for (int i = 0; i < 5; i++) snprintf(numbers[i], sizeof numbers[i], "%lld", values[i]);
    const char *metadata[] = {"step",    numbers[0], "epoch", numbers[1], "micro_batch", numbers[2], "micro_step", numbers[3],
                              "checked", numbers[4], "run",   sign,       "evals",       evals,      NULL};
    safetensors_out tensors[PAGER_ARRAYS];
    for (int i = 0; i < r->optim->state_count; i++)
        tensors[i] = (safetensors_out){r->optim->state_name[i], ST_F32, 1, {r->m->parameters}, r->pages.home[1 + i]};
    qlft_status status = safetensors_write(path, tensors, r->optim->state_count, metadata, NULL);
    free(sign);
    free(path);
    return status;
}

static char *checkpoints_folder(const char *out)
{
    return path_join(out, "checkpoints");
}

/* Step of a folder's name "step-N", -1 if it is something else. */
static int64_t step_of_name(const char *name)
{
    if (strncmp(name, "step-", 5) != 0 || !name[5]) return -1;
    char *end = NULL;
    errno = 0;
    long long step = strtoll(name + 5, &end, 10);
    return errno || *end || step < 0 ? -1 : (int64_t)step;
}

/* Largest step below `below` among the checkpoints, and how many there are in all. */
static int64_t newest_step(const char *folder, int64_t below, int *count)
{
    DIR *d = opendir(folder);
    int64_t newest = -1;
    *count = 0;
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        int64_t step = step_of_name(e->d_name);
        if (step < 0) continue;
        (*count)++;
        if (step < below && step > newest) newest = step;
    }
    closedir(d);
    return newest;
}

static char *step_folder(const char *folder, int64_t step, const char *suffix)
{
    char name[64];
    snprintf(name, sizeof name, "step-%lld%s", (long long)step, suffix);
    return path_join(folder, name);
}

/* The name of a folder that is being written or removed: never taken for a checkpoint, and swept away when its process is gone. */
static char *unfinished_folder(const char *folder, int64_t step)
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, ".tmp-%ld", (long)getpid());
    return step_folder(folder, step, suffix);
}

/* Loses its name first: a checkpoint that is there is whole, also if the process dies while it is removed. */
static qlft_status discard(const char *folder, int64_t step)
{
    char *path = step_folder(folder, step, ""), *aside = unfinished_folder(folder, step);
    qlft_status status = path && aside ? folder_remove(aside) : status_fail(QLFT_ENOMEM, "out of memory");
    if (status == QLFT_OK && rename(path, aside) != 0) status = status_fail(QLFT_EIO, "%s cannot be removed: %s", path, strerror(errno));
    if (status == QLFT_OK) status = folder_remove(aside);
    free(path);
    free(aside);
    return status;
}

/* Keeps the newest ones up to `step`. Later ones are of a run that was given up: one that started anew in this folder, or went on from an earlier checkpoint.
 */
static qlft_status prune(const char *folder, int64_t step, int64_t keep)
{
    int count = 0;
    int64_t kept = 0;
    for (int64_t at = newest_step(folder, INT64_MAX, &count); at >= 0; at = newest_step(folder, at, &count)) {
        if (at <= step && kept++ < keep) continue;
        QLFT_TRY(discard(folder, at));
    }
    return QLFT_OK;
}

qlft_status checkpoint_save(const run *r, const cursor *at, const char *evals)
{
    char *folder = checkpoints_folder(r->config->out);
    char *making = folder ? unfinished_folder(folder, at->step) : NULL, *final = folder ? step_folder(folder, at->step, "") : NULL;
    qlft_status status = making && final ? QLFT_OK : status_fail(QLFT_ENOMEM, "out of memory");
    if (status == QLFT_OK) status = folder_remove(making);
    if (status == QLFT_OK) status = folder_make(making);
    if (status == QLFT_OK)
        status = peft_write(making, r->adapted, r->adapted_count, r->m->dims.layers, r->pages.home[0], &r->adapter, r->config->base, true, NULL);
    if (status == QLFT_OK) status = write_state(r, at, evals, making);
    if (status == QLFT_OK) status = folder_publish(making, final);
    if (status != QLFT_OK && making) {
        status_prefix(status, "checkpoint of step %lld (earlier ones are kept): ", (long long)at->step);
        char *why = strdup(qlft_last_error()); /* removing what is half written must not hide why */
        if (folder_remove(making) != QLFT_OK) log_warning("%s", qlft_last_error());
        status = status_fail(status, "%s", why ? why : "");
        free(why);
    } else if (status == QLFT_OK) {
        status = prune(folder, at->step, r->config->keep);
    }
    free(folder);
    free(making);
    free(final);
    return status;
}

/* ---- loading ---- */

qlft_status checkpoint_sweep(const char *out)
{
    char *folder = checkpoints_folder(out);
    qlft_status status = folder ? folder_sweep(out) : status_fail(QLFT_ENOMEM, "out of memory");
    if (status == QLFT_OK) status = folder_sweep(folder);
    free(folder);
    return status;
}

qlft_status checkpoint_find(char **path, const char *out)
{
    int count = 0;
    char *folder = checkpoints_folder(out);
    int64_t step = folder ? newest_step(folder, INT64_MAX, &count) : -1;
    *path = folder && step >= 0 ? step_folder(folder, step, "") : NULL;
    bool failed = !folder || (step >= 0 && !*path);
    free(folder);
    return failed ? status_fail(QLFT_ENOMEM, "out of memory") : QLFT_OK;
}

static qlft_status metadata_number(int64_t *out, const safetensors *file, const char *key)
{
    const char *text = safetensors_metadata(file, key);
    char *end = NULL;
    errno = 0;
    *out = text ? strtoll(text, &end, 10) : -1;
    if (text && !errno && *end == 0 && end != text && *out >= 0) return QLFT_OK;
    return status_fail(QLFT_EFORMAT, "%s: metadata %s is missing or no number; this is no checkpoint of qlft", file->files[0].path, key);
}

static qlft_status read_state(run *r, cursor *at, char **evals, const safetensors *file)
{
    int64_t checked = 0;
    const char *sign = safetensors_metadata(file, "run");
    if (!sign) return status_fail(QLFT_EFORMAT, "%s: metadata run is missing; this is no checkpoint of qlft", file->files[0].path);
    QLFT_TRY(check_sign(r, sign, file->files[0].path));
    QLFT_TRY(metadata_number(&at->step, file, "step"));
    QLFT_TRY(metadata_number(&at->epoch, file, "epoch"));
    QLFT_TRY(metadata_number(&at->micro_batch, file, "micro_batch"));
    QLFT_TRY(metadata_number(&at->micro_step, file, "micro_step"));
    QLFT_TRY(metadata_number(&checked, file, "checked"));
    const char *kept = safetensors_metadata(file, "evals");
    if (!(*evals = strdup(kept ? kept : "[]"))) return status_fail(QLFT_ENOMEM, "out of memory");
    at->checked_a = checked & 1;
    at->checked_b = checked & 2;
    for (int i = 0; i < r->optim->state_count; i++) {
        const safetensors_entry *e = safetensors_find(file, r->optim->state_name[i]);
        if (!e || e->count != r->m->parameters || e->type != ST_F32)
            return status_fail(QLFT_EFORMAT, "%s: tensor %s is missing or has not %lld F32 values", file->files[0].path, r->optim->state_name[i],
                               (long long)r->m->parameters);
        QLFT_TRY(safetensors_to_f32(r->pages.home[1 + i], e, 0, e->count));
        safetensors_forget(file, e);
    }
    return QLFT_OK;
}

static qlft_status read_adapter(run *r, const char *path)
{
    peft_adapter p;
    QLFT_TRY(peft_open(&p, path));
    qlft_status status =
        p.count == r->adapted_count ? QLFT_OK : status_fail(QLFT_EFORMAT, "%s: the checkpoint adapts %d layers, this run %d", path, p.count, r->adapted_count);
    for (int i = 0; status == QLFT_OK && i < r->adapted_count; i++) {
        const peft_module *found = NULL;
        for (int j = 0; j < p.count && !found; j++)
            if (strcmp(p.modules[j].name, r->adapted[i]->name) == 0) found = &p.modules[j];
        status = found ? peft_read_module(r->pages.home[0], &p, found, r->adapted[i])
                       : status_fail(QLFT_EFORMAT, "%s: module %s is missing", path, r->adapted[i]->name);
    }
    for (int i = 0; i < p.file.count; i++) safetensors_forget(&p.file, &p.file.entries[i]);
    peft_close(&p);
    return status;
}

static qlft_status load(run *r, cursor *at, char **evals, const char *path)
{
    safetensors file;
    char *state = path_join(path, "state.safetensors");
    qlft_status status = state ? safetensors_open(&file, state) : status_fail(QLFT_ENOMEM, "out of memory");
    free(state);
    QLFT_TRY(status);
    status = read_state(r, at, evals, &file);
    safetensors_close(&file);
    return status == QLFT_OK ? read_adapter(r, path) : status;
}

/* Says what to do about a checkpoint that cannot be read: another one may be there. */
static qlft_status unusable(qlft_status status, const char *path)
{
    char *folder = path_folder(path);
    const char *slash = strrchr(path, '/');
    int64_t step = step_of_name(slash ? slash + 1 : path), before = -1;
    int count = 0;
    if (folder && step >= 0) before = newest_step(folder, step, &count);
    if (step < 0)
        status_fail(status, "--resume %s: %s; a checkpoint is a folder such as OUT/checkpoints/step-100", path, qlft_last_error());
    else if (before >= 0)
        status_fail(status, "--resume %s: %s; the checkpoint before it can be had with --resume %s/step-%lld", path, qlft_last_error(), folder,
                    (long long)before);
    else
        status_fail(status, "--resume %s: %s; there is no earlier checkpoint: start anew without --resume", path, qlft_last_error());
    free(folder);
    return status;
}

qlft_status checkpoint_load(run *r, cursor *at, char **evals, const char *path)
{
    *evals = NULL;
    qlft_status status = load(r, at, evals, path);
    if (status == QLFT_EIO || status == QLFT_EFORMAT) return unusable(status, path);
    QLFT_TRY(status);
    model_set_weights(r->m, r->pages.home[0]);
    return QLFT_OK;
}
