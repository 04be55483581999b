#include "train/report_html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ledger.h"
#include "train/report_chart.h"

static const char style[] =
    ":root{--back:#f7f7f5;--card:#fff;--ink:#1d2126;--soft:#6a727c;--rule:#e3e4e1;--main:#1f6feb;--pale:#a9c7f5;--after:#d9480f;--good:#2b8a3e;--warn:#fff4d6;-"
    "-warn-ink:#7a5200;"
    "--k0:#3b5bdb;--k1:#e8590c;--k2:#f2a900;--k3:#2f9e44;--k4:#0b93b5;--k5:#9c36b5;--k6:#868e96}"
    "@media(prefers-color-scheme:dark){:root{--back:#14171a;--card:#1c2024;--ink:#e6e8ea;--soft:#98a1ab;--rule:#30363d;--main:#6ea8fe;--pale:#31507f;--after:#"
    "ff9150;--good:#69db7c;"
    "--warn:#3a3018;--warn-ink:#ffd883;--k0:#748ffc;--k1:#ff922b;--k2:#ffd43b;--k3:#69db7c;--k4:#3bc9db;--k5:#da77f2;--k6:#adb5bd}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica "
    "Neue\",Arial,sans-serif}"
    "main{max-width:1080px;margin:0 auto;padding:32px 20px 48px}h1{font-size:26px;line-height:1.25;margin:0;overflow-wrap:anywhere}h2{font-size:17px;margin:0 "
    "0 12px}"
    ".soft{color:var(--soft)}header{margin-bottom:22px}header p{margin:4px 0 0}"
    "section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:18px 20px;margin:0 0 16px}"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:12px;margin:0 0 16px}.tiles div{background:var(--card);border:1px solid "
    "var(--rule);"
    "border-radius:10px;padding:12px 16px}.tiles "
    "b{display:block;font-size:22px;line-height:1.35;font-weight:600;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".tiles .good{color:var(--good)}.tiles span{color:var(--soft);font-size:13px}"
    ".three{display:grid;grid-template-columns:repeat(auto-fit,minmax(290px,1fr));gap:16px;margin:0 0 16px}.three section{margin:0;padding:12px 14px}"
    ".warn{background:var(--warn);color:var(--warn-ink);border-color:transparent}.warn ul{margin:0;padding-left:18px}"
    "svg.chart{display:block;width:100%;height:auto}.wide{overflow-x:auto}.wide svg{min-width:680px}svg "
    ".over{paint-order:stroke;stroke:var(--card);stroke-width:4px}svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg "
    ".title{font-weight:600;font-size:14px}svg "
    ".tick{fill:var(--soft);font-weight:400;font-size:12px}"
    ".grid{stroke:var(--rule);stroke-width:1;fill:none}.line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}.main{stroke:var(--main)}."
    "pale{stroke:var(--pale);stroke-width:1.2}"
    ".after{stroke:var(--after)}.dot{stroke:var(--card);stroke-width:1.5}.dot.main{fill:var(--main)}.dot.pale{fill:var(--pale)}.dot.after{fill:var(--after)}"
    ".h path{stroke:var(--soft);stroke-width:1;opacity:0}.h rect{fill:transparent}.h:hover path{opacity:.6}"
    "table{border-collapse:collapse;width:100%;font-size:13px;line-height:1.35;font-variant-numeric:tabular-nums}td,th{padding:3px 10px 3px "
    "0;text-align:left;border-bottom:1px solid "
    "var(--rule);vertical-align:top}"
    "th{font-weight:600;color:var(--soft);font-size:13px}td.n,th.n{text-align:right;padding-right:0;padding-left:10px;white-space:nowrap}tr:last-child "
    "td{border-bottom:0}"
    ".facts{columns:2 320px;column-gap:36px}.facts div{display:flex;justify-content:space-between;gap:16px;border-bottom:1px solid var(--rule);padding:3px "
    "0;break-inside:avoid}"
    ".facts span{color:var(--soft);white-space:nowrap}.facts b{font-weight:500;text-align:right;overflow-wrap:anywhere}"
    ".bar{display:grid;grid-template-columns:120px 1fr 90px;gap:10px;align-items:center;margin:5px 0;font-size:13px}.bar "
    "div{display:flex;height:20px;border-radius:4px;overflow:hidden}"
    ".bar i{display:block;height:100%;min-width:1px}.bar "
    "b{font-weight:500;text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.legend{display:flex;flex-wrap:wrap;gap:4px 16px;margin:10px 0 "
    "14px;font-size:13px}"
    ".legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}"
    ".k0{background:var(--k0)}.k1{background:var(--k1)}.k2{background:var(--k2)}.k3{background:var(--k3)}.k4{background:var(--k4)}.k5{background:var(--k5)}.k6{"
    "background:var(--k6)}"
    ".talk{border-top:1px solid var(--rule);padding:12px 0}.talk:first-of-type{border-top:0;padding-top:0}.talk:last-child{padding-bottom:0}.talk p{margin:0 0 "
    "8px;font-weight:600;white-space:pre-wrap;overflow-wrap:anywhere}"
    ".pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(280px,1fr));gap:14px}.pair "
    "div{white-space:pre-wrap;overflow-wrap:anywhere;border-left:3px solid var(--rule);padding-left:12px}"
    ".pair .new{border-color:var(--good)}.pair small{display:block;color:var(--soft);white-space:normal}"
    "details summary{cursor:pointer;font-weight:600;font-size:17px}details[open] "
    "summary{margin-bottom:12px}footer{color:var(--soft);font-size:13px;overflow-wrap:anywhere}"
    "@media print{body{background:#fff;font-size:12px}main{padding:0;max-width:none}section,.tiles div{break-inside:avoid}.h{display:none}}";

/* ---- small helpers ---- */

static void put(file_writer *w, const char *text)
{
    file_writer_put(w, text, strlen(text));
}

static void escape(file_writer *w, const char *text)
{
    html_escape(w, text, strlen(text));
}

static const json_t *member(const json_t *object, const char *key)
{
    return json_object_get(object, key);
}

/* NaN if it is not there. */
static double number(const json_t *object, const char *key)
{
    const json_t *value = member(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *text_or(const json_t *object, const char *key, const char *missing)
{
    const char *text = json_string_value(member(object, key));
    return text ? text : missing;
}

enum { SHORT = 48 };

/* 1234567 as 1,234,567. */
static const char *count_text(char out[SHORT], double count)
{
    char digits[SHORT];
    snprintf(digits, sizeof digits, "%.0f", count);
    size_t length = strlen(digits), at = 0;
    for (size_t i = 0; i < length && at + 2 < SHORT; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-') out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

static const char *time_text(char out[SHORT], double seconds)
{
    if (seconds < 59.95) {
        snprintf(out, SHORT, "%.1f s", seconds);
        return out;
    }
    long whole = lround(seconds);
    if (whole < 3600)
        snprintf(out, SHORT, "%ld min %02ld s", whole / 60, whole % 60);
    else
        snprintf(out, SHORT, "%ld h %02ld min", whole / 3600, whole / 60 % 60);
    return out;
}

/* A number as people read it: what it counts is told by its name. */
static void value_text(char out[SHORT], const char *key, const json_t *value)
{
    size_t length = strlen(key);
    double x = json_number_value(value);
    if (json_is_boolean(value))
        snprintf(out, SHORT, "%s", json_is_true(value) ? "on" : "off");
    else if (!json_is_number(value))
        snprintf(out, SHORT, "-");
    else if (length > 6 && !strcmp(key + length - 6, "_bytes"))
        bytes_text(out, x);
    else if (length > 2 && !strcmp(key + length - 2, "_s"))
        time_text(out, x);
    else if (json_is_integer(value) && strcmp(key, "seed") != 0)
        count_text(out, x);
    else if (fabs(x) >= 1e7)
        snprintf(out, SHORT, "%.3g", x);
    else
        snprintf(out, SHORT, "%.6g", x);
}

/* ---- head ---- */

static void write_head(file_writer *w, const json_t *report)
{
    const json_t *base = member(report, "base"), *device = member(report, "device"), *config = member(report, "config");
    const char *path = text_or(base, "path", "qlft run");
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    size_t from = length;
    while (from > 0 && path[from - 1] != '/') from--;
    char count[SHORT];
    put(w, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
           "<meta name=\"color-scheme\" content=\"light dark\">\n<title>qlft: ");
    html_escape(w, path + from, length - from);
    put(w, "</title>\n<style>");
    put(w, style);
    put(w, "</style></head>\n<body><main>\n<header><h1>");
    html_escape(w, path + from, length - from);
    put(w, "</h1><p class=\"soft\">");
    put(w, "LoRA");
    if (isfinite(number(config, "r"))) file_writer_print(w, " rank %.0f", number(config, "r"));
    put(w, " on ");
    escape(w, text_or(base, "architecture", "a model"));
    if (isfinite(number(base, "parameters"))) file_writer_print(w, ", %s parameters", count_text(count, number(base, "parameters")));
    put(w, strcmp(text_or(config, "quant", ""), "nf4") ? "" : " in NF4");
    put(w, " &middot; ");
    escape(w, text_or(device, "name", "device not known"));
    if (isfinite(number(device, "threads"))) file_writer_print(w, ", %.0f threads, ", number(device, "threads"));
    escape(w, text_or(device, "level", ""));
    put(w, "</p></header>\n");
}

static void write_tile(file_writer *w, const char *css, const char *value, const char *label)
{
    file_writer_print(w, "<div><b%s>", css);
    escape(w, value);
    put(w, "</b><span>");
    escape(w, label);
    put(w, "</span></div>\n");
}

static void write_loss_tiles(file_writer *w, const json_t *report, size_t steps)
{
    const json_t *eval = member(report, "eval");
    size_t count = json_array_size(eval);
    char value[SHORT * 2], label[SHORT * 2], number_text[SHORT];
    if (count > 0) {
        double before = number(json_array_get(eval, 0), "loss"), after = number(json_array_get(eval, count - 1), "loss");
        if (count > 1)
            snprintf(value, sizeof value, "%.3f \xe2\x86\x92 %.3f", before, after);
        else
            snprintf(value, sizeof value, "%.3f", after);
        snprintf(label, sizeof label, "loss on held-out rows");
        write_tile(w, count > 1 && after < before ? " class=\"good\"" : "", value, label);
    }
    double final_loss = number(member(report, "result"), "final_loss");
    if (isfinite(final_loss)) {
        snprintf(value, sizeof value, "%.3f", final_loss);
        snprintf(label, sizeof label, "training loss of the last of %s step%s", count_text(number_text, (double)steps), steps == 1 ? "" : "s");
        write_tile(w, "", value, label);
    }
}

static void write_tiles(file_writer *w, const json_t *report, size_t steps)
{
    const json_t *speed = member(report, "throughput"), *memory = member(report, "memory");
    char a[SHORT], b[SHORT], label[3 * SHORT];
    put(w, "<div class=\"tiles\">\n");
    write_loss_tiles(w, report, steps);
    double rate = number(speed, "tokens_per_second");
    if (isfinite(rate) && isfinite(number(speed, "seconds"))) {
        snprintf(label, sizeof label, "tokens/s; %s tokens in %s", count_text(a, number(speed, "tokens")), time_text(b, number(speed, "seconds")));
        if (rate < 99.95)
            snprintf(a, sizeof a, "%.1f", rate);
        else
            count_text(a, rate);
        write_tile(w, "", a, label);
    }
    double planned = number(memory, "planned_peak_bytes"), used = number(memory, "used_peak_bytes");
    if (isfinite(used) && isfinite(planned)) {
        if (planned == used)
            snprintf(label, sizeof label, "memory used, as planned to the byte");
        else
            snprintf(label, sizeof label, "memory used; %s planned", bytes_text(b, planned));
        write_tile(w, "", bytes_text(a, used), label);
    }
    put(w, "</div>\n");
}

static void write_warnings(file_writer *w, const json_t *report)
{
    const json_t *warnings = member(report, "warnings");
    if (json_array_size(warnings) == 0) return;
    put(w, "<section class=\"warn\"><h2>To know</h2><ul>");
    for (size_t i = 0; i < json_array_size(warnings); i++) {
        const json_t *text = json_array_get(warnings, i);
        if (!json_is_string(text)) continue;
        put(w, "<li>");
        html_escape(w, json_string_value(text), json_string_length(text));
        put(w, "</li>");
    }
    put(w, "</ul></section>\n");
}

static void write_answer(file_writer *w, const json_t *text, const char *css, const char *label)
{
    if (!json_is_string(text)) return;
    file_writer_print(w, "<div class=\"%s\"><small>%s</small>", css, label);
    html_escape(w, json_string_value(text), json_string_length(text));
    put(w, "</div>");
}

static void write_samples(file_writer *w, const json_t *report)
{
    const json_t *samples = member(report, "samples");
    if (json_array_size(samples) == 0) return;
    put(w, "<section><h2>Answers before and after</h2>\n");
    for (size_t i = 0; i < json_array_size(samples); i++) {
        const json_t *sample = json_array_get(samples, i), *prompt = member(sample, "prompt");
        put(w, "<div class=\"talk\"><p>");
        if (json_is_string(prompt)) html_escape(w, json_string_value(prompt), json_string_length(prompt));
        put(w, "</p><div class=\"pair\">");
        write_answer(w, member(sample, "before"), "old", "before");
        write_answer(w, member(sample, "after"), "new", "after");
        put(w, "</div></div>\n");
    }
    put(w, "</section>\n");
}

/* ---- curves ---- */

typedef struct series {
    double *memory, *step, *loss, *speed, *lr, *norm, *smooth[3]; /* [count] each, in one allocation; smooth: of loss, speed and norm */
    double *eval_step, *eval_loss;
    size_t count, eval_count;
} series;

/* Mean of the steps around each, a twentieth of the run in all and 5 at least: centred, so that it does not lag behind. Sums run along (float64). */
static void smooth_values(double *out, const double *values, size_t count)
{
    size_t reach = count / 40 > 2 ? count / 40 : 2, to = 0, from = 0, held = 0;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        for (; to < count && to <= i + reach; to++) {
            if (!isfinite(values[to])) continue;
            sum += values[to];
            held++;
        }
        for (; from + reach < i; from++) {
            if (!isfinite(values[from])) continue;
            sum -= values[from];
            held--;
        }
        out[i] = held ? sum / (double)held : NAN;
    }
}

static qlft_status read_series(series *s, const json_t *steps, const json_t *eval)
{
    s->count = json_array_size(steps);
    s->eval_count = json_array_size(eval);
    s->memory = malloc((8 * s->count + 2 * s->eval_count + 1) * sizeof *s->memory);
    if (!s->memory) return status_fail(QLFT_ENOMEM, "report: out of memory for %zu steps", s->count);
    double **parts[] = {&s->step, &s->loss, &s->speed, &s->lr, &s->norm, &s->smooth[0], &s->smooth[1], &s->smooth[2]};
    for (size_t i = 0; i < 8; i++) *parts[i] = s->memory + i * s->count;
    s->eval_step = s->memory + 8 * s->count;
    s->eval_loss = s->eval_step + s->eval_count;
    for (size_t i = 0; i < s->count; i++) {
        const json_t *row = json_array_get(steps, i);
        double tokens = number(row, "tokens"), seconds = number(row, "seconds");
        s->step[i] = number(row, "step");
        s->loss[i] = number(row, "loss");
        s->lr[i] = number(row, "lr");
        s->norm[i] = number(row, "grad_norm");
        if (!isfinite(tokens)) tokens = number(row, "supervised_tokens");
        s->speed[i] = seconds > 0 ? tokens / seconds : NAN;
    }
    for (size_t i = 0; i < s->eval_count; i++) {
        s->eval_step[i] = number(json_array_get(eval, i), "step");
        s->eval_loss[i] = number(json_array_get(eval, i), "loss");
    }
    smooth_values(s->smooth[0], s->loss, s->count);
    smooth_values(s->smooth[1], s->speed, s->count);
    smooth_values(s->smooth[2], s->norm, s->count);
    return QLFT_OK;
}

/* smooth: drawn over many points, which alone would be a solid block; NULL: never. */
static qlft_status write_small_chart(file_writer *w, const series *s, const char *title, const char *unit, const double *y, const double *smooth)
{
    bool many = smooth && s->count >= 100;
    const chart_line lines[] = {{.css = many ? "pale" : "main", .x = s->step, .y = y, .count = s->count},
                                {.css = "main", .x = s->step, .y = smooth, .count = s->count}};
    const chart c = {.title = title, .unit = unit, .width = 340, .height = 190, .from_zero = true, .lines = lines, .line_count = many ? 2 : 1};
    put(w, "<section>");
    QLFT_TRY(chart_write(w, &c));
    put(w, "</section>\n");
    return QLFT_OK;
}

static qlft_status write_curves(file_writer *w, const series *s, bool speed_of_all)
{
    if (s->count == 0 && s->eval_count == 0) return QLFT_OK;
    bool smooth = s->count >= 20; /* below that the mean says no more than the points */
    const chart_line lines[] = {
        {.label = smooth ? "each step" : "training", .css = smooth ? "pale" : "main", .x = s->step, .y = s->loss, .count = s->count},
        {.label = "smoothed", .css = "main", .x = s->step, .y = s->smooth[0], .count = s->count},
        {.label = "held-out", .css = "after", .x = s->eval_step, .y = s->eval_loss, .count = s->eval_count, .marks = true},
    };
    chart_line shown[3];
    int count = 0;
    for (int i = 0; i < 3; i++)
        if (lines[i].count > 0 && (i != 1 || smooth)) shown[count++] = lines[i];
    const chart c = {.title = "Loss", .unit = "mean over learned tokens, by optimizer step", .width = 1040, .height = 360, .lines = shown, .line_count = count};
    put(w, "<section class=\"wide\">");
    QLFT_TRY(chart_write(w, &c));
    put(w, "</section>\n");
    if (s->count == 0) return QLFT_OK;
    put(w, "<div class=\"three\">\n");
    QLFT_TRY(write_small_chart(w, s, "Speed", speed_of_all ? "tokens/s" : "learned tokens/s", s->speed, s->smooth[1]));
    QLFT_TRY(write_small_chart(w, s, "Learning rate", "", s->lr, NULL));
    QLFT_TRY(write_small_chart(w, s, "Gradient norm", "before clipping", s->norm, s->smooth[2]));
    put(w, "</div>\n");
    return QLFT_OK;
}

/* ---- memory ---- */

static int kind_of(const json_t *row)
{
    const char *name = text_or(row, "kind", "");
    for (int k = 0; k < LEDGER_KINDS; k++)
        if (!strcmp(name, ledger_kind_name((ledger_kind)k))) return k;
    return -1;
}

/* Bytes of each kind in a tier, of `key` ("planned_bytes" or "used_bytes"). Returns their sum. */
static double sum_kinds(double sums[LEDGER_KINDS], const json_t *rows, const char *tier_name, const char *key)
{
    double sum = 0;
    memset(sums, 0, LEDGER_KINDS * sizeof *sums);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        int kind = kind_of(row);
        double bytes = number(row, key);
        if (kind < 0 || !isfinite(bytes) || strcmp(text_or(row, "tier", ""), tier_name) != 0) continue;
        sums[kind] += bytes;
        sum += bytes;
    }
    return sum;
}

static void write_bar(file_writer *w, const char *label, const double sums[LEDGER_KINDS], double sum, double widest)
{
    char text[SHORT];
    file_writer_print(w, "<div class=\"bar\"><span>%s</span><div>", label);
    for (int k = 0; k < LEDGER_KINDS; k++)
        if (sums[k] > 0)
            file_writer_print(w, "<i class=\"k%d\" style=\"width:%.3f%%\" title=\"%s: %s\"></i>", k, 100 * sums[k] / widest, ledger_kind_name((ledger_kind)k),
                              bytes_text(text, sums[k]));
    file_writer_print(w, "</div><b>%s</b></div>\n", bytes_text(text, sum));
}

static void write_bars(file_writer *w, const json_t *rows)
{
    double planned[LEDGER_KINDS], used[LEDGER_KINDS], widest = 0;
    bool present[LEDGER_KINDS] = {false};
    for (int t = 0; t < TIER_COUNT; t++) {
        const char *name = ledger_tier_name((tier)t);
        widest = fmax(widest, fmax(sum_kinds(planned, rows, name, "planned_bytes"), sum_kinds(used, rows, name, "used_bytes")));
        for (int k = 0; k < LEDGER_KINDS; k++) present[k] = present[k] || planned[k] > 0 || used[k] > 0;
    }
    for (int t = 0; t < TIER_COUNT; t++) {
        char label[SHORT];
        const char *name = ledger_tier_name((tier)t);
        double plan = sum_kinds(planned, rows, name, "planned_bytes"), use = sum_kinds(used, rows, name, "used_bytes");
        if (!(plan > 0 || use > 0)) continue;
        snprintf(label, sizeof label, "%s, planned", name);
        write_bar(w, label, planned, plan, widest);
        snprintf(label, sizeof label, "%s, used", name);
        write_bar(w, label, used, use, widest);
    }
    put(w, "<div class=\"legend\">");
    for (int k = 0; k < LEDGER_KINDS; k++)
        if (present[k]) file_writer_print(w, "<span><i class=\"k%d\"></i>%s</span>", k, ledger_kind_name((ledger_kind)k));
    put(w, "</div>\n");
}

static void write_ledger(file_writer *w, const json_t *rows)
{
    char planned[SHORT], used[SHORT];
    put(w, "<table><tr><th>kind</th><th>buffer</th><th>tier</th><th class=\"n\">planned</th><th class=\"n\">used</th></tr>\n");
    for (int k = 0; k < LEDGER_KINDS; k++) {
        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *row = json_array_get(rows, i);
            if (kind_of(row) != k) continue;
            file_writer_print(w, "<tr><td>%s</td><td>", ledger_kind_name((ledger_kind)k));
            escape(w, text_or(row, "owner", ""));
            put(w, " ");
            escape(w, text_or(row, "name", ""));
            put(w, "</td><td>");
            escape(w, text_or(row, "tier", ""));
            file_writer_print(w, "</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n", bytes_text(planned, number(row, "planned_bytes")),
                              bytes_text(used, number(row, "used_bytes")));
        }
    }
    put(w, "</table>\n");
}

static void write_memory(file_writer *w, const json_t *report)
{
    const json_t *rows = member(report, "ledger"), *memory = member(report, "memory");
    char a[SHORT], b[SHORT], c[SHORT];
    if (json_array_size(rows) == 0) return;
    put(w, "<section><h2>Memory</h2>\n");
    write_bars(w, rows);
    if (isfinite(number(memory, "process_peak_bytes")) && isfinite(number(memory, "unaccounted_bytes")) && isfinite(number(memory, "used_peak_bytes")))
        file_writer_print(
            w,
            "<p class=\"soft\">Bars add up every buffer; temporary ones share space, so the peak is %s. The process took %s at most: %s more, for the program, "
            "its libraries and the pages of mapped files.</p>\n",
            bytes_text(a, number(memory, "used_peak_bytes")), bytes_text(b, number(memory, "process_peak_bytes")),
            bytes_text(c, number(memory, "unaccounted_bytes")));
    write_ledger(w, rows);
    put(w, "</section>\n");
}

/* ---- facts ---- */

/* Names of JSON as words: "tokens_per_second" becomes "tokens per second", "load_s" "load". */
static void write_words(file_writer *w, const char *key)
{
    size_t length = strlen(key);
    if (length > 2 && !strcmp(key + length - 2, "_s")) length -= 2;
    for (size_t i = 0; i < length; i++) html_escape(w, key[i] == '_' ? " " : key + i, 1);
}

static void write_fact(file_writer *w, const char *key, const json_t *value)
{
    char text[SHORT];
    put(w, "<div><span>");
    write_words(w, key);
    put(w, "</span><b>");
    if (json_is_string(value)) {
        html_escape(w, json_string_value(value), json_string_length(value));
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value) && i < 20; i++) {
            const json_t *item = json_array_get(value, i);
            put(w, i ? ", " : "");
            if (json_is_string(item)) html_escape(w, json_string_value(item), json_string_length(item));
        }
        if (json_array_size(value) == 0) put(w, "-");
    } else {
        value_text(text, key, value);
        put(w, text);
    }
    put(w, "</b></div>\n");
}

static void write_facts(file_writer *w, const json_t *object, const char *title)
{
    const char *key;
    json_t *value;
    if (json_object_size(object) == 0) return;
    file_writer_print(w, "<section><h2>%s</h2><div class=\"facts\">\n", title);
    json_object_foreach((json_t *)object, key, value)
    {
        if (!json_is_object(value)) write_fact(w, key, value);
    }
    put(w, "</div></section>\n");
}

static void write_foot(file_writer *w, const json_t *report)
{
    const json_t *result = member(report, "result"), *base = member(report, "base");
    put(w, "<footer>");
    file_writer_print(w, "qlft ");
    escape(w, text_or(report, "version", QLFT_VERSION));
    put(w, " &middot; ended: ");
    escape(w, text_or(result, "exit", "not known"));
    put(w, "<br>base ");
    escape(w, text_or(base, "path", ""));
    put(w, " sha256 ");
    escape(w, text_or(base, "sha256", "not known"));
    put(w, "<br>adapter sha256 ");
    escape(w, text_or(result, "adapter_sha256", "none"));
    put(w, "</footer>\n</main></body></html>\n");
}

static qlft_status write_page(file_writer *w, const json_t *report, const json_t *steps)
{
    series s = {0};
    qlft_status status = read_series(&s, steps, member(report, "eval"));
    if (status == QLFT_OK) {
        write_head(w, report);
        write_tiles(w, report, s.count);
        write_warnings(w, report);
        write_samples(w, report);
        status = write_curves(w, &s, json_is_number(member(json_array_get(steps, 0), "tokens")));
        write_memory(w, report);
        write_facts(w, member(report, "phases"), "Time");
        write_facts(w, member(report, "data"), "Data");
        write_facts(w, member(report, "adapter"), "Adapter");
        write_facts(w, member(report, "config"), "Options of the run");
        write_foot(w, report);
    }
    free(s.memory);
    return status;
}

qlft_status report_html_write(const json_t *report, const json_t *steps, const char *path)
{
    file_writer w;
    QLFT_TRY(file_writer_open(&w, path));
    qlft_status status = write_page(&w, report, steps ? steps : member(report, "steps"));
    if (status == QLFT_OK) return file_writer_commit(&w);
    file_writer_abandon(&w);
    return status;
}
