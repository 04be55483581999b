/* Rows of data files as bytes, streamed: one JSON value a line, the elements of a top-level array, pretty-printed objects one behind the other, or a whole
 * text. Plain or gzip (told by the first bytes, any number of members); regular files, pipes, "-" for standard input. Memory: the longest row. */
#ifndef DATA_JSONL_H
#define DATA_JSONL_H

#include "core/file.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { JSONL_ROW_BYTES_MAX = 1 << 30 };

typedef struct jsonl_row {
    const char *text; /* NULL: there are no more rows. Inside the reader, until its next call */
    size_t bytes;
    int64_t line; /* physical line on which it begins, 1 for the first */
} jsonl_row;

typedef struct jsonl jsonl;

/* Folders and missing files: QLFT_EIO. */
qlft_status jsonl_open(jsonl **out, const char *path);
void jsonl_close(jsonl *j); /* accepts NULL */
/* The next row that is not blank. A byte order mark at offset 0 is skipped. Damage of the file as a whole (gzip stream, array without end, a row above
 * JSONL_ROW_BYTES_MAX) is QLFT_EFORMAT with file and line; what is in a row is not looked at. */
qlft_status jsonl_next(jsonl *j, jsonl_row *row);
/* The file's name says that it is text (.txt, .txt.gz): its only row is the whole text, not JSON. */
bool jsonl_is_text(const jsonl *j);
/* Bytes read so far of the file as stored, compressed or not. */
int64_t jsonl_bytes_done(const jsonl *j);
/* SHA-256 of the bytes as stored; to be asked once, after the last row. */
void jsonl_hash(jsonl *j, char hex[SHA256_HEX_BYTES]);

bool jsonl_name_is_text(const char *path);

#ifdef __cplusplus
}
#endif
#endif
