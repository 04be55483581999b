/* report.json as one self-contained HTML page: charts as inline SVG, no scripts, light and dark, printable. */
#ifndef TRAIN_REPORT_HTML_H
#define TRAIN_REPORT_HTML_H

#include <jansson.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `report`: the object of report.json (../shared/CLI.md), with, if there are any, "eval" [{step, loss, tokens}], "warnings" ["..."] and
 * "samples" [{prompt, before, after}] beside. Members that are missing are left out of the page. `steps`: rows as in report.steps, NULL to take those;
 * any number: charts keep at most about 1,200 points each. Written whole or not at all. */
qlft_status report_html_write(const json_t *report, const json_t *steps, const char *path);

#ifdef __cplusplus
}
#endif
#endif
