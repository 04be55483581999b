/* Rows of JSONL files to samples of token ids with targets, in a mapped cache file. Data knows nothing of models, only of token ids.
 *
 * Files: one JSON object a line, or one top-level array, or pretty-printed objects; .txt: the whole file is one text, which is split into pieces of max_tokens
 * also under LONG_TRUNCATE. Any of them gzipped. Strict UTF-8; blank lines are ignored and counted; of equal keys the last wins; unknown fields do not matter.
 *
 * Formats. FORMAT_AUTO decides for each row by its keys, in the order of this table; where several fit, the format of the file's last good row.
 *   tokens    input_ids, and labels (-100 or the id) or all: taken as they are, kept also without a target
 *   messages  messages of role and content; content parts of the type text are joined without anything between; others are errors
 *   sharegpt  conversations of from and value (human, gpt, ...) or role and content, and a top-level system
 *   alpaca    instruction, output, perhaps input: by the chat template if there is one (input behind an empty line), else Stanford Alpaca's text
 *   prompt    prompt and completion as strings, tokenised as one text, EOS behind; or as lists of messages
 *   text      text with EOS behind
 * BOS comes from the tokenizer (text, prompt) or from the template (chat), never twice. EOS is put once, never behind a text that was cut.
 *
 * Targets. text: all tokens. prompt, alpaca: the answer with EOS; a token that lies across the border counts. Conversations: every assistant turn, from the
 * generation prompt to the token that ends the turn, both for TRAIN_ON_COMPLETION and TRAIN_ON_ASSISTANT (but not the turns of a `prompt` list).
 * TRAIN_ON_ALL: every token. Rows without a target that counts are left out and counted, but for tokens rows. */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include "data/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum data_format { FORMAT_AUTO, FORMAT_TEXT, FORMAT_PROMPT, FORMAT_ALPACA, FORMAT_SHAREGPT, FORMAT_MESSAGES, FORMAT_TOKENS } data_format;
typedef enum data_train_on { TRAIN_ON_COMPLETION, TRAIN_ON_ASSISTANT, TRAIN_ON_ALL } data_train_on;
typedef enum data_on_bad_row { BAD_ROW_STOP, BAD_ROW_SKIP } data_on_bad_row;
typedef enum data_on_long { LONG_TRUNCATE, LONG_DROP, LONG_SPLIT, LONG_ERROR } data_on_long;

typedef struct data_options {
    const char *const *paths; /* files; "-" is standard input */
    int path_count;
    data_format format;
    const char *template_path; /* NULL or "auto": the model's own */
    data_train_on train_on;
    int64_t max_tokens; /* --seq: the longest sample; 0 = no limit */
    data_on_bad_row on_bad_row;
    data_on_long on_long;
    int64_t vocabulary;       /* ids at or above it are bad rows that name line, token and size; 0 = unknown */
    const char *cache_folder; /* NULL: no cache file is kept (a temporary one, unlinked, is used) */
    bool raw;                 /* `qlft tokens --raw`: the text field alone, no template, nothing added */
    bool prompt_only; /* for generation: a row is what comes in front of its (last) answer, with the generation prompt; the answer may be missing. No EOS,
                       * no targets; rows of ids end before their first target */
    bool no_special;  /* text of special tokens is plain text */
} data_options;

/* What became of the rows. */
typedef struct data_counts {
    int64_t rows, samples;             /* rows read (blank lines are none); samples kept (split makes several) */
    int64_t bad, unsupervised;         /* not usable: skipped; nothing to learn: skipped, but for `idle` ones */
    int64_t idle;                      /* of unsupervised: rows of ids, which are kept as they are */
    int64_t truncated, dropped, split; /* rows longer than max_tokens, by what was done */
    int64_t tokens, supervised;        /* of the samples kept; supervised = targets that count, that is, predicted ones */
    int64_t longest;                   /* tokens of the longest sample */
    int64_t marked;                    /* samples whose own text (not the template's) holds the text of a special token, which counts as that token */
} data_counts;

typedef struct sample {
    const int32_t *tokens;  /* [length] in the map */
    const uint8_t *targets; /* [ceil(length / 8)] in the map: bit i % 8 of byte i / 8 is set where token i is a target. Token 0 may be marked but never counts
                             * (nothing predicts it) */
    int64_t length;
    int64_t supervised; /* targets that count */
    int64_t line;       /* physical line in its file, 1 for the first */
    int32_t file;       /* index of the path */
} sample;

static inline bool sample_is_target(const sample *s, int64_t i)
{
    return (s->targets[i / 8] >> (i % 8) & 1) != 0;
}

/* As Hugging Face writes labels: the id where token i is a target, else -100. */
static inline int32_t sample_label(const sample *s, int64_t i)
{
    return sample_is_target(s, i) ? s->tokens[i] : -100;
}

typedef struct dataset dataset;

typedef void (*data_progress)(void *payload, int64_t bytes_done, int64_t bytes_total);

/* Reads, renders and tokenises everything once into a cache file named by the hash of data, tokenizer, template and options, or maps that file if it is there.
 * tok may be NULL for FORMAT_TOKENS. *stop is asked between rows (may be NULL): QLFT_ESIGNAL. */
qlft_status dataset_open(dataset **out, const data_options *options, const tokenizer *tok, data_progress progress, void *payload, const volatile int *stop);
void dataset_close(dataset *s);
int64_t dataset_size(const dataset *s); /* samples */
sample dataset_sample(const dataset *s, int64_t index);
data_counts dataset_counts(const dataset *s);
const char *dataset_hash(const dataset *s); /* of the samples' content: for resume. Borrowed */
bool dataset_was_cached(const dataset *s);

/* ---- one row, for `qlft tokens` and generate ---- */
typedef struct data_row {
    const char *text; /* rendered; NULL for tokens rows */
    size_t text_bytes;
    size_t asked_start, asked_bytes; /* what is said last in the text: of a conversation the last message, else the whole text */
    const int32_t *ids, *labels;
    size_t count;
    bool bad; /* then error says why */
    char error[512];
    int64_t line;
    int32_t file;
} data_row;
/* Calls `row` for each row in order, bad rows included, and with count 0 those without a token; stops early if it returns false. Lengths are not limited unless
 * options say so. */
qlft_status data_each_row(const data_options *options, const tokenizer *tok, bool (*row)(void *payload, const data_row *row), void *payload);

/* ---- batches ---- */
/* A micro-batch is one flat run of tokens: samples laid end to end, no padding. first[] keeps attention inside a sample, positions restart. */
typedef struct batch {
    int32_t *tokens, *targets;  /* [count]; targets[i]: what token i should predict (the label of i + 1 in its sample), -1 = not counted */
    int32_t *positions, *first; /* [count]; first[i]: index in this run where the sample of token i begins */
    int32_t *sample_of;         /* [count]: index into samples[] */
    int64_t *samples;           /* [sample_count] dataset indices */
    int64_t count, counted;     /* tokens; targets that count */
    int64_t sample_count;
} batch;

typedef struct batch_options {
    int64_t batch; /* micro-batch rows */
    int64_t seq;   /* packing: tokens of a row at most */
    int64_t accum; /* micro-batches of an optimizer step */
    bool shuffle, packing;
    uint64_t seed;
} batch_options;

/* The order of an epoch is a function of (seed, epoch) and the data. Packing puts samples, in that order, into rows of at most seq tokens (first fit over a
 * bounded window, so that the order stays nearly the epoch's). A last window of fewer than accum micro-batches is a step like any other. */
typedef struct batcher batcher;
qlft_status batcher_open(batcher **out, const dataset *s, const batch_options *options);
void batcher_close(batcher *b);
int64_t batcher_max_tokens(const batcher *b);         /* the largest micro-batch that can come, any epoch: what the plan is made for */
int64_t batcher_max_counted(const batcher *b);        /* the most counted targets of a micro-batch, an upper bound */
qlft_status batcher_start(batcher *b, int64_t epoch); /* plans that epoch */
int64_t batcher_micro_batches(const batcher *b);      /* of the started epoch */
int64_t batcher_steps(const batcher *b);              /* optimizer steps of the started epoch: ceil(micro_batches / accum) */
/* Fills `out`, whose arrays have room for batcher_max_tokens (samples: as many). */
qlft_status batcher_get(const batcher *b, int64_t micro_batch, batch *out);
/* Arrays of a batch on the heap, for tests and small commands. */
qlft_status batch_alloc(batch *out, int64_t tokens);
void batch_free(batch *b);

#ifdef __cplusplus
}
#endif
#endif
