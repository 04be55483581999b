#include "data/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/log.h"
#include "data/cache.h"
#include "data/rows.h"

enum { SHOWN_BAD_ROWS = 3, LEFTOVER_SECONDS = 3600 };

struct dataset {
    cache file;
    bool was_cached;
};

/* One pass over all files: reads, makes rows, writes samples. */
typedef struct builder {
    const data_options *options;
    row_maker *maker;
    cache_writer writer;
    data_counts counts;
    int64_t lost_by_cut; /* of counts.unsupervised: those that truncation left without a target */
    bool told_endless;
    data_progress progress;
    void *payload;
    const volatile int *stop;
    int64_t bytes_before, bytes_total; /* of the files in front of this one; of all, 0 if not known */
    char (*hashes)[SHA256_HEX_BYTES];  /* of the files read */
    char first_bad[700];
} builder;

static const char *path_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* ---- options ---- */

static qlft_status check_options(const data_options *o, const tokenizer *tok)
{
    int inputs = 0;
    if (o->path_count < 1) return status_fail(QLFT_EARG, "no data file is given: --data FILE");
    for (int i = 0; i < o->path_count; i++) inputs += strcmp(o->paths[i], "-") == 0;
    if (inputs > 1) return status_fail(QLFT_EARG, "--data - is given %d times; standard input can be read once", inputs);
    if (o->max_tokens < 0 || o->max_tokens == 1 || o->max_tokens > INT32_MAX)
        return status_fail(QLFT_EARG, "--seq %lld: at least 2 tokens are needed, since the first is predicted by nothing", (long long)o->max_tokens);
    if (!tok && o->format != FORMAT_TOKENS) return status_fail(QLFT_EARG, "without a tokenizer only --format tokens can be read");
    return QLFT_OK;
}

/* ---- the name of the cache file ---- */

static void hash_text(file_hash *h, const char *text)
{
    uint64_t bytes = strlen(text);
    file_hash_put(h, &bytes, sizeof bytes);
    file_hash_put(h, text, bytes);
}

/* Everything that decides the samples, but for the program's version, which CACHE_VERSION stands for. */
static qlft_status cache_key(char key[SHA256_HEX_BYTES], const data_options *o, const tokenizer *tok, const row_maker *maker, char (*hashes)[SHA256_HEX_BYTES])
{
    file_hash *h = NULL;
    QLFT_TRY(file_hash_open(&h));
    int64_t numbers[] = {CACHE_VERSION, o->path_count, o->format, o->train_on,   o->max_tokens, o->on_bad_row,
                         o->on_long,    o->vocabulary, o->raw,    o->no_special, o->prompt_only};
    file_hash_put(h, numbers, sizeof numbers);
    hash_text(h, tok ? tokenizer_hash(tok) : "");
    hash_text(h, row_maker_template(maker));
    for (int i = 0; i < o->path_count; i++) {
        hash_text(h, jsonl_name_is_text(o->paths[i]) ? "text" : "rows");
        hash_text(h, hashes[i]);
    }
    file_hash_end(h, key);
    return QLFT_OK;
}

/* Hashes files that can be read twice; *all is false if there is another. Their sizes are added up. */
static qlft_status hash_files(const data_options *o, char (*hashes)[SHA256_HEX_BYTES], bool *all, int64_t *bytes)
{
    *all = true;
    *bytes = 0;
    for (int i = 0; i < o->path_count; i++) {
        struct stat info;
        bool known = strcmp(o->paths[i], "-") != 0 && stat(o->paths[i], &info) == 0 && S_ISREG(info.st_mode);
        *all &= known;
        if (known) *bytes += (int64_t)info.st_size;
    }
    for (int i = 0; i < o->path_count && *all; i++) QLFT_TRY(file_sha256(hashes[i], o->paths[i]));
    if (!*all) *bytes = 0;
    return QLFT_OK;
}

static char *cache_path(const char *folder, const char *key)
{
    char *path;
    return asprintf(&path, "%s/%s.tokens", folder, key) < 0 ? NULL : path;
}

/* ---- reading ---- */

static qlft_status bad_row(builder *b, const char *path, int64_t line, const char *error)
{
    b->counts.bad++;
    if (b->options->on_bad_row == BAD_ROW_STOP)
        return status_fail(QLFT_EFORMAT, "%s line %lld: %s (correct the row, or leave such rows out with --on-bad-row skip)", path_name(path), (long long)line,
                           error);
    if (b->counts.bad == 1) snprintf(b->first_bad, sizeof b->first_bad, "%.100s line %lld: %s", path_name(path), (long long)line, error);
    if (b->counts.bad <= SHOWN_BAD_ROWS) log_warning("%s line %lld is skipped: %s", path_name(path), (long long)line, error);
    return QLFT_OK;
}

static bool learns(const int32_t *labels, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (labels[i] >= 0) return true;
    return false;
}

static qlft_status take_pieces(builder *b, const made_row *row, const jsonl_row *raw, int32_t file)
{
    row_pieces pieces;
    int64_t before = b->counts.samples, skipped = 0;
    qlft_status status = row_fit(b->maker, &pieces);
    if (status != QLFT_OK) return status_prefix(status, "%s line %lld: ", path_name(b->options->paths[file]), (long long)raw->line);
    if (pieces.fate == ROW_DROPPED) b->counts.dropped++;
    while (row_next_piece(b->maker, &pieces)) {
        /* Rows of ids are taken as they are: whoever made them knows their labels. */
        bool kept = row->format == FORMAT_TOKENS || (!row->empty && learns(pieces.labels, pieces.count));
        if (kept) QLFT_TRY(cache_writer_add(&b->writer, &b->counts, pieces.ids, pieces.labels, pieces.count, raw->line, file));
        skipped += !kept;
        b->counts.idle += kept && !learns(pieces.labels, pieces.count);
        b->counts.unsupervised += !learns(pieces.labels, pieces.count) || row->empty;
    }
    bool any = b->counts.samples > before;
    b->counts.truncated += any && pieces.fate == ROW_TRUNCATED;
    b->counts.split += any && pieces.fate == ROW_SPLIT;
    b->counts.marked += any && row->marked;
    if (any && row->endless && !b->told_endless) {
        b->told_endless = true;
        log_warning("%s line %lld: the chat template writes no special token behind an answer, so the model does not learn where to stop",
                    path_name(b->options->paths[file]), (long long)raw->line);
    }
    b->lost_by_cut += skipped > 0 && pieces.fate == ROW_TRUNCATED && learns(row->labels, row->count);
    return QLFT_OK;
}

static qlft_status read_rows(builder *b, jsonl *j, int32_t file)
{
    const char *path = b->options->paths[file];
    for (;;) {
        jsonl_row raw;
        const made_row *row;
        if (b->stop && *b->stop) return status_fail(QLFT_ESIGNAL, "stopped while reading %s", path_name(path));
        QLFT_TRY(jsonl_next(j, &raw));
        if (!raw.text) return QLFT_OK;
        b->counts.rows++;
        qlft_status status = row_make(b->maker, &row, &raw, file, jsonl_is_text(j));
        if (status != QLFT_OK) return status_prefix(status, "%s line %lld: ", path_name(path), (long long)raw.line);
        if (row->bad)
            QLFT_TRY(bad_row(b, path, raw.line, row->error));
        else
            QLFT_TRY(take_pieces(b, row, &raw, file));
        if (b->progress && (b->counts.rows & 63) == 0) b->progress(b->payload, b->bytes_before + jsonl_bytes_done(j), b->bytes_total);
    }
}

static qlft_status read_files(builder *b)
{
    for (int i = 0; i < b->options->path_count; i++) {
        jsonl *j;
        QLFT_TRY(jsonl_open(&j, b->options->paths[i]));
        qlft_status status = read_rows(b, j, i);
        b->bytes_before += jsonl_bytes_done(j);
        if (status == QLFT_OK) jsonl_hash(j, b->hashes[i]);
        jsonl_close(j);
        QLFT_TRY(status);
        if (b->progress) b->progress(b->payload, b->bytes_before, b->bytes_total);
    }
    return QLFT_OK;
}

/* Samples, and in them something to learn: a run over less would report success and change nothing. */
static qlft_status check_counts(const builder *b)
{
    const data_counts *c = &b->counts;
    if (c->samples > 0 && c->supervised > 0) return QLFT_OK;
    const char *remedy = c->rows == 0                                       ? "the file is empty"
                         : c->bad == c->rows                                ? "no row could be used"
                         : c->dropped > 0 && c->dropped + c->bad == c->rows ? "use a larger --seq, or --on-long truncate"
                         : b->lost_by_cut > 0                               ? "the answers begin behind --seq: use a larger one"
                                                                            : "there must be an answer to train on: see `qlft tokens`, or use --train-on all";
    return status_fail(QLFT_EFORMAT,
                       "%s%s: nothing to train on: %lld rows, of these %lld not usable, %lld without a target (%lld because they were cut), %lld dropped as "
                       "too long; %s%s%s%s",
                       path_name(b->options->paths[0]), b->options->path_count > 1 ? " and others" : "", (long long)c->rows, (long long)c->bad,
                       (long long)c->unsupervised, (long long)b->lost_by_cut, (long long)c->dropped, remedy, c->bad ? " (first: " : "", b->first_bad,
                       c->bad ? ")" : "");
}

/* Nothing that was left out or changed goes without a line, also when the file was made by an earlier run. */
static void tell_counts(const data_counts *c, const data_options *o)
{
    const char *name = path_name(o->paths[0]), *more = o->path_count > 1 ? " and others" : "";
    if (c->bad) log_warning("%s%s: %lld of %lld rows are not usable and are skipped", name, more, (long long)c->bad, (long long)c->rows);
    if (c->unsupervised)
        log_warning("%s%s: %lld of %lld rows have nothing to learn (no target left after the prompt, or after the cut to --seq)%s", name, more,
                    (long long)c->unsupervised, (long long)c->rows, c->idle ? "; rows of ids are kept all the same" : " and are skipped");
    if (c->truncated)
        log_warning("%s%s: %lld of %lld rows are longer than --seq %lld and are cut", name, more, (long long)c->truncated, (long long)c->rows,
                    (long long)o->max_tokens);
    if (c->dropped)
        log_warning("%s%s: %lld of %lld rows are longer than --seq %lld and are dropped", name, more, (long long)c->dropped, (long long)c->rows,
                    (long long)o->max_tokens);
    if (c->split)
        log_info("%s%s: %lld of %lld rows are longer than --seq %lld and are split", name, more, (long long)c->split, (long long)c->rows,
                 (long long)o->max_tokens);
    if (c->marked)
        log_warning("%s%s: %lld of %lld rows hold the text of special tokens inside their messages; it becomes those tokens, as with transformers", name, more,
                    (long long)c->marked, (long long)c->rows);
}

/* ---- building and mapping ---- */

static qlft_status build(builder *b, const char *path)
{
    QLFT_TRY(cache_writer_open(&b->writer, path));
    qlft_status status = read_files(b);
    if (status == QLFT_OK) status = check_counts(b);
    if (status == QLFT_OK) status = cache_writer_commit(&b->writer, &b->counts);
    cache_writer_abandon(&b->writer);
    return status;
}

/* Where the file is made: in the cache folder, to be renamed there; without one in a temporary folder, to be unlinked. The address keeps two data sets of one
 * process apart. */
static char *building_path(const data_options *o, const dataset *s)
{
    const char *folder = o->cache_folder;
    if (!folder) folder = getenv("TMPDIR");
    if (!folder || !*folder) folder = "/tmp";
    char *path;
    return asprintf(&path, "%s/qlft-%ld-%p.tokens", folder, (long)getpid(), (const void *)s) < 0 ? NULL : path;
}

static qlft_status build_and_map(dataset *s, builder *b, const tokenizer *tok)
{
    const data_options *o = b->options;
    char key[SHA256_HEX_BYTES];
    char *named = NULL, *path = building_path(o, s);
    qlft_status status = path ? QLFT_OK : status_fail(QLFT_ENOMEM, "out of memory");
    if (status == QLFT_OK) status = build(b, path);
    if (status != QLFT_OK) goto done;
    status = cache_open(&s->file, path, o->vocabulary);
    if (status == QLFT_OK && o->cache_folder) {
        /* By what was read just now, should a file have changed since it was hashed. */
        status = cache_key(key, o, tok, b->maker, b->hashes);
        named = status == QLFT_OK ? cache_path(o->cache_folder, key) : NULL;
        if (status == QLFT_OK && !named) status = status_fail(QLFT_ENOMEM, "out of memory");
        if (status == QLFT_OK && rename(path, named) != 0)
            status = status_fail(QLFT_EIO, "--cache %s: cannot name the token cache %s: %s", o->cache_folder, named, strerror(errno));
    }
    if (status != QLFT_OK || !o->cache_folder) unlink(path);
done:
    free(named);
    free(path);
    return status;
}

/* The file of an earlier run, if there is one that is whole. */
static qlft_status map_cached(dataset *s, const data_options *o, const tokenizer *tok, const row_maker *maker, char (*hashes)[SHA256_HEX_BYTES])
{
    char key[SHA256_HEX_BYTES];
    QLFT_TRY(cache_key(key, o, tok, maker, hashes));
    char *path = cache_path(o->cache_folder, key);
    if (!path) return status_fail(QLFT_ENOMEM, "out of memory");
    qlft_status status = QLFT_OK;
    if (file_exists(path)) {
        status = cache_open(&s->file, path, o->vocabulary);
        s->was_cached = status == QLFT_OK;
        if (status == QLFT_EFORMAT || status == QLFT_EIO) {
            log_warning("%s; it is made again", qlft_last_error());
            status = QLFT_OK;
        }
    }
    free(path);
    return status;
}

/* What processes that were killed while writing have left: the names of building_path begin with the process. The folder may be shared with machines whose
 * processes are not seen here, so only what nobody has written to for an hour goes. */
static void remove_leftovers(const char *folder)
{
    DIR *d = opendir(folder);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat info;
        long process = 0;
        if (sscanf(e->d_name, "qlft-%ld-", &process) != 1 || process <= 0 || kill((pid_t)process, 0) == 0 || errno != ESRCH) continue;
        if (fstatat(dirfd(d), e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || time(NULL) - info.st_mtime < LEFTOVER_SECONDS) continue;
        if (unlinkat(dirfd(d), e->d_name, 0) == 0) log_info("%s/%s, left by a process that was killed, is removed", folder, e->d_name);
    }
    closedir(d);
}

static qlft_status open_cache_folder(const char *folder)
{
    qlft_status status = folder_make(folder);
    if (status == QLFT_OK) status = folder_writable(folder);
    if (status == QLFT_OK) remove_leftovers(folder);
    return status == QLFT_OK ? status : status_prefix(status, "--cache %s cannot be used (name another folder): ", folder);
}

qlft_status dataset_open(dataset **out, const data_options *options, const tokenizer *tok, data_progress progress, void *payload, const volatile int *stop)
{
    *out = NULL;
    QLFT_TRY(check_options(options, tok));
    builder b = {.options = options, .progress = progress, .payload = payload, .stop = stop};
    bool rereadable = false;
    dataset *s = calloc(1, sizeof *s);
    b.hashes = calloc((size_t)options->path_count, sizeof *b.hashes);
    qlft_status status = s && b.hashes ? QLFT_OK : status_fail(QLFT_ENOMEM, "out of memory for %d data files", options->path_count);
    if (status == QLFT_OK) status = row_maker_open(&b.maker, options, tok);
    if (status == QLFT_OK && options->cache_folder) status = open_cache_folder(options->cache_folder);
    if (status == QLFT_OK) status = hash_files(options, b.hashes, &rereadable, &b.bytes_total);
    if (status == QLFT_OK && options->cache_folder && rereadable) status = map_cached(s, options, tok, b.maker, b.hashes);
    if (status == QLFT_OK && !s->was_cached) status = build_and_map(s, &b, tok);
    if (status == QLFT_OK) tell_counts(&s->file.counts, options);
    row_maker_close(b.maker);
    free(b.hashes);
    if (status != QLFT_OK) {
        dataset_close(s);
        return status;
    }
    *out = s;
    return QLFT_OK;
}

void dataset_close(dataset *s)
{
    if (!s) return;
    cache_close(&s->file);
    free(s);
}

int64_t dataset_size(const dataset *s)
{
    return s->file.count;
}

sample dataset_sample(const dataset *s, int64_t index)
{
    const cache_entry *e = &s->file.entries[index];
    sample one;
    one.tokens = (const void *)(s->file.map.data + e->at);
    one.targets = (const uint8_t *)(one.tokens + e->length);
    one.length = e->length;
    one.supervised = e->supervised;
    one.line = e->line;
    one.file = e->file;
    return one;
}

data_counts dataset_counts(const dataset *s)
{
    return s->file.counts;
}

const char *dataset_hash(const dataset *s)
{
    return s->file.content;
}

bool dataset_was_cached(const dataset *s)
{
    return s->was_cached;
}

/* ---- one row at a time ---- */

static qlft_status give_pieces(row_maker *m, data_row *given, bool (*row)(void *, const data_row *), void *payload, bool *more)
{
    row_pieces pieces;
    qlft_status status = row_fit(m, &pieces);
    if (status != QLFT_OK && status != QLFT_EFORMAT) return status;
    if (status == QLFT_EFORMAT || pieces.fate == ROW_DROPPED) {
        given->bad = true;
        if (status == QLFT_EFORMAT)
            snprintf(given->error, sizeof given->error, "%s", qlft_last_error());
        else
            snprintf(given->error, sizeof given->error, "longer than --seq: dropped");
        *more = row(payload, given);
        return QLFT_OK;
    }
    while (*more && row_next_piece(m, &pieces)) {
        given->ids = pieces.ids;
        given->labels = pieces.labels;
        given->count = pieces.count;
        *more = row(payload, given);
    }
    return QLFT_OK;
}

static qlft_status each_row_of(row_maker *m, const data_options *o, int32_t file, bool (*row)(void *, const data_row *), void *payload, bool *more)
{
    jsonl *j;
    QLFT_TRY(jsonl_open(&j, o->paths[file]));
    qlft_status status = QLFT_OK;
    while (*more) {
        jsonl_row raw;
        const made_row *made;
        data_row given = {.file = file};
        status = jsonl_next(j, &raw);
        if (status != QLFT_OK || !raw.text) break;
        status = row_make(m, &made, &raw, file, jsonl_is_text(j));
        if (status != QLFT_OK) {
            status = status_prefix(status, "%s line %lld: ", path_name(o->paths[file]), (long long)raw.line);
            break;
        }
        given.line = raw.line;
        given.text = made->text;
        given.text_bytes = made->text_bytes;
        given.asked_start = made->asked_start;
        given.asked_bytes = made->asked_bytes;
        given.bad = made->bad;
        memcpy(given.error, made->error, sizeof given.error);
        /* A row without a token (an empty prompt, an empty text as it is) has no pieces, and is told all the same. */
        if (made->bad || made->count == 0)
            *more = row(payload, &given);
        else
            status = give_pieces(m, &given, row, payload, more);
        if (status != QLFT_OK) break;
    }
    jsonl_close(j);
    return status;
}

qlft_status data_each_row(const data_options *options, const tokenizer *tok, bool (*row)(void *payload, const data_row *row), void *payload)
{
    QLFT_TRY(check_options(options, tok));
    row_maker *m;
    QLFT_TRY(row_maker_open(&m, options, tok));
    bool more = true;
    qlft_status status = QLFT_OK;
    for (int i = 0; i < options->path_count && more && status == QLFT_OK; i++) status = each_row_of(m, options, i, row, payload, &more);
    row_maker_close(m);
    return status;
}
