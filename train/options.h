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
    OPTION_ABOVE = 1,     /* the lower bound itself is refused */
    OPTION_BELOW = 2,     /* the upper bound itself is refused */
    OPTION_NO_RECIPE = 4, /* belongs to the call, not to the run: not written into recipes and reports */
    OPTION_WORDS = 8      /* the default is said in words for people and is not parsed: the field stays 0 or NULL */
};

typedef struct option_row {
    qlft_option_info info;
    unsigned commands, flags;
    double min, max;                         /* of numbers; both 0: none */
    size_t offset, count_offset;             /* in qlft_config; count_offset of lists */
    double (*resolve)(const qlft_config *c); /* what a number that was not given is; NULL: the field itself */
    bool (*accepts)(const char *text);       /* texts of a fixed form; NULL: any */
} option_row;

extern const option_row options[];
extern const int options_count;

/* The row that `command` (one bit) takes by this name; NULL if it takes none. */
const option_row *option_find(const char *name, unsigned command);
/* A message for a name that `command` does not take: the nearest name, or the command it belongs to. QLFT_EARG. */
qlft_status option_unknown(const char *name, unsigned command);
/* The place of `text` in a '|'-separated list, -1 if it is not there; and the word at a place, *length bytes of it (NULL past the end). */
int choice_index(const char *choices, const char *text);
const char *choice_at(const char *choices, int index, int *length);

#ifdef __cplusplus
}
#endif
#endif
