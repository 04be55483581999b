/* qlft: the public interface of libqlft, and the only header that the command line uses.
 *
 * Conventions
 *   - Every function that can fail returns qlft_status; qlft_last_error() then holds a message of this thread that names
 *     the file, line, tensor or option, what is wrong and what to do. Outputs come first.
 *   - `T **out` becomes yours: close or free it with the function named at its declaration. A returned pointer is borrowed.
 *   - The library never prints and never exits: messages go to the log callback, progress to the observer.
 */
#ifndef QLFT_H
#define QLFT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QLFT_VERSION "0.1.0"

/* One list: enumerator, value, exit status of the command line, text. */
#define QLFT_STATUS_LIST(X)                                                                                                                                    \
    X(QLFT_OK, 0, 0, "done")                                                                                                                                   \
    X(QLFT_EARG, -1, 2, "wrong option or usage")                                                                                                               \
    X(QLFT_EIO, -2, 3, "a file cannot be read or written")                                                                                                     \
    X(QLFT_EFORMAT, -3, 3, "a file is not what it should be")                                                                                                  \
    X(QLFT_ENOMEM, -4, 4, "out of memory")                                                                                                                     \
    X(QLFT_EFIT, -5, 4, "does not fit into the memory budget")                                                                                                 \
    X(QLFT_EDEVICE, -6, 5, "the device failed or is missing")                                                                                                  \
    X(QLFT_EUNSUPPORTED, -7, 3, "not supported")                                                                                                               \
    X(QLFT_ENUMERIC, -8, 6, "a number is not finite or nothing was learned")                                                                                   \
    X(QLFT_ESIGNAL, -9, 130, "stopped by a signal after saving")

typedef enum qlft_status {
#define X(name, value, exit_status, text) name = value,
    QLFT_STATUS_LIST(X)
#undef X
} qlft_status;

/* Exit status of the command line for a status, and its short text (borrowed, static). */
int qlft_exit_status(qlft_status status);
const char *qlft_status_text(qlft_status status);

/* The message of the last failure in this thread; "" if there was none. Valid until this thread's next failing call. */
const char *qlft_last_error(void);

/* ---- log ---- */
typedef enum qlft_log_level { QLFT_LOG_ERROR, QLFT_LOG_WARNING, QLFT_LOG_INFO, QLFT_LOG_DEBUG } qlft_log_level;
typedef void (*qlft_log_fn)(void *payload, qlft_log_level level, const char *message);
/* Messages above `level` are dropped. Without a callback all are. Set it before threads are started. */
void qlft_log_to(qlft_log_fn callback, void *payload, qlft_log_level level);

/* Frees text that the library gave. NULL is fine. */
void qlft_free(void *memory);

/* ---- commands and options: one table makes the command line, --help, recipes, reports and shell completion ---- */
typedef enum qlft_option_kind {
    QLFT_OPTION_TEXT,
    QLFT_OPTION_PATH,
    QLFT_OPTION_PATHS,  /* a list: every value is appended; on the command line several may follow the name */
    QLFT_OPTION_NAMES,  /* a list of names; joined by commas */
    QLFT_OPTION_INT,    /* whole number */
    QLFT_OPTION_NUMBER, /* number */
    QLFT_OPTION_AMOUNT, /* below 1: a share of all steps; from 1 on: a number of steps */
    QLFT_OPTION_SIZE,   /* bytes with a unit: 24GB (1000s), 22GiB or 22G (1024s), or auto */
    QLFT_OPTION_CHOICE,
    QLFT_OPTION_SWITCH, /* on or off; the name alone means on */
    QLFT_OPTION_FLAG    /* the name alone; takes no value but =on or =off */
} qlft_option_kind;

typedef struct qlft_option_info {
    const char *name, *group;
    qlft_option_kind kind;
    const char *value;        /* what stands for the value in help: "PATH", "on|off"; NULL for a flag */
    const char *choices;      /* "nf4|none": the words that a choice takes; NULL for other kinds */
    const char *default_text; /* as one would write it, or in words: "2r"; NULL: none */
    const char *unit;         /* NULL: none */
    const char *bounds;       /* "1 to 65536", "above 0"; NULL: none */
    const char *help;
    bool required;
} qlft_option_info;

/* Options in the order of help. Two rows may share a name if no command takes both. Borrowed, static; NULL past the end. */
int qlft_option_count(void);
const qlft_option_info *qlft_option_at(int index);
bool qlft_option_applies(int index, const char *command);
/* The one of words[count] that is nearest to `text`, NULL if none is near: "did you mean ...". Borrowed. */
const char *qlft_nearest(const char *text, const char *const *words, int count);

/* ---- configuration ---- */
typedef struct qlft_config qlft_config;

/* Defaults for a command: "train" (also NULL), "plan", "eval", "generate", "export", "tokens", "probe", "inspect", "merge", "quantize", "help". */
qlft_status qlft_config_new(qlft_config **out, const char *command);
void qlft_config_free(qlft_config *c); /* accepts NULL */
/* Sets an option by its long name, without dashes. QLFT_EARG names the option, the value, its bounds, or for an unknown name the nearest one.
 * "recipe" reads that YAML file at once: what was or will be set here goes before what a recipe says, in any order. Lists append. */
qlft_status qlft_config_set(qlft_config *c, const char *key, const char *value);
/* Is the option known to this command? For parsers: NULL if not. */
const qlft_option_info *qlft_config_option(const qlft_config *c, const char *key);
/* The value as text, as a recipe would say it; "" if it has none. Yours: qlft_free. */
qlft_status qlft_config_get(char **text, const qlft_config *c, const char *key);
/* Is the value this one? false for an unknown key. */
bool qlft_config_is(const qlft_config *c, const char *key, const char *value);
/* What no single option can tell: required ones, one of several, what this version cannot do (QLFT_EUNSUPPORTED, QLFT_EDEVICE).
 * Every command below does it first. */
qlft_status qlft_config_check(const qlft_config *c);

/* ---- while a command runs ---- */
typedef struct qlft_metrics {
    int64_t step, steps;       /* optimizer steps done (1 after the first), and of the whole run */
    int64_t tokens;            /* of this step, supervised or not */
    int64_t supervised_tokens; /* of this step */
    double loss;               /* mean over supervised tokens */
    double grad_norm;          /* before clipping */
    double lr;                 /* that this step used */
    double seconds;            /* of this step */
} qlft_metrics;

typedef struct qlft_observer { /* any member may be NULL; called from the thread that called the command */
    void *payload;
    /* phase: "load", "quantize", "tokenize", "train", "eval", "save", ...; total 0: not known; unit "tensors", "bytes", "rows", "steps", ... */
    void (*progress)(void *payload, const char *phase, int64_t done, int64_t total, const char *unit);
    void (*step)(void *payload, const qlft_metrics *metrics);
    void (*eval)(void *payload, int64_t step, double loss, int64_t supervised_tokens); /* step 0: before training */
    const volatile sig_atomic_t *stop;                                                 /* non-zero: save what there is and return QLFT_ESIGNAL */
} qlft_observer;

/* ---- commands. JSON texts are yours: qlft_free. `observer` may be NULL. ---- */

/* Trains an adapter, writes everything under --out. *report_path: report.json if one was written (also when stopped), else NULL; yours. */
qlft_status qlft_train(char **report_path, const qlft_config *c, const qlft_observer *observer);

/* The ledger and what would be done to fit; loads no weights. On QLFT_EFIT *json_text is given too.
 * {"base": {as in report.json}, "data": {as in report.json, "cached": bool}, "steps": n, "micro_batch_tokens": n, "fits": bool,
 *  "choices": {"checkpointing": "block", "page-optim": "off", "loss-chunk": 128, ...},
 *  "levers": [{"name": "...", "cost": "...", "pulled": bool, "saves_bytes": n}],
 *  "ledger": [{"owner", "name", "kind", "tier", "planned_bytes"}],
 *  "memory": {"planned_peak_bytes": n, "tiers": {"device": {"planned_peak_bytes": n, "budget_bytes": n}, "host": {...}}}} */
qlft_status qlft_plan(char **json_text, const qlft_config *c, const qlft_observer *observer);

/* {"loss", "perplexity", "samples", "supervised_tokens", "tokens", "seconds", "tokens_per_second"} */
qlft_status qlft_eval(char **json_text, const qlft_config *c, const qlft_observer *observer);

typedef struct qlft_answer { /* one answered row of --data */
    int64_t line, tokens;
    const char *file, *prompt, *text, *end; /* end: "stop" or "length" */
    size_t prompt_bytes, text_bytes;
    const char *error; /* not NULL: the row could not be used */
} qlft_answer;

typedef struct qlft_conversation { /* how generation talks; members that the mode does not need may be NULL */
    void *payload;
    /* Bytes of the answer as they come, whole UTF-8 characters only (--prompt, --chat). */
    void (*text)(void *payload, const char *bytes, size_t count);
    /* --chat: the next thing the user says, from malloc(), taken over; false: the conversation is over. */
    bool (*turn)(void *payload, char **said);
    void (*turn_end)(void *payload, int64_t tokens, const char *end);
    bool (*answer)(void *payload, const qlft_answer *answer); /* --data; false: enough */
} qlft_conversation;
/* {"prompt_tokens", "tokens", "seconds", "tokens_per_second", "end"} */
qlft_status qlft_generate(char **json_text, const qlft_config *c, const qlft_conversation *io, const qlft_observer *observer);

/* {"path", "format", "tensors", "bytes", "sha256", ...} */
qlft_status qlft_export(char **json_text, const qlft_config *c, const qlft_observer *observer);

typedef struct qlft_token_row {
    int64_t line;     /* in its file, 1 for the first; with --text 1 */
    const char *file; /* NULL with --text */
    const char *text; /* rendered; NULL for a bad row */
    size_t text_bytes;
    const int32_t *ids, *labels; /* [count]; labels[i] = ids[i] where token i is a target, else -100 */
    const char *const *pieces;   /* [count]: the bytes of each token, as text shows them; may be part of a character */
    const size_t *piece_bytes;   /* [count] */
    const bool *special;         /* [count] */
    size_t count;
    const char *error; /* not NULL: a bad row */
} qlft_token_row;
/* Calls `row` for each row in order, good or bad; false ends it. With --on-bad-row stop a bad row makes it QLFT_EFORMAT at the end. */
qlft_status qlft_tokens(const qlft_config *c, bool (*row)(void *payload, const qlft_token_row *row), void *payload, const qlft_observer *observer);

/* {"out", "loss", "grad_norm" (with an adapter), "tokens", "supervised_tokens", "tensors", "seconds"} */
qlft_status qlft_probe(char **json_text, const qlft_config *c, const qlft_observer *observer);

/* {"path", "kind": "model"|"adapter"|"safetensors"|"gguf", facts ..., "metadata": {...}, "tensors": [{"name", "type", "shape": [...], "bytes"}]} */
qlft_status qlft_inspect(char **json_text, const char *path);

#ifdef __cplusplus
}
#endif
#endif
