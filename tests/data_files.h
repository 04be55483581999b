/* Helpers of the tests of data/: a folder of the test's own, files in it, the log, and options. */
#ifndef TESTS_DATA_FILES_H
#define TESTS_DATA_FILES_H

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "data/dataset.h"

static char test_folder[64];
static char test_log[8192];

static inline void test_log_take(void *payload, qlft_log_level level, const char *message)
{
    (void)payload;
    (void)level;
    size_t used = strlen(test_log);
    snprintf(test_log + used, sizeof test_log - used, "%s\n", message);
}

/* Criterion runs each test in a process of its own. */
static inline void test_begin(void)
{
    snprintf(test_folder, sizeof test_folder, "/tmp/qlft-test-XXXXXX");
    cr_assert(mkdtemp(test_folder));
    setenv("TMPDIR", test_folder, 1);
    test_log[0] = '\0';
    qlft_log_to(test_log_take, NULL, QLFT_LOG_INFO);
}

static inline void test_end(void)
{
    folder_remove(test_folder);
}

/* "FOLDER/name"; a few at a time. */
static inline const char *test_path(const char *name)
{
    static char paths[16][256];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
    return path;
}

static inline const char *case_path(const char *name)
{
    static char paths[16][512];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/cases/%s", TEST_GOLDEN, name);
    return path;
}

static inline const char *write_bytes(const char *name, const void *data, size_t bytes)
{
    const char *path = test_path(name);
    FILE *f = fopen(path, "wb");
    cr_assert(f);
    cr_assert_eq(fwrite(data, 1, bytes, f), bytes);
    cr_assert_eq(fclose(f), 0);
    return path;
}

static inline const char *write_text(const char *name, const char *text)
{
    return write_bytes(name, text, strlen(text));
}

#define assert_message(part) cr_assert(strstr(qlft_last_error(), (part)), "\"%s\" is not in: %s", (part), qlft_last_error())
#define assert_log(part) cr_assert(strstr(test_log, (part)), "\"%s\" is not in: %s", (part), test_log)

#endif
