#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"

/* Seconds between redrawn lines of a terminal, and between plain lines (which also come at each tenth of the way). */
static const double redraw_seconds = 0.1, plain_seconds = 10;

struct progress {
    bool quiet, terminal, utf8, drawn;
    char phase[32], unit[24];
    int64_t done, total, first; /* of the phase; first: where it stood when it began, not 0 after a resume */
    double began, written;      /* seconds of the monotonic clock */
    int tenth;                  /* the last tenth that a plain line told */
    qlft_metrics last;
    double rate, loss;         /* smoothed tokens a second and loss; rate 0: no step yet */
    double step_seconds, part; /* of all steps seen; how much of the next one is done */
    int64_t steps_seen;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

progress *progress_open(bool quiet)
{
    progress *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    const char *terminal = getenv("TERM");
    p->quiet = quiet;
    p->terminal = isatty(STDERR_FILENO) && !(terminal && !strcmp(terminal, "dumb"));
    p->utf8 = show_utf8();
    return p;
}

void progress_clear(progress *p)
{
    if (!p || !p->drawn) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    p->drawn = false;
}

void progress_close(progress *p)
{
    progress_clear(p);
    free(p);
}

/* ---- the line ---- */

/* Seconds that the rest of the phase will take, from what was done since it began; NaN if that cannot be said. */
static double seconds_left(const progress *p)
{
    int64_t made = p->done - p->first;
    if (!strcmp(p->phase, "train")) /* measured by the steps alone: evaluations lie between them */
        return p->steps_seen ? p->step_seconds / (double)p->steps_seen * ((double)(p->total - p->done) - p->part) : NAN;
    if (p->total <= 0 || made <= 0) return NAN;
    return (now() - p->began) / (double)made * (double)(p->total - p->done);
}

/* A bar of `cells` columns; eighths of a cell where the terminal can show them. */
static void draw_bar(const progress *p, int cells, double share)
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int full = (int)(share * cells * 8);
    for (int i = 0; i < cells; i++) {
        int part = full - 8 * i;
        if (!p->utf8)
            fputc(part >= 8 ? '#' : '.', stderr);
        else if (part >= 8)
            fputs("█", stderr);
        else
            fputs(part > 0 ? eighths[part] : "·", stderr);
    }
}

/* "412 tok/s", or for other units what a phase makes in a second; empty if not known. */
static void rate_text(const progress *p, char *out, size_t bytes)
{
    double seconds = now() - p->began, made = (double)(p->done - p->first);
    char shown[SHOWN_BYTES];
    *out = 0;
    if (!strcmp(p->phase, "train")) {
        if (p->rate > 0) snprintf(out, bytes, "%.0f tok/s", p->rate);
    } else if (seconds > 0.5 && made > 0) {
        if (!strcmp(p->unit, "bytes"))
            snprintf(out, bytes, "%s/s", show_bytes(shown, made / seconds));
        else
            snprintf(out, bytes, "%.*f %s/s", made / seconds < 10 ? 1 : 0, made / seconds, p->unit);
    }
}

/* What stands behind the bar, in the order of its worth: the width decides how much of it. */
static void facts_text(const progress *p, char *out, size_t bytes, int columns)
{
    char parts[5][64], time[SHOWN_BYTES], a[SHOWN_BYTES], b[SHOWN_BYTES];
    int count = 0;
    double left = seconds_left(p);
    if (p->total > 0) snprintf(parts[count++], 64, "%3d%%", (int)(100.0 * (double)p->done / (double)p->total));
    if (!isnan(left)) snprintf(parts[count++], 64, "ETA %s", show_time(time, left));
    if (p->steps_seen && !strcmp(p->phase, "train")) snprintf(parts[count++], 64, "loss %.4f", p->loss);
    rate_text(p, parts[count], 64);
    count += parts[count][0] != 0;
    bool size = !strcmp(p->unit, "bytes");
    if (p->total > 0 && size)
        snprintf(parts[count++], 64, "%s of %s", show_bytes(a, (double)p->done), show_bytes(b, (double)p->total));
    else if (p->total > 0)
        snprintf(parts[count++], 64, "%s/%s %s", show_count(a, p->done), show_count(b, p->total), p->unit);
    else
        snprintf(parts[count++], 64, "%s %s", size ? show_bytes(a, (double)p->done) : show_count(a, p->done), size ? "" : p->unit);
    *out = 0;
    int used = 0;
    for (int i = 0; i < count; i++) {
        int length = (int)strlen(parts[i]) + 2;
        if (used + length > columns || (size_t)(used + length) >= bytes) break;
        used += snprintf(out + used, bytes - (size_t)used, "  %s", parts[i]);
    }
}

static void draw(progress *p)
{
    double time = now();
    if (p->drawn && time - p->written < redraw_seconds && p->done != p->total) return;
    p->written = time;
    char facts[256];
    int width = show_width(STDERR_FILENO) - 1; /* the last column would wrap */
    int label = strlen(p->phase) < 10 ? 10 : (int)strlen(p->phase) + 1, cells = 0;
    facts_text(p, facts, sizeof facts, width - label - (p->total > 0 ? 12 : 0));
    if (p->total > 0) {
        cells = width - label - (int)strlen(facts);
        if (cells > 30) cells = 30;
    }
    fprintf(stderr, "\r%-*s", label, p->phase);
    double share = p->total > 0 ? ((double)p->done + p->part) / (double)p->total : 0;
    if (cells >= 4) draw_bar(p, cells, share < 0 ? 0 : share > 1 ? 1 : share);
    fprintf(stderr, "%s\033[K", facts);
    fflush(stderr);
    p->drawn = true;
}

/* ---- phases ---- */

/* Phases that took a moment leave a line; the rest would only be noise. */
static void end_phase(progress *p)
{
    char time[SHOWN_BYTES], count[SHOWN_BYTES];
    double seconds = now() - p->began;
    progress_clear(p);
    if (p->phase[0] && strcmp(p->phase, "train") != 0 && strcmp(p->phase, "1st step") != 0 && seconds >= 0.5 && p->done > 0) {
        bool size = !strcmp(p->unit, "bytes");
        fprintf(stderr, "%-9s %s%s%s in %s\n", p->phase, size ? show_bytes(count, (double)p->done) : show_count(count, p->done), size ? "" : " ",
                size ? "" : p->unit, show_time(time, seconds));
    }
    p->phase[0] = 0;
}

static void begin_phase(progress *p, const char *phase, int64_t done, const char *unit)
{
    end_phase(p);
    snprintf(p->phase, sizeof p->phase, "%s", phase);
    snprintf(p->unit, sizeof p->unit, "%s", unit ? unit : "");
    p->first = done;
    p->began = now();
    p->written = p->began;
    p->tenth = 0;
}

/* What there is to see of a step that is being made; the first one has a line of its own, since the number of steps is told behind it. */
static bool take_micro_batch(progress *p, int64_t done, int64_t total)
{
    if (!p->steps_seen) return false;
    if (strcmp(p->phase, "train") != 0) begin_phase(p, "train", p->last.step, "steps");
    p->done = p->last.step;
    p->total = p->last.steps;
    p->part = done < total ? (double)done / (double)total : 0;
    if (p->terminal) draw(p);
    return true;
}

static void on_progress(void *payload, const char *phase, int64_t done, int64_t total, const char *unit)
{
    progress *p = payload;
    if (p->quiet) return;
    if (!strcmp(phase, "micro-batch")) {
        if (take_micro_batch(p, done, total)) return;
        phase = "1st step";
    }
    if (!strcmp(phase, "train") && p->steps_seen) return; /* steps tell that */
    if (strcmp(p->phase, phase) != 0) begin_phase(p, phase, done, unit);
    p->done = done;
    p->total = total;
    p->part = 0;
    if (p->terminal) draw(p);
    if (done == total) end_phase(p);
    if (p->terminal || done == total) return;
    double time = now();
    if (time - p->written < plain_seconds) return;
    p->written = time;
    char facts[256];
    facts_text(p, facts, sizeof facts, 200);
    fprintf(stderr, "%-9s%s\n", phase, facts);
}

/* Plain lines: the first steps, each tenth of the way, the last, and one now and then between. */
static bool step_is_told(progress *p, const qlft_metrics *m)
{
    int tenth = m->steps > 0 ? (int)(10 * m->step / m->steps) : 0;
    double time = now();
    bool told = p->steps_seen <= 3 || m->step == m->steps || tenth != p->tenth || time - p->written >= plain_seconds;
    p->tenth = tenth;
    if (told) p->written = time;
    return told;
}

static void on_step(void *payload, const qlft_metrics *m)
{
    progress *p = payload;
    double rate = m->seconds > 0 ? (double)m->tokens / m->seconds : 0;
    if (p->quiet) return;
    if (strcmp(p->phase, "train") != 0) begin_phase(p, "train", m->step - 1, "steps");
    /* Means with a memory of about ten steps: steady enough to read, quick enough to show a change. */
    double keep = p->steps_seen < 10 ? (double)p->steps_seen / (double)(p->steps_seen + 1) : 0.9;
    p->rate = keep * p->rate + (1 - keep) * rate;
    p->loss = keep * p->loss + (1 - keep) * m->loss;
    p->steps_seen++;
    p->last = *m;
    p->step_seconds += m->seconds;
    p->done = m->step;
    p->total = m->steps;
    p->part = 0;
    if (p->terminal) {
        draw(p);
    } else if (step_is_told(p, m)) {
        char time[SHOWN_BYTES];
        double left = seconds_left(p);
        fprintf(stderr, "step %lld/%lld  loss %.4f  grad %.3g  lr %.3g  %.0f tok/s", (long long)m->step, (long long)m->steps, m->loss, m->grad_norm, m->lr,
                rate);
        if (!isnan(left) && m->step < m->steps) fprintf(stderr, "  ETA %s", show_time(time, left));
        fputc('\n', stderr);
    }
}

static void on_eval(void *payload, int64_t step, double loss, int64_t supervised_tokens)
{
    progress *p = payload;
    char count[SHOWN_BYTES];
    if (p->quiet) return;
    progress_clear(p);
    fprintf(stderr, "held-out loss %s step %lld: %.4f (%s tokens)\n", step == 0 ? "before" : "at", (long long)(step == 0 ? 1 : step), loss,
            show_count(count, supervised_tokens));
}

void progress_watch(progress *p, qlft_observer *out)
{
    out->payload = p;
    out->progress = on_progress;
    out->step = on_step;
    out->eval = on_eval;
}

void progress_log(void *payload, qlft_log_level level, const char *message)
{
    static const char *const prefix[] = {"qlft: ", "qlft: warning: ", "", "debug: "};
    progress_clear(payload);
    fputs(prefix[level], stderr);
    show_text(stderr, message, strlen(message), true); /* it may quote what a file says */
    fputc('\n', stderr);
}
