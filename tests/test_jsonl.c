/* Reading of data files as rows of bytes. Expected values of A.. are those of cases.json, written out. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <iconv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <zlib.h>

#include "core/random.h"
#include "data/jsonl.h"
#include "data/utf8.h"
#include "data_files.h"

TestSuite(jsonl, .init = test_begin, .fini = test_end);

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
