/* Token rows to a mapped data set, the cache file. Expected values of A.. are those of cases.json, written out. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "core/random.h"
#include "data/cache.h"
#include "data/jsonl.h"
#include "data_files.h"

TestSuite(dataset, .init = test_begin, .fini = test_end);
TestSuite(cache, .init = test_begin, .fini = test_end);

/* ---- token rows ---- */

static data_options token_options(const char *const *path)
{
    return (data_options){.paths = path, .path_count = 1, .format = FORMAT_TOKENS};
}

static qlft_status open_tokens(dataset **out, const char *path, data_on_bad_row policy, int64_t vocabulary)
{
    data_options o = token_options(&path);
    o.on_bad_row = policy;
    o.vocabulary = vocabulary;
    return dataset_open(out, &o, NULL, NULL, NULL, NULL);
}

Test(dataset, token_rows_are_taken_as_they_are)
{
    dataset *s;
    cr_assert_eq(open_tokens(&s,
                             write_text("a.jsonl", "{\"input_ids\": [5, 6, 7], \"labels\": [5, -100, 7]}\n\n{\"input_ids\": [9], \"x\": null}\n"
                                                   "{\"input_ids\": [1, 2], \"labels\": [-100, -100]}\n{\"input_ids\": [3, 4], \"labels\": null}"),
                             BAD_ROW_STOP, 0),
                 QLFT_OK, "%s", qlft_last_error());
    data_counts c = dataset_counts(s);
    cr_assert_eq(c.rows, 4);
    cr_assert_eq(c.samples, 4);
    cr_assert_eq(c.unsupervised, 2); /* one token alone is predicted by nothing */
    cr_assert_eq(c.tokens, 8);
    cr_assert_eq(c.supervised, 2);
    cr_assert_eq(c.longest, 3);
    sample a = dataset_sample(s, 0), d = dataset_sample(s, 3);
    static const int32_t labels[] = {5, -100, 7};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(a.tokens[i], 5 + i);
        cr_assert_eq(sample_label(&a, i), labels[i]);
    }
    cr_assert_eq(a.supervised, 1);
    cr_assert_eq(d.line, 5);
    cr_assert_eq(sample_label(&d, 1), 4);
    dataset_close(s);
}

Test(dataset, bad_token_rows_are_named)
{
    static const struct {
        const char *row, *said[3];
    } bad[] = {
        {"{\"input_ids\": 3}", {"input_ids", "a number", "list"}},
        {"{\"input_ids\": []}", {"input_ids", "empty", ""}},
        {"{\"input_ids\": [1, \"2\"]}", {"input_ids", "element 2", "a string"}},
        {"{\"input_ids\": [1, 2.5]}", {"input_ids", "element 2", "a number"}},
        {"{\"input_ids\": [1, -1]}", {"id -1", "100", "0 to 99"}},
        {"{\"input_ids\": [1, 100]}", {"token 2", "id 100", "0 to 99"}},
        {"{\"input_ids\": [1, 12345678901234567890]}", {"element 2", "a number", "integer"}},
        {"{\"input_ids\": [1, 2], \"labels\": [1]}", {"labels", "1 elements", "2"}},
        {"{\"input_ids\": [1, 2], \"labels\": [1, 3]}", {"labels", "element 2 is 3", "-100"}},
        {"{\"input_ids\": [1, 2], \"labels\": true}", {"labels", "true", "list"}},
        {"[1, 2]", {"a list", "object", ""}},
        {"{\"text\": \"x\"}", {"input_ids", "missing", ""}},
        {"{\"input_ids\": [1, 2]", {"JSON", "byte", ""}},
        {"{\"input_ids\": [1, 2], \"\\ud800\": 1}", {"JSON", "", ""}},
        {"{\"input_ids\": [1, 2], \"x\": \"\xff\"}", {"UTF-8", "0xff", "offset 28"}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        dataset *s;
        snprintf(text, sizeof text, "{\"input_ids\": [1, 2]}\n%s\n", bad[i].row);
        const char *path = write_text("bad.jsonl", text);
        cr_assert_eq(open_tokens(&s, path, BAD_ROW_STOP, 100), QLFT_EFORMAT, "%s", bad[i].row);
        cr_assert_null(s);
        assert_message("bad.jsonl line 2");
        for (int k = 0; k < 3; k++) assert_message(bad[i].said[k]);
        cr_assert_eq(open_tokens(&s, path, BAD_ROW_SKIP, 100), QLFT_OK);
        cr_assert_eq(dataset_counts(s).bad, 1);
        cr_assert_eq(dataset_size(s), 1);
        assert_log("bad.jsonl line 2");
        dataset_close(s);
    }
}

typedef struct seen_rows {
    int64_t lines[8];
    size_t counts[8];
    int count;
} seen_rows;

static bool see_row(void *payload, const data_row *row)
{
    seen_rows *seen = payload;
    cr_assert_lt(seen->count, 8);
    cr_expect_not(row->bad, "%s", row->error);
    seen->lines[seen->count] = row->line;
    seen->counts[seen->count++] = row->count;
    return true;
}

/* A prompt without a token has no piece that could be given; that it is left out without a word would shift all answers behind it. */
Test(dataset, rows_without_a_token_are_given_too)
{
    const char *path = write_text("rows.jsonl", "{\"input_ids\": [5, 6, 7], \"labels\": [-100, 6, 7]}\n"
                                                "{\"input_ids\": [5, 6], \"labels\": [5, 6]}\n"
                                                "{\"input_ids\": [8, 9], \"labels\": [-100, -100]}\n");
    data_options options = {.paths = &path, .path_count = 1, .format = FORMAT_TOKENS, .prompt_only = true};
    seen_rows seen = {0};
    cr_assert_eq(data_each_row(&options, NULL, see_row, &seen), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(seen.count, 3);
    for (int i = 0; i < 3; i++) cr_expect_eq(seen.lines[i], i + 1);
    cr_expect_eq(seen.counts[0], 1);
    cr_expect_eq(seen.counts[1], 0);
    cr_expect_eq(seen.counts[2], 2);
}

Test(dataset, nothing_to_train_on_is_an_error)
{
    dataset *s;
    cr_assert_eq(open_tokens(&s, write_text("e.jsonl", "\n\n"), BAD_ROW_STOP, 0), QLFT_EFORMAT);
    assert_message("e.jsonl");
    assert_message("empty");
    cr_assert_eq(open_tokens(&s, write_text("b.jsonl", "{}\n[]\n"), BAD_ROW_SKIP, 0), QLFT_EFORMAT);
    assert_message("2 rows, of these 2 not usable");
    assert_message("b.jsonl line 1");
    cr_assert_eq(open_tokens(&s, write_text("u.jsonl", "{\"input_ids\": [1, 2], \"labels\": [1, -100]}"), BAD_ROW_SKIP, 0), QLFT_EFORMAT);
    assert_message("1 without a target");
}

/* A16 c: 200,000 levels belong to a field that nobody reads; the process lives and the row is named. */
Test(dataset, deep_nesting_is_a_bad_row)
{
    size_t deep = 200000;
    char *text = malloc(2 * deep + 100);
    size_t used = (size_t)sprintf(text, "{\"input_ids\": [1, 2], \"meta\": ");
    memset(text + used, '[', deep);
    memset(text + used + deep, ']', deep);
    used += 2 * deep;
    used += (size_t)sprintf(text + used, "}\n");
    dataset *s;
    cr_assert_eq(open_tokens(&s, write_bytes("deep.jsonl", text, used), BAD_ROW_STOP, 0), QLFT_EFORMAT);
    assert_message("deep.jsonl line 1");
    free(text);
}

static const char *const three_rows =
    "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [1, 2, 3, 4, 5], \"labels\": [-100, -100, -100, -100, 5]}\n{\"input_ids\": [7, 8]}\n";

Test(dataset, long_token_rows_by_policy)
{
    const char *path = write_text("l.jsonl", three_rows);
    data_options o = token_options(&path);
    dataset *s;
    o.max_tokens = 4;
    o.on_long = LONG_TRUNCATE;
    cr_assert_eq(dataset_open(&s, &o, NULL, NULL, NULL, NULL), QLFT_OK);
    cr_assert_eq(dataset_counts(s).truncated, 1);
    cr_assert_eq(dataset_counts(s).unsupervised, 1); /* its only target is cut off; token rows are kept */
    cr_assert_eq(dataset_sample(s, 1).length, 4);
    assert_log("1 of 3 rows are longer than --seq 4");
    dataset_close(s);
    o.on_long = LONG_DROP;
    cr_assert_eq(dataset_open(&s, &o, NULL, NULL, NULL, NULL), QLFT_OK);
    cr_assert_eq(dataset_counts(s).dropped, 1);
    cr_assert_eq(dataset_size(s), 2);
    dataset_close(s);
    o.on_long = LONG_ERROR;
    cr_assert_eq(dataset_open(&s, &o, NULL, NULL, NULL, NULL), QLFT_EFORMAT);
    assert_message("l.jsonl line 2: 5 tokens");
    o.on_long = LONG_SPLIT;
    cr_assert_eq(dataset_open(&s, &o, NULL, NULL, NULL, NULL), QLFT_EFORMAT);
    assert_message("line 2");
    /* A limit that does not cut changes nothing. */
    char hash[SHA256_HEX_BYTES] = "";
    int64_t limits[] = {0, 5, 100};
    for (int i = 0; i < 3; i++) {
        o.max_tokens = limits[i];
        o.on_long = LONG_TRUNCATE;
        cr_assert_eq(dataset_open(&s, &o, NULL, NULL, NULL, NULL), QLFT_OK);
        if (i > 0) cr_assert_str_eq(dataset_hash(s), hash);
        snprintf(hash, sizeof hash, "%s", dataset_hash(s));
        dataset_close(s);
    }
}

Test(dataset, stops_between_rows)
{
    const char *path = write_text("s.jsonl", three_rows);
    data_options o = token_options(&path);
    volatile int stop = 1;
    dataset *s;
    cr_assert_eq(dataset_open(&s, &o, NULL, NULL, NULL, &stop), QLFT_ESIGNAL);
}

Test(dataset, options_are_checked)
{
    const char *twice[] = {"-", "-"}, *path = write_text("o.jsonl", three_rows);
    data_options o = token_options(twice);
    dataset *s;
    o.path_count = 2;
    cr_assert_eq(dataset_open(&s, &o, NULL, NULL, NULL, NULL), QLFT_EARG);
    o = token_options(&path);
    o.max_tokens = 1;
    cr_assert_eq(dataset_open(&s, &o, NULL, NULL, NULL, NULL), QLFT_EARG);
    o = token_options(&path);
    o.format = FORMAT_TEXT;
    cr_assert_eq(dataset_open(&s, &o, NULL, NULL, NULL, NULL), QLFT_EARG);
}

/* Lines made of pieces that mean something, in random order, and bytes flipped: whatever comes, no crash, and rows = samples + bad + dropped. */
Test(dataset, random_rows_never_crash)
{
    static const char *const pieces[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\"input_ids\"",
                                         "\"labels\"",
                                         "1",
                                         "-100",
                                         "2.5",
                                         "1e999",
                                         "\"",
                                         "\\u0",
                                         "\\u0000",
                                         "\xc3\xa9",
                                         " ",
                                         "null",
                                         "true",
                                         "\n",
                                         "\r",
                                         "99999999999999999999",
                                         "{\"input_ids\": [1, 2]}\n"};
    random_key key = random_key_of(7, RANDOM_TEST, 1, 0);
    uint64_t at = 0;
    for (int round = 0; round < 300; round++) {
        char text[2048];
        size_t used = 0;
        for (uint32_t n = random_uint(key, at++) % 120; n > 0; n--) {
            const char *piece = pieces[random_uint(key, at++) % (sizeof pieces / sizeof *pieces)];
            used += (size_t)sprintf(text + used, "%s", piece);
        }
        if (used > 0 && round % 3 == 0) {
            size_t where = random_uint(key, at++) % used;
            text[where] = (char)random_uint(key, at++);
        }
        dataset *s;
        qlft_status status = open_tokens(&s, write_bytes(round % 2 ? "f.jsonl" : "f.json", text, used), BAD_ROW_SKIP, 50);
        cr_assert(status == QLFT_OK || status == QLFT_EFORMAT);
        if (status != QLFT_OK) continue;
        data_counts c = dataset_counts(s);
        cr_assert_eq(c.rows, c.samples + c.bad);
        dataset_close(s);
    }
}

/* ---- the cache file ---- */

static int files_in(const char *path)
{
    int count = 0;
    DIR *d = opendir(path);
    cr_assert(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static qlft_status open_cached(dataset **out, const char *path, const char *folder, int64_t max_tokens)
{
    data_options o = token_options(&path);
    o.cache_folder = folder;
    o.max_tokens = max_tokens;
    return dataset_open(out, &o, NULL, NULL, NULL, NULL);
}

Test(cache, second_opening_is_the_same_without_reading)
{
    const char *folder = test_path("cache/deeper"), *path = write_text("c.jsonl", three_rows);
    char hash[SHA256_HEX_BYTES];
    dataset *s;
    cr_assert_eq(open_cached(&s, path, folder, 0), QLFT_OK, "%s", qlft_last_error());
    cr_assert(!dataset_was_cached(s));
    data_counts first = dataset_counts(s);
    snprintf(hash, sizeof hash, "%s", dataset_hash(s));
    dataset_close(s);
    cr_assert_eq(open_cached(&s, path, folder, 0), QLFT_OK);
    cr_assert(dataset_was_cached(s));
    data_counts second = dataset_counts(s);
    cr_assert_eq(memcmp(&first, &second, sizeof first), 0);
    cr_assert_str_eq(dataset_hash(s), hash);
    cr_assert_eq(dataset_sample(s, 1).supervised, 1);
    dataset_close(s);
    cr_assert_eq(files_in(folder), 1);
    /* Another option, and other data, are other files. */
    cr_assert_eq(open_cached(&s, path, folder, 9), QLFT_OK);
    cr_assert(!dataset_was_cached(s));
    dataset_close(s);
    write_text("c.jsonl", "{\"input_ids\": [1, 2, 4]}\n");
    cr_assert_eq(open_cached(&s, path, folder, 0), QLFT_OK);
    cr_assert(!dataset_was_cached(s));
    cr_assert_eq(dataset_size(s), 1);
    dataset_close(s);
    cr_assert_eq(files_in(folder), 3);
}

Test(cache, without_a_folder_nothing_is_left)
{
    dataset *s;
    const char *path = write_text("n.jsonl", three_rows);
    cr_assert_eq(open_cached(&s, path, NULL, 0), QLFT_OK);
    cr_assert_eq(files_in(test_folder), 1);
    cr_assert_eq(dataset_sample(s, 2).tokens[1], 8);
    dataset_close(s);
    cr_assert_eq(open_cached(&s, write_text("n.jsonl", "x"), NULL, 0), QLFT_EFORMAT);
    cr_assert_eq(files_in(test_folder), 1, "a failed run leaves nothing");
}

Test(cache, a_folder_that_cannot_be_used_is_named)
{
    dataset *s;
    const char *path = write_text("f.jsonl", three_rows);
    cr_assert_eq(open_cached(&s, path, path, 0), QLFT_EIO);
    assert_message("--cache");
    assert_message("f.jsonl");
}

/* Any one byte changed, and any cut: found, and the file is made again. */
Test(cache, damage_is_found)
{
    const char *path = test_path("d.tokens");
    cache_writer w;
    data_counts counts = {0};
    int32_t ids[] = {1, 2, 3, 4, 5}, labels[] = {-100, 2, -100, 4, 5};
    cr_assert_eq(cache_writer_open(&w, path), QLFT_OK);
    cr_assert_eq(cache_writer_add(&w, &counts, ids, labels, 5, 1, 0), QLFT_OK);
    cr_assert_eq(cache_writer_add(&w, &counts, ids, labels, 2, 2, 0), QLFT_OK);
    cr_assert_eq(cache_writer_commit(&w, &counts), QLFT_OK);
    char *text;
    size_t bytes;
    cache c;
    cr_assert_eq(cache_open(&c, path, 6), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(c.count, 2);
    cr_assert_eq(c.entries[0].supervised, 3);
    cache_close(&c);
    cr_assert_eq(cache_open(&c, path, 5), QLFT_EFORMAT, "id 5 is outside a vocabulary of 5");
    cr_assert_eq(file_read_text(&text, &bytes, path, 1 << 20), QLFT_OK);
    for (size_t i = 0; i < bytes; i++) {
        text[i] ^= 0x10;
        write_bytes("d.tokens", text, bytes);
        text[i] ^= 0x10;
        cr_assert_eq(cache_open(&c, path, 0), QLFT_EFORMAT, "byte %zu of %zu", i, bytes);
        assert_message("d.tokens");
        write_bytes("d.tokens", text, i);
        cr_assert_eq(cache_open(&c, path, 0), QLFT_EFORMAT, "cut at %zu of %zu", i, bytes);
    }
    free(text);
}

Test(cache, a_damaged_file_is_made_again)
{
    const char *folder = test_path("again"), *path = write_text("r.jsonl", three_rows);
    dataset *s;
    cr_assert_eq(open_cached(&s, path, folder, 0), QLFT_OK);
    dataset_close(s);
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char *name = path_join(folder, e->d_name);
        if (e->d_name[0] != '.') cr_assert_eq(truncate(name, 100), 0);
        free(name);
    }
    closedir(d);
    cr_assert_eq(open_cached(&s, path, folder, 0), QLFT_OK);
    cr_assert(!dataset_was_cached(s));
    cr_assert_eq(dataset_size(s), 3);
    assert_log("made again");
    dataset_close(s);
}

/* A process that was killed while writing leaves its temporary, which goes when it is an hour old; one that still runs keeps it. */
Test(cache, leftovers_of_dead_processes_are_removed)
{
    const char *folder = test_path("left"), *path = write_text("k.jsonl", three_rows);
    char dead[64], young[64], living[64];
    struct timespec old[2] = {{.tv_sec = time(NULL) - 4000}, {.tv_sec = time(NULL) - 4000}};
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    snprintf(dead, sizeof dead, "left/qlft-%ld-0x1.tokens.tmp-%ld", (long)child, (long)child);
    snprintf(young, sizeof young, "left/qlft-%ld-0x2.tokens", (long)child);
    snprintf(living, sizeof living, "left/qlft-%ld-0x1.tokens", (long)getppid());
    cr_assert_eq(folder_make(folder), QLFT_OK);
    const char *names[] = {dead, living, young};
    for (int i = 0; i < 3; i++) {
        write_text(names[i], "x");
        if (i < 2) cr_assert_eq(utimensat(AT_FDCWD, test_path(names[i]), old, 0), 0);
    }
    dataset *s;
    cr_assert_eq(open_cached(&s, path, folder, 0), QLFT_OK);
    dataset_close(s);
    cr_assert(!file_exists(test_path(dead)));
    cr_assert(file_exists(test_path(living)));
    cr_assert(file_exists(test_path(young)));
}

/* What comes through a pipe has its name when it has been read; a file with the same bytes then finds it. */
Test(cache, standard_input_is_kept_too)
{
    const char *folder = test_path("pipe"), *path = write_text("p.jsonl", three_rows);
    int handle = open(path, O_RDONLY);
    cr_assert_geq(dup2(handle, STDIN_FILENO), 0);
    close(handle);
    dataset *s;
    cr_assert_eq(open_cached(&s, "-", folder, 0), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(dataset_size(s), 3);
    dataset_close(s);
    cr_assert_eq(open_cached(&s, path, folder, 0), QLFT_OK);
    cr_assert(dataset_was_cached(s));
    dataset_close(s);
}
