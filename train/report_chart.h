/* Charts of a report as inline SVG: lines over steps. Colours and fonts are classes of the page's style sheet (train/report_html.c). */
#ifndef TRAIN_REPORT_CHART_H
#define TRAIN_REPORT_CHART_H

#include "core/file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Points that are not finite are left out. x ascends. */
typedef struct chart_line {
    const char *label;   /* for the legend; NULL: not in it */
    const char *css;     /* class of the stroke */
    const double *x, *y; /* [count], borrowed */
    size_t count;
    bool marks; /* a mark with a tooltip at each point */
} chart_line;

typedef struct chart {
    const char *title, *unit; /* unit of y, behind the title; may be "" */
    int width, height;
    bool from_zero; /* y begins at 0 */
    const chart_line *lines;
    int line_count;
} chart;

/* Writes one <svg>. More than about 1,200 points of a line are thinned: each column of the picture keeps its lowest and highest.
 * A few points far above all others are cut off at the top, and a note says how high they go. QLFT_ENOMEM. */
qlft_status chart_write(file_writer *w, const chart *c);

/* &, <, >, quotes as entities; control characters as U+FFFD, which HTML cannot hold. */
void html_escape(file_writer *w, const char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
