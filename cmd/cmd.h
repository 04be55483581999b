/* The command line over qlft.h: one file a command, one row a command. Nothing here knows how anything is done. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include <jansson.h>
#include <stdio.h>

#include "qlft.h"

/* ---- progress on standard error (progress.c) ---- */
typedef struct progress progress;
typedef struct call {
    const char *program; /* as it was called, for commands that are shown to be copied */
    qlft_config *config;
    const char *operand; /* what is not an option: inspect's PATH, help's COMMAND; NULL: none */
    progress *shown;
    qlft_observer observer; /* draws `shown` and carries the stop flag */
    bool json, quiet;
} call;

/* NULL without memory. Lines are drawn in place on a terminal, else plain lines are written; quiet: only messages of warning and above. */
progress *progress_open(bool quiet);
void progress_close(progress *p); /* clears the line; accepts NULL */
/* Takes the line away before something else is written to the terminal. */
void progress_clear(progress *p);
void progress_watch(progress *p, qlft_observer *out); /* fills the callbacks; leaves out->stop alone */
/* For qlft_log_to; payload is the progress. */
void progress_log(void *payload, qlft_log_level level, const char *message);

/* ---- commands ---- */
typedef struct command {
    const char *name;
    qlft_status (*run)(call *c);
    const char *line;    /* what it does, in one line */
    const char *usage;   /* behind "qlft NAME " */
    const char *details; /* more for --help; NULL: nothing */
    const char *operand; /* "PATH" if it takes one word that is no option; NULL: it does not */
    bool stream;         /* writes results as they come: a closed pipe ends it */
} command;
extern const command commands[];
extern const int commands_count;
const command *command_find(const char *name); /* NULL if there is none */

qlft_status cmd_train(call *c);
qlft_status cmd_plan(call *c);
qlft_status cmd_eval(call *c);
qlft_status cmd_generate(call *c);
qlft_status cmd_later(call *c); /* merge and quantize: refused by qlft_config_check */
qlft_status cmd_export(call *c);
qlft_status cmd_tokens(call *c);
qlft_status cmd_probe(call *c);
qlft_status cmd_inspect(call *c);
qlft_status cmd_help(call *c);
void help_overview(FILE *to);
void help_command(FILE *to, const command *which);

/* ---- arguments (arguments.c) ---- */
/* Hands each option to the configuration, and keeps the operand. */
qlft_status arguments_read(call *c, const command *which, int count, char **words);

/* ---- showing (show.c) ---- */
/* A failure of the command line itself: its message in place of qlft_last_error(). Returns status. */
qlft_status say_error(qlft_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *said_error(void); /* "" if nothing was said */

enum { SHOWN_BYTES = 32 };
const char *show_bytes(char out[SHOWN_BYTES], double bytes);  /* "812.3 MiB" */
const char *show_count(char out[SHOWN_BYTES], int64_t count); /* "1,234,567" */
const char *show_time(char out[SHOWN_BYTES], double seconds); /* "0.8 s", "3:12", "1:02:09" */
int show_width(int handle);                                   /* columns of the terminal behind it; 80 if there is none */
bool show_utf8(void);                                         /* does the locale take UTF-8? */
bool show_colour(FILE *to);                                   /* a terminal, and neither NO_COLOR nor TERM=dumb */
/* Text with control characters made visible, so that a file cannot steer the terminal; newline and tab pass if `lines`. */
void show_text(FILE *to, const char *text, size_t bytes, bool lines);
void show_shell_word(FILE *to, const char *word); /* quoted if a shell would need it */
/* Scalars of an object as aligned "name  value" lines; nested objects indented; arrays of scalars in one line. */
void show_facts(FILE *to, const json_t *object, int indent);
/* The JSON text as it is (--json) or as facts. Frees it. */
qlft_status show_result(const call *c, char *json_text);
qlft_status json_of_text(json_t **out, const char *text); /* of what qlft.h gave; yours: json_decref */

#endif
