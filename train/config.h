/* The configuration: the values of the option table as plain typed fields. Code of train/ reads the fields; they are written through options.c and config.c
 * only. */
#ifndef TRAIN_CONFIG_H
#define TRAIN_CONFIG_H

#include <jansson.h>

#include "train/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values of choices, in the order of the table. Formats, train-on, on-bad-row and on-long have the values of data/dataset.h. */
enum { QUANT_NF4, QUANT_NONE };
enum { COMPUTE_BF16, COMPUTE_F32, COMPUTE_F16 };
enum { SCHEDULE_COSINE, SCHEDULE_LINEAR, SCHEDULE_CONSTANT, SCHEDULE_WSD, SCHEDULE_WSD_LINEAR };
enum { OPTIM_ADAMW, OPTIM_ADAMW8 };
enum { CHECKPOINTING_AUTO, CHECKPOINTING_NONE, CHECKPOINTING_BLOCK };
enum { CHOOSE_AUTO, CHOOSE_ON, CHOOSE_OFF };
enum { ADAPTER_PEFT, ADAPTER_GGUF };
enum { TASK_NONE, TASK_MMLU, TASK_GSM8K };
enum { COMPLETION_NONE, COMPLETION_BASH };

enum { CONFIG_MAX_OPTIONS = 128 };
typedef enum config_source { SOURCE_DEFAULT, SOURCE_RECIPE, SOURCE_SET } config_source;

struct qlft_config {
    unsigned command; /* one COMMAND_ bit */

    /* base */
    char *base; /* --base; NULL: not given */
    int quant;  /* QUANT_ */
    bool double_quant;
    int compute;   /* COMPUTE_ */
    char *adapter; /* --adapter: continue from (train) or apply (others); NULL: none */

    /* adapter */
    int64_t r;
    double alpha; /* 0: not given; ask config_alpha */
    double dropout;
    char *targets; /* "all-linear", "q_proj,v_proj" or a pattern */
    bool rslora;

    /* data */
    char **data, **eval_data; /* paths, "-" is standard input */
    int data_count, eval_data_count;
    int format; /* data_format */
    bool shuffle;
    char *template_path; /* "auto": the model's own */
    int train_on;        /* data_train_on */
    int64_t seq;
    bool packing;
    int on_bad_row; /* data_on_bad_row */
    int on_long;    /* data_on_long */
    char *cache;    /* NULL: not given; ask config_cache_folder */

    /* training */
    int64_t epochs, steps; /* steps 0: by epochs */
    int64_t batch, accum;
    double lr, min_lr;    /* min_lr: a share of lr */
    int schedule;         /* SCHEDULE_; ask config_schedule for the name */
    double warmup, decay; /* amounts: ask config_steps_of */
    double weight_decay, clip, beta1, beta2, eps;
    int optim; /* OPTIM_ */
    int64_t seed;

    /* memory */
    size_t memory, host_memory;                        /* bytes; 0: what is free */
    int checkpointing;                                 /* CHECKPOINTING_ */
    int page_optim, offload_activations, offload_base; /* CHOOSE_ */
    int64_t loss_chunk;                                /* rows; 0: chosen */

    /* running */
    char *device;    /* "auto", "cpu", "cuda", "cuda:1" */
    int64_t threads; /* 0: all */
    char *out;
    int64_t save_every, keep, eval_every, samples; /* steps; 0: only at the end (save), only before and after (eval) */
    bool gguf;
    char *resume; /* NULL: no; "auto" or a path */
    char *recipe;
    bool quiet, json;
    int log_level; /* qlft_log_level */

    /* generate */
    char *prompt, *system;
    bool chat;
    int64_t max_tokens, top_k; /* top_k 0: all */
    double temperature, top_p;

    /* tokens */
    char *text;
    bool raw, no_special;
    int64_t limit; /* rows; 0: all */

    /* probe, export, eval, help */
    char *batch_path;
    int adapter_format; /* ADAPTER_ */
    int task;           /* TASK_ */
    bool help, version, markdown;
    int completion; /* COMPLETION_ */

    unsigned char source[CONFIG_MAX_OPTIONS]; /* config_source of each row of options[] */
};

/* Was the option given, by a recipe or by the caller? */
bool config_given(const qlft_config *c, const char *key);

double config_alpha(const qlft_config *c); /* --alpha, or 2r */
/* The factor on B A x: alpha / r, with --rslora alpha / sqrt(r). */
double config_scale(const qlft_config *c);
/* The schedule's name as optim/schedule.c knows it. */
const char *config_schedule(const qlft_config *c);
/* An amount below 1 is a share of all steps, rounded down; else steps, also more than `steps`: the end of the run then cuts a warm-up off, as in
 * transformers. */
int64_t config_steps_of(double amount, int64_t steps);
/* Where token caches go: --cache, else $XDG_CACHE_HOME/qlft, else $HOME/.cache/qlft. Yours: free(). NULL: there is no such place (cache nothing). */
char *config_cache_folder(const qlft_config *c);

/* The value as a recipe says it; yours: free(). NULL: it has none, or no memory. */
char *config_text(const qlft_config *c, const option_row *row);
/* All options of the run by their long names, typed, defaults too: the report's `config`. Yours: json_decref. NULL: no memory. */
json_t *config_json(const qlft_config *c);

/* As qlft_config_set, from a source: a value from a weaker source than the present one is checked, then dropped. */
qlft_status config_set_from(qlft_config *c, const char *key, const char *value, config_source source);

/* Recipes (train/recipe.c): YAML, one mapping of long option names; values are scalars, or lists for lists. Messages name file and line. Keys that only
 * other commands take are passed over, so that a run's recipe serves eval, tokens and generate too. */
qlft_status recipe_read(qlft_config *c, const char *path);
/* The effective configuration with a comment for each option; whole or not at all. */
qlft_status recipe_write(const qlft_config *c, const char *path);

#ifdef __cplusplus
}
#endif
#endif
