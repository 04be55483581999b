#include "train/report_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pixels around the plot: left holds the numbers of y, bottom those of x, top the title. */
enum { LEFT = 54, RIGHT = 14, TOP = 34, BOTTOM = 26, COLUMNS_MAX = 600, HOVER_MAX = 240 };

typedef struct plot {
    file_writer *out;
    const chart *about;
    double x_low, x_high, y_low, y_high; /* of the axes */
    double highest, highest_at;          /* of the points; above y_high if some were cut off */
} plot;

void html_escape(file_writer *w, const char *text, size_t bytes)
{
    static const struct {
        char character;
        const char *entity;
    } entities[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
    size_t from = 0;
    for (size_t i = 0; i < bytes; i++) {
        const char *entity = NULL;
        for (size_t e = 0; e < sizeof entities / sizeof entities[0]; e++)
            if (text[i] == entities[e].character) entity = entities[e].entity;
        unsigned char byte = (unsigned char)text[i];
        if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) entity = "&#xFFFD;";
        if (!entity) continue;
        file_writer_put(w, text + from, i - from);
        file_writer_put(w, entity, strlen(entity));
        from = i + 1;
    }
    file_writer_put(w, text + from, bytes - from);
}

static void escape(file_writer *w, const char *text)
{
    html_escape(w, text, strlen(text));
}

/* ---- axes ---- */

static double pixel_x(const plot *p, double x)
{
    return LEFT + (x - p->x_low) / (p->x_high - p->x_low) * (p->about->width - LEFT - RIGHT);
}

static double pixel_y(const plot *p, double y)
{
    double inside = y > p->y_high ? p->y_high : y < p->y_low ? p->y_low : y;
    return TOP + (p->y_high - inside) / (p->y_high - p->y_low) * (p->about->height - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, so that about `count` steps of it make `span`. */
static double nice_step(double span, int count)
{
    double raw = span / count, power = pow(10, floor(log10(raw))), digit = raw / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The axes' ranges. Some spikes would flatten all else: above the 98th percentile by more than three times what lies below it, they are cut. */
static qlft_status measure(plot *p)
{
    const chart *c = p->about;
    size_t all = 0, count = 0;
    for (int l = 0; l < c->line_count; l++) all += c->lines[l].count;
    double *sorted = malloc((all + 1) * sizeof *sorted);
    if (!sorted) return status_fail(QLFT_ENOMEM, "report: out of memory for a chart of %zu points", all);
    p->x_high = p->highest = -INFINITY;
    p->x_low = INFINITY;
    for (int l = 0; l < c->line_count; l++) {
        for (size_t i = 0; i < c->lines[l].count; i++) {
            double x = c->lines[l].x[i], y = c->lines[l].y[i];
            if (!isfinite(x) || !isfinite(y)) continue;
            sorted[count++] = y;
            if (x < p->x_low) p->x_low = x;
            if (x > p->x_high) p->x_high = x;
            if (y > p->highest) {
                p->highest = y;
                p->highest_at = x;
            }
        }
    }
    qsort(sorted, count, sizeof *sorted, ascending);
    if (count == 0) {
        sorted[count++] = 0;
        p->x_low = p->x_high = p->highest = 0;
    }
    p->y_low = c->from_zero && sorted[0] > 0 ? 0 : sorted[0];
    p->y_high = sorted[count - 1];
    double usual = sorted[(size_t)(0.98 * (double)(count - 1))];
    if (p->y_high - usual > 3 * (usual - p->y_low) && usual > p->y_low && count >= 20) p->y_high = usual + 0.15 * (usual - p->y_low);
    free(sorted);
    if (!(p->x_high > p->x_low)) {
        p->x_low -= 0.5;
        p->x_high += 0.5;
    }
    /* One flat line is put into the middle of something. */
    double least = fabs(p->y_high) > 0 ? 0.1 * fabs(p->y_high) : 1;
    if (!(p->y_high > p->y_low)) {
        p->y_high += least;
        if (!(c->from_zero && p->y_low == 0)) p->y_low -= least;
    }
    double step = nice_step(p->y_high - p->y_low, 4);
    p->y_low = floor(p->y_low / step + 1e-9) * step;
    p->y_high = ceil(p->y_high / step - 1e-9) * step;
    return QLFT_OK;
}

/* "1.5e-4" */
static void scientific_text(char out[32], double value)
{
    int exponent = (int)floor(log10(fabs(value)) + 1e-9);
    snprintf(out, 32, "%.3ge%d", value / pow(10, exponent), exponent);
}

/* "0.002", "12", "12k", "1.5M", "1.5e-4" */
static void tick_text(char out[32], double value, double step)
{
    double size = fabs(value);
    if (size < 1e-12 * step || size == 0)
        snprintf(out, 32, "0");
    else if (size >= 1e6)
        snprintf(out, 32, "%gM", value / 1e6);
    else if (size >= 1e4)
        snprintf(out, 32, "%gk", value / 1e3);
    else {
        int decimals = step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);
        if (decimals > 3)
            scientific_text(out, value);
        else
            snprintf(out, 32, "%.*f", decimals, value);
    }
}

static void draw_axes(const plot *p)
{
    const chart *c = p->about;
    char text[32];
    double step = nice_step(p->y_high - p->y_low, c->height > 220 ? 6 : 4);
    for (int i = 0; p->y_low + i * step <= p->y_high + 1e-9 * step; i++) {
        double value = p->y_low + i * step, at = pixel_y(p, value);
        tick_text(text, value, step);
        file_writer_print(p->out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT, at,
                          c->width - RIGHT, LEFT - 7, at + 4, text);
    }
    step = nice_step(p->x_high - p->x_low, c->width > 500 ? 10 : 5);
    if (step < 1) step = 1;
    for (double value = ceil(p->x_low / step) * step; value <= p->x_high; value += step) {
        tick_text(text, value, step);
        file_writer_print(p->out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", pixel_x(p, value), c->height - 8, text);
    }
}

static void draw_title(const plot *p)
{
    const chart *c = p->about;
    file_writer_print(p->out, "<text class=\"title\" x=\"%d\" y=\"16\">", LEFT - 46);
    escape(p->out, c->title);
    if (c->unit && *c->unit) {
        file_writer_print(p->out, "<tspan class=\"tick\" dx=\"6\">");
        escape(p->out, c->unit);
        file_writer_print(p->out, "</tspan>");
    }
    file_writer_print(p->out, "</text>\n");
    int x = c->width - RIGHT;
    for (int l = c->line_count - 1; l >= 0; l--) {
        if (!c->lines[l].label) continue;
        /* About 6.4 pixels a letter of the 12-pixel font. */
        x -= (int)(6.4 * (double)strlen(c->lines[l].label));
        file_writer_print(p->out, "<text class=\"tick\" x=\"%d\" y=\"16\">", x);
        escape(p->out, c->lines[l].label);
        file_writer_print(p->out, "</text><path class=\"line %s\" d=\"M%d 12h16\"/>\n", c->lines[l].css, x - 22);
        x -= 36;
    }
}

/* Said over the lines, so that it can be read. */
static void draw_note(const plot *p)
{
    if (p->highest > p->y_high)
        file_writer_print(p->out, "<text class=\"tick over\" x=\"%d\" y=\"%d\" text-anchor=\"end\">up to %.3g at step %.0f</text>\n", p->about->width - RIGHT,
                          TOP + 14, p->highest, p->highest_at);
}

/* ---- lines ---- */

/* Points from `from` on that share a column of the picture: [from, *end), with the lowest and the highest of them. */
static void take_column(const chart_line *line, size_t from, size_t *end, size_t per_column, size_t *low, size_t *high)
{
    *end = from + per_column < line->count ? from + per_column : line->count;
    *low = *high = line->count;
    for (size_t i = from; i < *end; i++) {
        if (!isfinite(line->y[i])) continue;
        if (*low == line->count || line->y[i] < line->y[*low]) *low = i;
        if (*high == line->count || line->y[i] > line->y[*high]) *high = i;
    }
}

static void draw_point(const plot *p, const chart_line *line, size_t i, bool first)
{
    file_writer_print(p->out, "%s%.1f %.1f", first ? "M" : "L", pixel_x(p, line->x[i]), pixel_y(p, line->y[i]));
}

static void draw_line(const plot *p, const chart_line *line)
{
    size_t per_column = (line->count + COLUMNS_MAX - 1) / COLUMNS_MAX, drawn = 0, last = 0;
    file_writer_print(p->out, "<path class=\"line %s\" d=\"", line->css);
    for (size_t from = 0, end, low, high; from < line->count; from = end) {
        take_column(line, from, &end, per_column, &low, &high);
        if (low == line->count) continue;
        last = low < high ? high : low;
        draw_point(p, line, low < high ? low : high, drawn++ == 0);
        if (low != high) draw_point(p, line, last, drawn++ == 0);
    }
    file_writer_print(p->out, "\"/>\n");
    if (drawn == 1)
        file_writer_print(p->out, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", line->css, pixel_x(p, line->x[last]),
                          pixel_y(p, line->y[last]));
}

static void draw_marks(const plot *p, const chart_line *line)
{
    for (size_t i = 0; i < line->count && i < HOVER_MAX; i++) {
        if (!isfinite(line->y[i])) continue;
        file_writer_print(p->out, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>step %.0f: %.4f</title></circle>\n", line->css,
                          pixel_x(p, line->x[i]), pixel_y(p, line->y[i]), line->x[i], line->y[i]);
    }
}

/* Invisible columns that show the numbers under the pointer, without a script. */
static void draw_hover(const plot *p, const chart_line *line)
{
    const chart *c = p->about;
    size_t per_column = (line->count + HOVER_MAX - 1) / HOVER_MAX;
    double wide = (double)(c->width - LEFT - RIGHT) / (double)(line->count < HOVER_MAX ? line->count : HOVER_MAX);
    for (size_t from = 0, end, low, high; from < line->count; from = end) {
        take_column(line, from, &end, per_column, &low, &high);
        if (low == line->count) continue;
        double x = pixel_x(p, line->x[(from + end - 1) / 2]);
        file_writer_print(p->out, "<g class=\"h\"><path d=\"M%.1f %dV%d\"/><rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/><title>", x, TOP,
                          c->height - BOTTOM, x - wide / 2, TOP, wide, c->height - TOP - BOTTOM);
        if (low == high)
            file_writer_print(p->out, "step %.0f: %.4g", line->x[low], line->y[low]);
        else
            file_writer_print(p->out, "steps %.0f to %.0f: %.4g to %.4g", line->x[from], line->x[end - 1], line->y[low], line->y[high]);
        file_writer_print(p->out, "</title></g>\n");
    }
}

qlft_status chart_write(file_writer *w, const chart *c)
{
    plot p = {.out = w, .about = c};
    QLFT_TRY(measure(&p));
    file_writer_print(w, "<svg class=\"chart\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", c->width, c->height);
    escape(w, c->title);
    file_writer_print(w, "\">\n");
    draw_axes(&p);
    draw_title(&p);
    for (int l = 0; l < c->line_count; l++) draw_line(&p, &c->lines[l]);
    if (c->line_count) draw_hover(&p, &c->lines[0]);
    for (int l = 0; l < c->line_count; l++)
        if (c->lines[l].marks) draw_marks(&p, &c->lines[l]);
    draw_note(&p);
    file_writer_print(w, "</svg>\n");
    return QLFT_OK;
}
