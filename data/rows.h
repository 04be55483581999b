/* One row of a data file to rendered text, token ids and labels. Internal to data/. */
#ifndef DATA_ROWS_H
#define DATA_ROWS_H

#include "core/json.h"
#include "data/dataset.h"
#include "data/jsonl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct row_span {
    size_t start, end;
} row_span; /* bytes [start, end) of the text */

typedef struct made_row {
    char *text; /* rendered; NULL for tokens rows */
    size_t text_bytes;
    size_t asked_start, asked_bytes; /* what is said last in the text: of a conversation the last message, else the whole text */
    int32_t *ids, *labels;           /* [count]; labels[i] = ids[i] where token i is a target, else -100 */
    size_t count;
    data_format format; /* never FORMAT_AUTO, but for a bad row that has no known field */
    bool whole_file;    /* the text of a .txt file */
    bool marked;        /* text of a special token in what the row says */
    bool endless;       /* an answer is followed by no token that could end it: the model will not learn where to stop */
    bool empty;         /* a text row without text: nothing to learn, whatever surrounds it */
    bool bad;
    char error[512]; /* why; without file and line */
} made_row;

/* Where a row's text is gathered, and which of its bytes are targets: what the formats write to. */
typedef struct row_text {
    char *text;
    size_t bytes, capacity;
    row_span *spans; /* targets, ascending */
    size_t span_count, span_capacity;
    row_span *said; /* chat: what the messages say, to be searched for special tokens */
    size_t said_count, said_capacity;
    unsigned flags; /* TOKENIZE_ */
    bool end;       /* the text ends here: EOS belongs behind it, as a target */
    bool turns;     /* the spans are turns of a conversation, to be extended to the tokens that end them */
} row_text;

qlft_status row_text_put(row_text *t, const char *bytes, size_t count);
qlft_status row_text_span(row_text *t, size_t start, size_t end);
qlft_status row_text_said(row_text *t, size_t start, size_t end);

void row_text_free(row_text *t);

typedef struct row_maker row_maker;

/* Opens the chat template if the tokenizer or the options have one. The options must outlive the maker. */
qlft_status row_maker_open(row_maker **out, const data_options *options, const tokenizer *tok);
void row_maker_close(row_maker *m);                 /* accepts NULL */
const char *row_maker_template(const row_maker *m); /* the template's text, "" if there is none: for the cache's name. Borrowed */
/* The row, whose arrays stay valid until the next call. A row that cannot be used is QLFT_OK with `bad`; a failure is the run's (memory, a template that is not
 * supported, no template at all). Lengths are not limited. */
qlft_status row_make(row_maker *m, const made_row **out, const jsonl_row *raw, int32_t file, bool is_text);

/* ---- too long rows ---- */
typedef enum row_fate { ROW_KEPT, ROW_TRUNCATED, ROW_DROPPED, ROW_SPLIT } row_fate;

typedef struct row_pieces {
    row_fate fate;
    const int32_t *ids, *labels; /* the present piece */
    size_t count;
    size_t next; /* where the next piece begins in the row */
} row_pieces;

/* What max_tokens and on_long make of the row that was made last. A long row under LONG_ERROR, or one that is not text under LONG_SPLIT, is a failure that says
 * how long it is. */
qlft_status row_fit(row_maker *m, row_pieces *out);
/* The next piece (the row itself if it was kept); false: no more. Pieces of one token that nothing predicts are left out. */
bool row_next_piece(row_maker *m, row_pieces *p);

#ifdef __cplusplus
}
#endif
#endif
