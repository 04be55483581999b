#include "data/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { RAW_BYTES = 128 * 1024, TEXT_BYTES = 256 * 1024, GZIP_WINDOW = 15 + 16 };

typedef enum row_layout { LAYOUT_UNKNOWN, LAYOUT_LINES, LAYOUT_ARRAY, LAYOUT_VALUES, LAYOUT_TEXT } row_layout;

struct jsonl {
    const char *name; /* for messages; inside path */
    char *path;
    int handle;
    bool gzip, inside_member, raw_ended;
    int64_t raw_done;
    unsigned char *raw;
    size_t raw_begin, raw_end;
    z_stream stream;
    file_hash *hash;

    /* Decoded bytes not yet given: text[begin, end). The row that was given last lies in front of begin. */
    char *text;
    size_t begin, end, capacity;
    bool ended, array_done;
    row_layout layout;
    int64_t line; /* of text[begin] */
};

/* ---- stored bytes ---- */

static qlft_status fail_memory(const jsonl *j)
{
    return status_fail(QLFT_ENOMEM, "%s: out of memory", j->name);
}

/* Appends stored bytes to raw[]; raw_ended when there are none. */
static qlft_status raw_fill(jsonl *j)
{
    if (j->raw_begin == j->raw_end) j->raw_begin = j->raw_end = 0;
    while (!j->raw_ended) {
        ssize_t n = read(j->handle, j->raw + j->raw_end, RAW_BYTES - j->raw_end);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return status_fail(QLFT_EIO, "cannot read %s: %s", j->name, strerror(errno));
        if (n == 0) j->raw_ended = true;
        file_hash_put(j->hash, j->raw + j->raw_end, (size_t)n);
        j->raw_end += (size_t)n;
        j->raw_done += n;
        break;
    }
    return QLFT_OK;
}

/* Between two members of a gzip file: zeros are padding, as gzip(1) takes them; anything else but a member is damage that must not be dropped. */
static qlft_status begin_member(jsonl *j, bool *end)
{
    *end = false;
    for (;;) {
        while (j->raw_begin < j->raw_end && j->raw[j->raw_begin] == 0) j->raw_begin++;
        if (j->raw_begin < j->raw_end) break;
        QLFT_TRY(raw_fill(j));
        if (j->raw_begin == j->raw_end) {
            *end = true;
            return QLFT_OK;
        }
    }
    if (j->raw[j->raw_begin] != 0x1f) return status_fail(QLFT_EFORMAT, "%s: bytes behind the gzip stream that are no gzip; make the file again", j->name);
    if (inflateReset(&j->stream) != Z_OK) return fail_memory(j);
    j->inside_member = true;
    return QLFT_OK;
}

static qlft_status inflate_some(jsonl *j, char *to, size_t room, size_t *got)
{
    z_stream *z = &j->stream;
    uInt space = room < RAW_BYTES * 8u ? (uInt)room : RAW_BYTES * 8u;
    z->next_out = (Bytef *)to;
    z->avail_out = space;
    while (z->avail_out == space) {
        if (!j->inside_member) {
            bool end;
            QLFT_TRY(begin_member(j, &end));
            if (end) break;
        }
        if (j->raw_begin == j->raw_end) {
            QLFT_TRY(raw_fill(j));
            if (j->raw_begin == j->raw_end)
                return status_fail(QLFT_EFORMAT, "%s: the gzip stream ends too early (after line %lld): the file is cut off; copy it again", j->name,
                                   (long long)j->line);
        }
        z->next_in = j->raw + j->raw_begin;
        z->avail_in = (uInt)(j->raw_end - j->raw_begin);
        int result = inflate(z, Z_NO_FLUSH);
        j->raw_begin = j->raw_end - z->avail_in;
        if (result == Z_STREAM_END)
            j->inside_member = false;
        else if (result == Z_MEM_ERROR)
            return fail_memory(j);
        else if (result != Z_OK && result != Z_BUF_ERROR)
            return status_fail(QLFT_EFORMAT, "%s: damaged gzip stream (after line %lld): %s", j->name, (long long)j->line, z->msg ? z->msg : "not gzip data");
    }
    *got = space - z->avail_out;
    return QLFT_OK;
}

/* Decoded bytes; *got == 0 at the end. */
static qlft_status source_read(jsonl *j, char *to, size_t room, size_t *got)
{
    *got = 0;
    if (j->gzip) return inflate_some(j, to, room, got);
    if (j->raw_begin == j->raw_end) QLFT_TRY(raw_fill(j));
    size_t n = j->raw_end - j->raw_begin;
    if (n > room) n = room;
    memcpy(to, j->raw + j->raw_begin, n);
    j->raw_begin += n;
    *got = n;
    return QLFT_OK;
}

/* ---- open, close ---- */

bool jsonl_name_is_text(const char *path)
{
    size_t length = strlen(path);
    if (length > 3 && strcmp(path + length - 3, ".gz") == 0) length -= 3;
    return length > 4 && memcmp(path + length - 4, ".txt", 4) == 0;
}

static qlft_status open_source(jsonl *j)
{
    struct stat info;
    if (strcmp(j->path, "-") == 0) {
        j->handle = STDIN_FILENO;
        j->name = "standard input";
    } else {
        j->handle = open(j->path, O_RDONLY | O_CLOEXEC);
        if (j->handle < 0) return status_fail(QLFT_EIO, "cannot open the data file %s: %s", j->path, strerror(errno));
    }
    if (fstat(j->handle, &info) != 0) return status_fail(QLFT_EIO, "cannot read %s: %s", j->name, strerror(errno));
    if (S_ISDIR(info.st_mode)) return status_fail(QLFT_EIO, "%s is a folder: name the data files in it", j->name);
    QLFT_TRY(file_hash_open(&j->hash));
    /* Both bytes of the magic number are needed; a pipe may bring them one by one. */
    while (j->raw_end < 2 && !j->raw_ended) QLFT_TRY(raw_fill(j));
    j->gzip = j->raw_end >= 2 && j->raw[0] == 0x1f && j->raw[1] == 0x8b;
    if (j->gzip && inflateInit2(&j->stream, GZIP_WINDOW) != Z_OK) {
        j->gzip = false;
        return fail_memory(j);
    }
    return QLFT_OK;
}

qlft_status jsonl_open(jsonl **out, const char *path)
{
    *out = NULL;
    jsonl *j = calloc(1, sizeof *j);
    if (!j) return status_fail(QLFT_ENOMEM, "%s: out of memory", path);
    j->handle = -1;
    j->line = 1;
    j->name = j->path = strdup(path);
    j->raw = malloc(RAW_BYTES);
    j->text = malloc(TEXT_BYTES);
    j->capacity = TEXT_BYTES;
    qlft_status status = QLFT_OK;
    if (!j->path || !j->raw || !j->text) status = status_fail(QLFT_ENOMEM, "%s: out of memory", path);
    if (status == QLFT_OK) status = open_source(j);
    if (status != QLFT_OK) {
        jsonl_close(j);
        return status;
    }
    if (jsonl_name_is_text(path)) j->layout = LAYOUT_TEXT;
    *out = j;
    return QLFT_OK;
}

void jsonl_close(jsonl *j)
{
    if (!j) return;
    if (j->gzip) inflateEnd(&j->stream);
    if (j->handle > STDIN_FILENO) close(j->handle);
    char hex[SHA256_HEX_BYTES];
    if (j->hash) file_hash_end(j->hash, hex);
    free(j->path);
    free(j->raw);
    free(j->text);
    free(j);
}

bool jsonl_is_text(const jsonl *j)
{
    return j->layout == LAYOUT_TEXT;
}

int64_t jsonl_bytes_done(const jsonl *j)
{
    return j->raw_done;
}

void jsonl_hash(jsonl *j, char hex[SHA256_HEX_BYTES])
{
    file_hash_end(j->hash, hex);
    j->hash = NULL;
}

/* ---- rows ---- */

/* More decoded bytes behind text[end]; what was given is dropped, so pointers into text change. */
static qlft_status fill(jsonl *j)
{
    if (j->begin > 0 && (j->begin == j->end || j->capacity - j->end < TEXT_BYTES / 4)) {
        memmove(j->text, j->text + j->begin, j->end - j->begin);
        j->end -= j->begin;
        j->begin = 0;
    }
    if (j->capacity - j->end < TEXT_BYTES / 4) {
        if (j->end - j->begin > JSONL_ROW_BYTES_MAX)
            return status_fail(QLFT_EFORMAT, "%s line %lld: a row of more than %d MiB; one JSON object a line is expected", j->name, (long long)j->line,
                               JSONL_ROW_BYTES_MAX >> 20);
        char *grown = realloc(j->text, j->capacity * 2);
        if (!grown)
            return status_fail(QLFT_ENOMEM, "%s line %lld: out of memory for a row of more than %zu bytes", j->name, (long long)j->line, j->end - j->begin);
        j->text = grown;
        j->capacity *= 2;
    }
    size_t got;
    QLFT_TRY(source_read(j, j->text + j->end, j->capacity - j->end, &got));
    j->end += got;
    j->ended = got == 0;
    return QLFT_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Moves to the next byte that is not blank, counting lines; *found is false at the end of the file. */
static qlft_status skip_blank(jsonl *j, bool *found)
{
    for (;;) {
        for (; j->begin < j->end && is_blank(j->text[j->begin]); j->begin++) j->line += j->text[j->begin] == '\n';
        *found = j->begin < j->end;
        if (*found || j->ended) return QLFT_OK;
        QLFT_TRY(fill(j));
    }
}

static void give(jsonl *j, jsonl_row *row, size_t bytes)
{
    row->text = j->text + j->begin;
    row->bytes = bytes;
    row->line = j->line;
}

/* Length of the line at begin, its '\n' left out; *ends says whether there is one. */
static qlft_status line_bytes(jsonl *j, size_t *bytes, bool *ends)
{
    size_t seen = 0;
    for (;;) {
        const char *at = memchr(j->text + j->begin + seen, '\n', j->end - j->begin - seen);
        *ends = at != NULL;
        *bytes = at ? (size_t)(at - (j->text + j->begin)) : j->end - j->begin;
        if (at || j->ended) return QLFT_OK;
        seen = j->end - j->begin;
        QLFT_TRY(fill(j));
    }
}

static qlft_status next_line(jsonl *j, jsonl_row *row)
{
    /* Blanks in front of a value are no part of the row's offsets only where the whole line is blank. */
    for (;;) {
        size_t bytes;
        bool ends, blank = true;
        QLFT_TRY(line_bytes(j, &bytes, &ends));
        if (bytes == 0 && !ends) return QLFT_OK;
        for (size_t i = 0; i < bytes && blank; i++) blank = is_blank(j->text[j->begin + i]);
        if (!blank) give(j, row, bytes - (j->text[j->begin + bytes - 1] == '\r'));
        j->begin += bytes + ends;
        j->line += ends;
        if (!blank) return QLFT_OK;
    }
}

/* The value at begin, up to where its brackets close (VALUES) or to the ',' or ']' of the array that holds it. */
static qlft_status next_value(jsonl *j, jsonl_row *row, char *stopped_at)
{
    bool in_string = false, escaped = false;
    int64_t depth = 0, lines = 0;
    size_t at = 0;
    *stopped_at = 0;
    for (;; at++) {
        if (j->begin + at == j->end) {
            if (!j->ended) QLFT_TRY(fill(j));
            if (j->begin + at == j->end) break;
        }
        char c = j->text[j->begin + at];
        lines += c == '\n';
        if (in_string) {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        if (c == '"') in_string = true;
        if (depth == 0 && j->layout == LAYOUT_ARRAY && (c == ',' || c == ']')) {
            *stopped_at = c;
            break;
        }
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth <= 0 && j->layout == LAYOUT_VALUES && (c == '}' || c == ']')) {
            at++;
            break;
        }
    }
    give(j, row, at);
    j->begin += at + (*stopped_at != 0);
    j->line += lines;
    while (row->bytes > 0 && is_blank(row->text[row->bytes - 1])) row->bytes--;
    return QLFT_OK;
}

static qlft_status next_element(jsonl *j, jsonl_row *row)
{
    bool found;
    QLFT_TRY(skip_blank(j, &found));
    if (j->array_done) {
        if (found) return status_fail(QLFT_EFORMAT, "%s line %lld: something stands behind the end of the JSON array", j->name, (long long)j->line);
        return QLFT_OK;
    }
    if (!found) return status_fail(QLFT_EFORMAT, "%s: the JSON array has no end: the file is cut off", j->name);
    if (j->text[j->begin] == ']') {
        j->begin++;
        j->array_done = true;
        return next_element(j, row);
    }
    char stopped_at;
    QLFT_TRY(next_value(j, row, &stopped_at));
    if (!stopped_at)
        return status_fail(QLFT_EFORMAT, "%s: the JSON array has no end: the value that begins on line %lld is not closed", j->name, (long long)row->line);
    j->array_done = stopped_at == ']';
    return QLFT_OK;
}

static qlft_status next_object(jsonl *j, jsonl_row *row)
{
    bool found;
    char stopped_at;
    QLFT_TRY(skip_blank(j, &found));
    return found ? next_value(j, row, &stopped_at) : QLFT_OK;
}

static qlft_status next_text(jsonl *j, jsonl_row *row)
{
    while (!j->ended) QLFT_TRY(fill(j));
    if (j->begin == j->end) return QLFT_OK;
    give(j, row, j->end - j->begin);
    j->begin = j->end;
    return QLFT_OK;
}

/* The first value tells the layout: '[' is an array of rows; a first line that only opens something ("{", "{ \"text\": ...,") is pretty-printed. */
static qlft_status find_layout(jsonl *j)
{
    bool found, ends;
    size_t bytes;
    while (j->end < 3 && !j->ended) QLFT_TRY(fill(j));
    if (j->end >= 3 && memcmp(j->text, "\xef\xbb\xbf", 3) == 0) j->begin = 3;
    if (j->layout == LAYOUT_TEXT) return QLFT_OK;
    j->layout = LAYOUT_LINES;
    /* Leading blank lines hold no row in any layout. What stands in front of the first value on its line does not count as part of it. */
    QLFT_TRY(skip_blank(j, &found));
    if (!found) return QLFT_OK;
    if (j->text[j->begin] == '[') {
        j->begin++;
        j->layout = LAYOUT_ARRAY;
        return QLFT_OK;
    }
    QLFT_TRY(line_bytes(j, &bytes, &ends));
    while (bytes > 0 && is_blank(j->text[j->begin + bytes - 1])) bytes--;
    if (bytes > 0 && j->text[j->begin] == '{' && memchr("{[,:", j->text[j->begin + bytes - 1], 4)) j->layout = LAYOUT_VALUES;
    return QLFT_OK;
}

qlft_status jsonl_next(jsonl *j, jsonl_row *row)
{
    static qlft_status (*const next[])(jsonl *, jsonl_row *) = {
        [LAYOUT_LINES] = next_line, [LAYOUT_ARRAY] = next_element, [LAYOUT_VALUES] = next_object, [LAYOUT_TEXT] = next_text};
    memset(row, 0, sizeof *row);
    if (j->layout == LAYOUT_UNKNOWN || (j->layout == LAYOUT_TEXT && j->end == 0)) QLFT_TRY(find_layout(j));
    return next[j->layout](j, row);
}
