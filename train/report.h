/* report.json: what a run was, what it took, what came out. The shape is fixed in CLI.md of the project's owner and in docs/formats.md. */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include "train/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `exit` in words: "done", "interrupted at step 12". adapter_sha256: NULL if none was written. Yours: json_decref; NULL without memory. */
json_t *report_make(run *r, const history *h, const char *exit_text, const char *adapter_sha256);
json_t *report_base(const run *r, bool with_hash); /* {path, architecture, parameters, sha256} */
json_t *report_data(const dataset *data);          /* {samples, skipped, truncated, tokens, supervised_tokens, ...} */

/* One self-contained file (train/report_html.c). */
qlft_status report_html_write(const json_t *report, const json_t *steps, const char *path);

#ifdef __cplusplus
}
#endif
#endif
