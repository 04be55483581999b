/* qlft train: the main job. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "train/export.h"
#include "train/report.h"

/* A file under --out; yours. */
static char *out_path(const run *r, const char *name)
{
    return path_join(r->config->out, name);
}

/* Bytes that adapter, checkpoints and reports will take, roughly: asked of the file system before the first step. */
static qlft_status check_space(const run *r)
{
    char text[2][BYTES_TEXT];
    size_t adapter = (size_t)r->m->parameters * sizeof(float), have = 0;
    size_t states = adapter * (size_t)(1 + r->optim->state_count), whole = (size_t)(r->config->keep + 1);
    size_t need = adapter * (r->config->gguf ? 2 : 1) + (r->config->save_every ? states * whole : states) + (1 << 20);
    QLFT_TRY(folder_free_bytes(&have, r->config->out));
    if (have >= need) return QLFT_OK;
    return status_fail(
        QLFT_EIO, "--out %s: adapter and checkpoints take about %s and %s are free (No space left); choose another --out, a smaller --keep, or --save-every 0",
        r->config->out, bytes_text(text[0], (double)need), bytes_text(text[1], (double)have));
}

static qlft_status resume(run *r, cursor *at, history *h)
{
    const char *from = r->config->resume;
    char *found = NULL;
    if (!from) return QLFT_OK;
    if (strcmp(from, "auto") == 0) {
        QLFT_TRY(checkpoint_find(&found, r->config->out));
        if (!found) {
            log_info("--resume auto: no checkpoint under %s, so the run starts at the beginning", r->config->out);
            return QLFT_OK;
        }
    }
    char *evals = NULL;
    qlft_status status = checkpoint_load(r, at, &evals, found ? found : from);
    if (status == QLFT_OK) status = history_evals_from(h, evals);
    free(evals);
    if (status == QLFT_OK) log_info("resumed from %s at step %lld", found ? found : from, (long long)at->step);
    free(found);
    return status;
}

static qlft_status write_adapter(run *r, char sha256[SHA256_HEX_BYTES])
{
    QLFT_TRY(peft_write(r->config->out, r->adapted, r->adapted_count, r->m->dims.layers, r->pages.home[0], &r->adapter, r->config->base, false, sha256));
    if (!r->config->gguf) return QLFT_OK;
    char *path = out_path(r, "adapter.gguf");
    if (!path) return status_fail(QLFT_ENOMEM, "out of memory");
    qlft_status status = export_gguf(r, path);
    free(path);
    return status;
}

static qlft_status write_report(run *r, const history *h, const char *exit_text, const char *sha256, char **report_path)
{
    char *json_path = out_path(r, "report.json"), *html_path = out_path(r, "report.html");
    json_t *report = json_path && html_path ? report_make(r, h, exit_text, sha256) : NULL;
    qlft_status status = report ? json_write_file(report, json_path) : status_fail(QLFT_ENOMEM, "out of memory for the report");
    if (status == QLFT_OK) status = report_html_write(report, json_object_get(report, "steps"), html_path);
    if (status == QLFT_OK) {
        *report_path = json_path;
        json_path = NULL;
    }
    json_decref(report);
    free(json_path);
    free(html_path);
    return status;
}

/* Adapter and report, also of a run that was stopped. Keeps the status and message of the stop. */
static qlft_status finish(run *r, const history *h, const cursor *at, qlft_status ended, char **report_path)
{
    char sha256[SHA256_HEX_BYTES] = "", exit_text[64] = "done", *why = strdup(qlft_last_error());
    double started = clock_seconds();
    bool stopped = ended == QLFT_ESIGNAL;
    if (stopped) snprintf(exit_text, sizeof exit_text, "interrupted at step %lld", (long long)at->step);
    qlft_status status = write_adapter(r, sha256);
    bool written = status == QLFT_OK;
    if (stopped && status == QLFT_ENUMERIC) { /* stopped before anything was learned: the checkpoint is there, an adapter is not yet */
        log_info("no adapter yet: %s", qlft_last_error());
        status = QLFT_OK;
    }
    r->phases.save += clock_seconds() - started;
    if (status == QLFT_OK) status = write_report(r, h, exit_text, written ? sha256 : NULL, report_path);
    if (status == QLFT_OK && stopped) status = status_fail(QLFT_ESIGNAL, "%s", why ? why : "");
    free(why);
    return status;
}

static qlft_status train_open(run *r, history *h)
{
    QLFT_TRY(run_open_model(r, RUN_TRAIN));
    QLFT_TRY(check_space(r));
    QLFT_TRY(run_open_data(r));
    QLFT_TRY(samples_open(&h->answers, r));
    if (!h->answers.prompts.count) { /* else answers need its vocabulary */
        tokenizer_close(r->tok);
        r->tok = NULL;
    }
#ifdef __GLIBC__
    malloc_trim(0); /* what tokenising took goes back to the system before the plan is reserved */
#endif
    QLFT_TRY(plan_make(r, run_largest_batch(r)));
    char text[BYTES_TEXT];
    log_info("plan: %s in all, %lld tokens a micro-batch at most, blocks %s, optimizer %s", bytes_text(text, (double)plan_total(&r->planned)),
             (long long)r->choice.tokens, r->choice.keep_blocks ? "kept" : "recomputed", r->choice.page_optim ? "paged from the host" : "on the device");
    QLFT_TRY(run_reserve(r));
    return run_load(r);
}

/* A run that begins anew in a folder with a result replaces it: said while it can still be stopped. */
static qlft_status tell_replaced(const run *r)
{
    if (r->config->resume) return QLFT_OK;
    char *adapter = out_path(r, "adapter_model.safetensors");
    if (!adapter) return status_fail(QLFT_ENOMEM, "out of memory");
    if (file_exists(adapter))
        log_warning("%s is of an earlier run and will be replaced; to keep it give another --out, to go on with it --resume auto", adapter);
    free(adapter);
    return QLFT_OK;
}

static qlft_status train_locked(run *r, char **report_path)
{
    cursor at;
    history h;
    char *recipe = out_path(r, "recipe.yaml");
    qlft_status status = QLFT_OK;
    memset(&at, 0, sizeof at);
    memset(&h, 0, sizeof h);
    if (!recipe) return status_fail(QLFT_ENOMEM, "out of memory");
    if ((status = train_open(r, &h)) != QLFT_OK) goto done;
    if ((status = resume(r, &at, &h)) != QLFT_OK) goto done;
    if ((status = history_begin(&h, r->config->out, at.step)) != QLFT_OK) goto done;
    if ((status = recipe_write(r->config, recipe)) != QLFT_OK) goto done;
    status = trainer_run(r, &at, &h);
    if (status == QLFT_OK || status == QLFT_ESIGNAL) status = finish(r, &h, &at, status, report_path);
done:
    history_free(&h);
    free(recipe);
    return status;
}

static void keep_warning(void *payload, qlft_log_level level, const char *message)
{
    run *r = payload;
    if (level == QLFT_LOG_WARNING && r->warnings) json_array_append_new(r->warnings, json_string(message));
}

qlft_status qlft_train(char **report_path, const qlft_config *c, const qlft_observer *observer)
{
    run r;
    int lock = -1;
    *report_path = NULL;
    qlft_status status = run_start(&r, c, observer);
    bool is_new = status == QLFT_OK && !file_exists(c->out);
    if (status == QLFT_OK) status = folder_make(c->out);
    if (status == QLFT_OK) status = folder_writable(c->out);
    if (status == QLFT_OK) status = folder_lock(&lock, c->out);
    if (status == QLFT_OK) status = checkpoint_sweep(c->out);
    if (status == QLFT_OK && !(r.warnings = json_array())) status = status_fail(QLFT_ENOMEM, "out of memory");
    if (status == QLFT_OK) status = tell_replaced(&r); /* not watched: it says nothing of this run's result */
    log_watch(keep_warning, &r);
    if (status == QLFT_OK) status = train_locked(&r, report_path);
    log_watch(NULL, NULL);
    folder_unlock(lock, c->out);
    if (is_new && status != QLFT_OK) folder_remove_empty(c->out); /* stopped before anything was written */
    run_close(&r);
    return status;
}
