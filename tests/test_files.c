/* core/file.c and json.c. The oracles: the test vectors of FIPS 180-2, and RFC 8259. */
#include "temporary.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/json.h"

TestSuite(file, .init = make_folder, .fini = drop_folder);
TestSuite(json, .init = make_folder, .fini = drop_folder);

Test(file, hashes_are_those_of_the_standard)
{
    static const struct {
        const char *text, *hex;
    } vectors[] = {{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                   {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}};
    char hex[SHA256_HEX_BYTES];
    for (size_t i = 0; i < 2; i++) {
        OK(file_write_text(in("text"), vectors[i].text));
        OK(file_sha256(hex, in("text")));
        cr_assert_str_eq(hex, vectors[i].hex);
    }
    REFUSED(file_sha256(hex, in("absent")), QLFT_EIO, "absent", "No such file");
}

Test(file, writer_gathers_pieces_of_any_size)
{
    size_t bytes = 300000;
    unsigned char *data = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)(i * 31 >> 3);
    file_writer w;
    OK(file_writer_open(&w, in("a")));
    for (size_t at = 0, piece = 1; at < bytes; at += piece, piece = piece * 3 + 1) file_writer_put(&w, data + at, piece < bytes - at ? piece : bytes - at);
    file_writer_print(&w, "%d%s", 7, "x");
    cr_assert_eq(w.written, bytes + 2);
    cr_assert(!file_exists(in("a")), "the file must not be seen before it is whole");
    OK(file_writer_commit(&w));
    file_writer_abandon(&w);
    file_map map;
    OK(file_map_open(&map, in("a")));
    cr_assert_eq(map.bytes, bytes + 2);
    cr_assert(memcmp(map.data, data, bytes) == 0 && memcmp(map.data + bytes, "7x", 2) == 0);
    file_map_forget(&map, 5000, 200000);
    cr_assert_eq(memcmp(map.data, data, bytes), 0);
    file_map_close(&map);
    file_map_close(&map);
    cr_assert_eq(count_files(), 1);
    free(data);
}

Test(file, abandoned_write_leaves_the_older_file)
{
    OK(file_write_text(in("a"), "old"));
    file_writer w;
    OK(file_writer_open(&w, in("a")));
    file_writer_print(&w, "new");
    file_writer_abandon(&w);
    file_writer_abandon(&w);
    expect_text(in("a"), "old");
    cr_assert_eq(count_files(), 1);
}

/* Case F01b: a limit of the file size, met in a child since it can't be raised again. */
static int fail_to_write(void)
{
    struct rlimit limit = {16384, 16384};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    static char data[100000];
    file_writer w;
    if (file_writer_open(&w, in("a")) != QLFT_OK) return 2;
    file_writer_put(&w, data, sizeof data);
    file_writer_put(&w, data, 10);
    if (w.failed != QLFT_EIO) return 3;
    if (file_writer_commit(&w) != QLFT_EIO) return 4;
    if (!strstr(qlft_last_error(), in("a")) || !strstr(qlft_last_error(), "File too large")) return 5;
    if (file_write_text(in("b"), "small") != QLFT_OK) return 6;
    /* A failure that comes only with the flush of the buffer. */
    if (file_writer_open(&w, in("a")) != QLFT_OK) return 7;
    file_writer_put(&w, data, 20000);
    if (w.failed != QLFT_OK || file_writer_commit(&w) != QLFT_EIO) return 8;
    return 0;
}

Test(file, failed_write_leaves_the_older_file)
{
    OK(file_write_text(in("a"), "old"));
    pid_t child = fork();
    if (child == 0) _exit(fail_to_write());
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %d", status);
    expect_text(in("a"), "old");
    cr_assert_eq(count_files(), 2, "a temporary file was left");
}

Test(file, writer_refuses_what_is_no_file_and_follows_links)
{
    file_writer w;
    REFUSED(file_writer_open(&w, folder), QLFT_EIO, folder, "a folder");
    REFUSED(file_writer_open(&w, "/dev/null"), QLFT_EIO, "/dev/null");
    REFUSED(file_writer_open(&w, in("no/such")), QLFT_EIO, "no/such", "No such file");
    OK(file_write_text(in("target"), "old"));
    cr_assert_eq(symlink("target", in("link")), 0);
    OK(file_write_text(in("link"), "new"));
    expect_text(in("target"), "new");
    struct stat info;
    cr_assert(lstat(in("link"), &info) == 0 && S_ISLNK(info.st_mode));
}

Test(file, maps_and_texts_have_limits)
{
    file_map map;
    REFUSED(file_map_open(&map, in("absent")), QLFT_EIO, "absent", "No such file");
    REFUSED(file_map_open(&map, folder), QLFT_EIO, "a folder");
    cr_assert_eq(mkfifo(in("pipe"), 0600), 0);
    REFUSED(file_map_open(&map, in("pipe")), QLFT_EIO, "pipe");
    write_bytes(in("empty"), "", 0);
    OK(file_map_open(&map, in("empty")));
    cr_assert(map.data == NULL && map.bytes == 0);
    file_map_close(&map);
    OK(file_write_text(in("ten"), "0123456789"));
    char *text;
    size_t bytes;
    OK(file_read_text(&text, &bytes, in("ten"), 10));
    cr_assert_eq(bytes, 10);
    free(text);
    REFUSED(file_read_text(&text, &bytes, in("ten"), 9), QLFT_EFORMAT, "ten", "9");
    cr_assert_null(text);
}

Test(file, folders_are_made_and_removed)
{
    OK(folder_make(in("a/b/c/")));
    OK(folder_make(in("a/b/c")));
    cr_assert(file_is_folder(in("a/b/c")));
    OK(file_write_text(in("a/file"), "x"));
    REFUSED(folder_make(in("a/file")), QLFT_EIO, "a/file");
    REFUSED(folder_make(in("a/file/b")), QLFT_EIO, "a/file");
    OK(folder_make(in("outside")));
    OK(file_write_text(in("outside/kept"), "x"));
    cr_assert_eq(symlink("../../outside", in("a/b/link")), 0);
    OK(folder_remove(in("a")));
    OK(folder_remove(in("a")));
    cr_assert(!file_exists(in("a")) && file_exists(in("outside/kept")), "links must not be followed");
    OK(folder_writable(folder));
    REFUSED(folder_writable(in("a")), QLFT_EIO, in("a"));
    cr_assert_eq(count_files(), 1);
    size_t free_bytes;
    OK(folder_free_bytes(&free_bytes, folder));
    cr_assert_gt(free_bytes, 0);
}

Test(file, a_published_folder_replaces_the_older_one)
{
    for (int round = 0; round < 2; round++) {
        OK(folder_make(in("new")));
        OK(file_write_text(in("new/weights"), round ? "two" : "one"));
        if (!round) OK(file_write_text(in("new/only-in-the-first"), "x"));
        OK(folder_publish(in("new/"), in("out/")));
        expect_text(in("out/weights"), round ? "two" : "one");
        cr_assert(!file_exists(in("new")));
    }
    cr_assert_eq(count_files(), 1);
    OK(folder_make(in("new/below")));
    REFUSED(folder_publish(in("new"), in("out")), QLFT_EIO, "below", "not a file");
    expect_text(in("out/weights"), "two");
    OK(folder_make(in("other")));
    REFUSED(folder_publish(in("other"), in("out/weights")), QLFT_EIO, "not a folder");
    expect_text(in("out/weights"), "two");
}

Test(file, a_lock_names_its_holder_and_dies_with_it)
{
    int first, second, ready[2];
    OK(folder_lock(&first, folder));
    char pid[32];
    snprintf(pid, sizeof pid, "process %ld:", (long)getpid());
    REFUSED(folder_lock(&second, folder), QLFT_EIO, folder, pid);
    folder_unlock(first, folder);
    cr_assert_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        char done = folder_lock(&first, folder) == QLFT_OK;
        if (write(ready[1], &done, 1) == 1) pause();
        _exit(1);
    }
    char done = 0;
    cr_assert(read(ready[0], &done, 1) == 1 && done);
    snprintf(pid, sizeof pid, "process %ld:", (long)child);
    REFUSED(folder_lock(&second, folder), QLFT_EIO, pid);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    OK(folder_lock(&second, folder));
    folder_unlock(second, folder);
    cr_assert(!file_exists(in(".lock")), "the lock is left behind");
}

Test(file, paths)
{
    static const struct {
        const char *path, *folder;
    } cases[] = {{"a", "."}, {"a/b", "a"}, {"/a", "/"}, {"/", "/"}, {"a/b/", "a"}, {"a//b", "a"}, {"a/", "."}, {"./a", "."}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = path_folder(cases[i].path);
        cr_assert_str_eq(got, cases[i].folder, "%s gives %s", cases[i].path, got);
        free(got);
    }
    static const char *const joins[][3] = {{"a/b", "c", "a/b/c"}, {"a/", "c", "a/c"}, {"", "c", "c"}, {"/", "c", "/c"}};
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        char *got = path_join(joins[i][0], joins[i][1]);
        cr_assert_str_eq(got, joins[i][2]);
        free(got);
    }
}

/* ---- json ---- */

static json_t *parse(const char *text)
{
    json_t *value;
    OK(json_parse(&value, text, strlen(text), "test"));
    return value;
}

Test(json, values_keep_their_kinds)
{
    json_t *v =
        parse("{\"a\":1, \"u\":\"x\\u0000y\", \"big\":9223372036854775807, \"none\":1000000000000000019884624838656, \"s\":\"1000000000000000019884624838656\","
              " \"exponent\":1e-05, \"a\":2, \"nothing\":null, \"yes\":true}");
    int64_t i;
    double d;
    bool b;
    const char *s;
    OK(json_get_int(&i, v, "a", 0, "test"));
    cr_assert_eq(i, 2, "the last of equal keys wins");
    OK(json_get_int(&i, v, "big", 0, "test"));
    cr_assert_eq(i, INT64_MAX, "it fits and stays an integer, also beside one that doesn't");
    OK(json_get_double(&d, v, "none", 0, "test"));
    cr_assert(d == 1e30);
    REFUSED(json_get_int(&i, v, "none", 0, "test"), QLFT_EFORMAT, "test", "\"none\"", "a real");
    OK(json_get_string(&s, v, "s", NULL, "test"));
    cr_assert_str_eq(s, "1000000000000000019884624838656");
    OK(json_get_double(&d, v, "exponent", 0, "test"));
    cr_assert(d == 1e-5);
    cr_assert_eq(json_string_length(json_object_get(v, "u")), 3);
    REFUSED(json_get_string(&s, v, "u", NULL, "test"), QLFT_EFORMAT, "\"u\"", "U+0000");
    OK(json_get_int(&i, v, "nothing", 7, "test"));
    cr_assert_eq(i, 7);
    OK(json_get_bool(&b, v, "absent", true, "test"));
    cr_assert(b);
    OK(json_get_bool(&b, v, "yes", false, "test"));
    cr_assert(b);
    REFUSED(json_get_bool(&b, v, "a", false, "config.json"), QLFT_EFORMAT, "config.json", "\"a\"", "true or false", "an integer");
    REFUSED(json_get_string(&s, v, "yes", NULL, "config.json"), QLFT_EFORMAT, "\"yes\"", "a string", "true");
    REFUSED(json_get_double(&d, v, "s", 0, "config.json"), QLFT_EFORMAT, "\"s\"", "a number");
    json_decref(v);
    v = parse("[1]");
    REFUSED(json_get_int(&i, v, "a", 0, "config.json"), QLFT_EFORMAT, "config.json", "object");
    json_decref(v);
}

Test(json, quotes_in_strings_do_not_hide_wide_integers)
{
    json_t *v = parse(
        "{\"s\":\"\\\\\\\"1000000000000000019884624838656\", \"n\":[-1000000000000000019884624838656, 1.00000000000000000001, 1e-0000000000000000000002]}");
    cr_assert_str_eq(json_string_value(json_object_get(v, "s")), "\\\"1000000000000000019884624838656");
    const json_t *n = json_object_get(v, "n");
    cr_assert(json_real_value(json_array_get(n, 0)) == -1e30);
    cr_assert(json_real_value(json_array_get(n, 1)) == 1.0);
    cr_assert(json_real_value(json_array_get(n, 2)) == 0.01);
    json_decref(v);
}

Test(json, errors_have_positions)
{
    static const struct {
        const char *text, *where;
    } cases[] = {{"{\"a\":1,\n  b}", "line 2, column 3"},
                 {"[1e999]", "line 1"},
                 {"\"\xff\"", "line 1"},
                 {"\"\xc0\x80\"", "line 1"},
                 {"\"\xed\xa0\x80\"", "line 1"},
                 {"1 2", "line 1, column 3"},
                 {"", "line 1"},
                 {"[1,]", "line 1"},
                 {"{\"a\\u0000b\":1}", "line 1"},
                 {"[\"a", "line 1"},
                 {"[\"\\ud800\"]", "line 1"},
                 {"[01]", "line 1"},
                 {"[NaN]", "line 1"},
                 {"[1]\n}", "line 2"}};
    json_t *v;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        REFUSED(json_parse(&v, cases[i].text, strlen(cases[i].text), "data.jsonl"), QLFT_EFORMAT, "data.jsonl", cases[i].where);
    char *deep = malloc(1000000);
    memset(deep, '[', 1000000);
    REFUSED(json_parse(&v, deep, 1000000, "deep"), QLFT_EFORMAT, "deep", "depth");
    free(deep);
}

Test(json, files_read_back_equal)
{
    const char *text =
        "{\n \"r\": 0.05,\n \"z\": 1e-5,\n \"a\": [\n  1,\n  0.30000000000000004,\n  {},\n  []\n ],\n \"k\\\"\": \"gr\xc3\xbc\xc3\x9f\\u0000\\n\"\n}\n";
    json_t *v = parse(text), *again;
    OK(json_write_file(v, in("v.json")));
    expect_text(in("v.json"), text);
    OK(json_read_file(&again, in("v.json"), 1000));
    cr_assert(json_equal(v, again));
    json_decref(again);
    char *line;
    OK(json_print(&line, v, 0));
    cr_assert_str_eq(line, "{\"r\": 0.05, \"z\": 1e-5, \"a\": [1, 0.30000000000000004, {}, []], \"k\\\"\": \"gr\xc3\xbc\xc3\x9f\\u0000\\n\"}");
    free(line);
    json_decref(v);
    OK(file_write_text(in("bom.json"), "\xef\xbb\xbf{}"));
    OK(json_read_file(&v, in("bom.json"), 100));
    json_decref(v);
    REFUSED(json_read_file(&v, in("v.json"), 10), QLFT_EFORMAT, "v.json");
}
