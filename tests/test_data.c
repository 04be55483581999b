/* Reading of data files, token rows to a mapped data set, the cache file. Expected values of A.. are those of cases.json, written out. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <iconv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <zlib.h>

#include "core/json.h"
#include "core/random.h"
#include "data/cache.h"
#include "data/jsonl.h"
#include "data_files.h"

TestSuite(jsonl, .init = test_begin, .fini = test_end);
TestSuite(dataset, .init = test_begin, .fini = test_end);
TestSuite(cache, .init = test_begin, .fini = test_end);

/* ---- rows of files ---- */

typedef struct read_result {
    qlft_status status;
    int count;
    int64_t lines[64];
    size_t bytes[64];
    char texts[64][64]; /* the beginning of each */
} read_result;

static read_result read_all(const char *path)
{
    read_result r = {.status = QLFT_OK};
    jsonl *j;
    r.status = jsonl_open(&j, path);
    while (r.status == QLFT_OK) {
        jsonl_row row;
        r.status = jsonl_next(j, &row);
        if (r.status != QLFT_OK || !row.text) break;
        cr_assert(r.count < 64);
        r.lines[r.count] = row.line;
        r.bytes[r.count] = row.bytes;
        snprintf(r.texts[r.count], sizeof r.texts[0], "%.*s", (int)(row.bytes < 63 ? row.bytes : 63), row.text);
        r.count++;
    }
    if (j) jsonl_close(j);
    return r;
}

Test(jsonl, byte_order_mark_only_at_the_start)
{
    read_result r = read_all(case_path("a01_bom.jsonl"));
    cr_assert_eq(r.status, QLFT_OK);
    cr_assert_eq(r.count, 3);
    cr_assert_str_eq(r.texts[0], "{\"text\": \"Alpha one\"}");
    cr_assert_str_eq(r.texts[1], "{\"text\": \"Beta \xef\xbb\xbf two\"}");
}

Test(jsonl, line_ends_blank_lines_and_physical_numbers)
{
    read_result r = read_all(case_path("a03_crlf_blank_noeol.jsonl"));
    cr_assert_eq(r.count, 3);
    cr_assert_eq(r.lines[0], 1);
    cr_assert_eq(r.lines[1], 4);
    cr_assert_eq(r.lines[2], 6);
    cr_assert_str_eq(r.texts[0], "{\"text\":\"one\\r\\ntwo\"}");
    cr_assert_str_eq(r.texts[2], "{\"text\":\"four\"}");
}

Test(jsonl, arrays_and_pretty_printed_objects)
{
    read_result r = read_all(case_path("a17_array.json"));
    cr_assert_eq(r.status, QLFT_OK);
    cr_assert_eq(r.count, 2);
    cr_assert_eq(r.lines[0], 2);
    cr_assert_eq(r.lines[1], 6);
    r = read_all(case_path("a17_pretty.jsonl"));
    cr_assert_eq(r.status, QLFT_OK);
    cr_assert_eq(r.count, 1);
    cr_assert_eq(r.lines[0], 1);
    r = read_all(write_text("two.json", "{\n \"a\": \"}\\\"{\"\n}\n{\n \"b\": [1,\n 2]\n}\n"));
    cr_assert_eq(r.count, 2);
    cr_assert_eq(r.lines[1], 4);
    r = read_all(write_text("compact.json", " [{\"a\":\"],\"},{\"b\":[1,{}]}, \"\\\\\", \"\\\"]\" ]\n "));
    cr_assert_eq(r.count, 4);
    cr_assert_str_eq(r.texts[2], "\"\\\\\"");
    cr_assert_str_eq(r.texts[3], "\"\\\"]\"");
    cr_assert_str_eq(r.texts[0], "{\"a\":\"],\"}");
    cr_assert_str_eq(r.texts[1], "{\"b\":[1,{}]}");
    r = read_all(write_text("empty.json", "[]"));
    cr_assert_eq(r.status, QLFT_OK);
    cr_assert_eq(r.count, 0);
    cr_assert_eq(read_all(write_text("cut.json", "[{\"a\":1},\n{\"b\"")).status, QLFT_EFORMAT);
    assert_message("line 2");
    cr_assert_eq(read_all(write_text("more.json", "[1]\nx")).status, QLFT_EFORMAT);
    assert_message("more.json line 2");
}

/* A first line that is broken, not pretty-printed, must not swallow the rows behind it. */
Test(jsonl, broken_first_line_stays_one_row)
{
    read_result r = read_all(write_text("a.jsonl", "{\"text\": \"open\n{\"text\": \"fine\"}\n{\"text\": {\"x\": 1}\n{}\n"));
    cr_assert_eq(r.count, 4);
}

static char *long_row(size_t words, const char *word, const char *tail, size_t *bytes)
{
    size_t n = strlen(word);
    char *text = malloc(words * n + strlen(tail) + 64);
    size_t used = (size_t)sprintf(text, "{\"text\":\"");
    for (size_t i = 0; i < words; i++, used += n) memcpy(text + used, word, n);
    used += (size_t)sprintf(text + used, "%s", tail);
    *bytes = used;
    return text;
}

Test(jsonl, long_lines_are_whole)
{
    size_t bytes;
    char *text = long_row(100000, "ab ", "END\"}\n{\"text\":\"next\"}\n", &bytes);
    read_result r = read_all(write_bytes("a.jsonl", text, bytes));
    free(text);
    cr_assert_eq(r.count, 2);
    cr_assert_eq(r.bytes[0], 9 + 300003 + 2);
    cr_assert_str_eq(r.texts[1], "{\"text\":\"next\"}");
    text = long_row(3145728, "x", "\"}", &bytes);
    r = read_all(write_bytes("b.jsonl", text, bytes));
    free(text);
    cr_assert_eq(r.count, 1);
    cr_assert_eq(r.bytes[0], 9 + 3145728 + 2);
}

static size_t gzip_bytes(unsigned char *to, size_t room, const char *text)
{
    z_stream z = {0};
    cr_assert_eq(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (uInt)strlen(text);
    z.next_out = to;
    z.avail_out = (uInt)room;
    cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

Test(jsonl, gzip_members_and_damage)
{
    unsigned char data[1024] = {0};
    size_t first = gzip_bytes(data, 400, "{\"a\": 1}\n{\"b\""), both = first + gzip_bytes(data + first, 400, ": 2}\n{\"c\": 3}");
    read_result r = read_all(write_bytes("two.jsonl.gz", data, both));
    cr_assert_eq(r.status, QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(r.count, 3);
    cr_assert_str_eq(r.texts[1], "{\"b\": 2}");
    cr_assert_eq(read_all(write_bytes("padded.gz", data, both + 100)).count, 3, "zeros behind a member are padding");
    for (size_t cut = 2; cut < both; cut++) {
        r = read_all(write_bytes("cut.jsonl.gz", data, cut));
        if (cut == first) continue; /* a whole member */
        cr_assert_eq(r.status, QLFT_EFORMAT, "cut at %zu of %zu", cut, both);
        assert_message("cut.jsonl.gz");
    }
    memcpy(data + both, "rest", 4);
    cr_assert_eq(read_all(write_bytes("rest.gz", data, both + 4)).status, QLFT_EFORMAT);
    data[both - 6] ^= 1; /* the checksum */
    cr_assert_eq(read_all(write_bytes("sum.gz", data, both)).status, QLFT_EFORMAT);
    assert_message("sum.gz");
}

Test(jsonl, pipes_and_standard_input)
{
    int ends[2];
    char text[] = "{\"a\": 1}\n\n{\"b\": 2}";
    unsigned char data[256];
    size_t bytes = gzip_bytes(data, sizeof data, text);
    for (int packed = 0; packed < 2; packed++) {
        cr_assert_eq(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) {
            close(ends[0]);
            const char *from = packed ? (const char *)data : text;
            /* One byte at a time: no read may be taken for the end. */
            for (size_t i = 0; i < (packed ? bytes : strlen(text)); i++)
                if (write(ends[1], from + i, 1) != 1) _exit(1);
            _exit(0);
        }
        close(ends[1]);
        cr_assert_geq(dup2(ends[0], STDIN_FILENO), 0);
        close(ends[0]);
        read_result r = read_all("-");
        cr_assert_eq(r.status, QLFT_OK);
        cr_assert_eq(r.count, 2);
        cr_assert_eq(r.lines[1], 3);
        waitpid(child, NULL, 0);
    }
}

Test(jsonl, what_is_no_file)
{
    cr_assert_eq(read_all(test_folder).status, QLFT_EIO);
    assert_message("folder");
    cr_assert_eq(read_all(test_path("none.jsonl")).status, QLFT_EIO);
    assert_message("none.jsonl");
    cr_assert_eq(read_all(write_text("empty.jsonl", "")).count, 0);
    cr_assert_eq(read_all(write_text("bom.jsonl", "\xef\xbb\xbf")).count, 0);
    cr_assert_eq(read_all(write_text("book.txt", "a\n\nb")).count, 1);
}

/* Offset of the first byte that glibc's converter does not take; the converter is the oracle. */
static size_t iconv_valid(const char *text, size_t bytes)
{
    iconv_t c = iconv_open("UTF-32LE", "UTF-8");
    char out[512], *from = (char *)(uintptr_t)text, *to = out;
    size_t left = bytes, room = sizeof out;
    cr_assert(c != (iconv_t)-1);
    iconv(c, &from, &left, &to, &room);
    iconv_close(c);
    return (size_t)(from - text);
}

Test(jsonl, utf8_is_strict)
{
    random_key key = random_key_of(1, RANDOM_TEST, 8, 0);
    static const unsigned char tails[] = {0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 'a', 0xc3};
    uint64_t at = 0;
    for (int round = 0; round < 20000; round++) {
        unsigned char text[12];
        for (int i = 0; i < 12; i++) {
            uint32_t x = random_uint(key, at++);
            text[i] = x % 3 == 0 ? (unsigned char)(x >> 8) : x % 3 == 1 ? tails[(x >> 8) % 8] : (unsigned char)(0xe0 + (x >> 8) % 0x16);
        }
        size_t ours = utf8_valid_bytes((char *)text, sizeof text), theirs = iconv_valid((char *)text, sizeof text);
        /* glibc stops in front of the sequence, as we do, except that it takes what is left of a cut last one for incomplete input: the same place. */
        cr_assert_eq(ours, theirs, "round %d: %zu, iconv %zu", round, ours, theirs);
    }
}

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
