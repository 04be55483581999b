/* The one table of options: the command line, recipes, --help, reports, docs/cli.md and shell completion are made from it.
 *
 * A row says where its value lives in qlft_config (offset) and how it is read, checked and written (kind, bounds, choices). A new option is a
 * row here and a field in config.h. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Commands as bits. */
enum {
    COMMAND_TRAIN = 1 << 0,
    COMMAND_PLAN = 1 << 1,
    COMMAND_EVAL = 1 << 2,
    COMMAND_GENERATE = 1 << 3,
    COMMAND_MERGE = 1 << 4,
    COMMAND_EXPORT = 1 << 5,
    COMMAND_QUANTIZE = 1 << 6,
    COMMAND_TOKENS = 1 << 7,
    COMMAND_PROBE = 1 << 8,
    COMMAND_INSPECT = 1 << 9,
    COMMAND_HELP = 1 << 10
};
/* The bit of a command's name (NULL: train), 0 if there is none. */
unsigned command_bit(const char *name);
/* The name of one bit; NULL if there is none. */
const char *command_name(unsigned bit);

enum {
    OPTION_REQUIRED = 1,  /* the command cannot do without it */
    OPTION_ABOVE = 2,     /* the lower bound itself is refused */
    OPTION_BELOW = 4,     /* the upper bound itself is refused */
    OPTION_NO_RECIPE = 8, /* belongs to the call, not to the run: not written into recipes and reports */
    OPTION_AUTO = 16,     /* the value 0 is not writable and means that the default in words holds */
};

typedef struct option_row {
    qlft_option_info info; /* default_text of words (OPTION_AUTO, or NULL values) is for people; all else is parsed by config.c */
    unsigned         commands, flags;
    double           min, max;   /* of numbers; both 0: none */
    const char      *choices;    /* "adamw|adamw8": the field holds the index */
    size_t           offset, count_offset; /* in qlft_config; count_offset of lists */
} option_row;

extern const option_row options[];
extern const int        options_count;

/* The row that `command` (one bit) takes by this name; NULL if it takes none. */
const option_row *option_find(const char *name, unsigned command);
/* A message for a name that `command` does not take: the nearest name, or the command it belongs to. QLFT_EARG. */
qlft_status option_unknown(const char *name, unsigned command);
/* Words `text` of a '|'-separated list: index, or -1. And the word at index: its start; *length. */
int         choice_index(const char *choices, const char *text);
const char *choice_at(const char *choices, int index, int *length);
/* The word of choices (NULL-terminated list) nearest to `text`, NULL if none is near: Damerau-Levenshtein distance of at most a third of the length, and 1 at least. */
const char *nearest_word(const char *text, const char *const *words, int count);

#ifdef __cplusplus
}
#endif
#endif
