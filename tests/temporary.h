/* A temporary folder for each test, and checks of what fails. Use: TestSuite(name, .init = make_folder, .fini = drop_folder); */
#ifndef TESTS_TEMPORARY_H
#define TESTS_TEMPORARY_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"

static char folder[] = "/tmp/qlft-test-XXXXXX";

static inline void make_folder(void)
{
    cr_assert(mkdtemp(folder) != NULL);
}

static inline void drop_folder(void)
{
    cr_assert_eq(folder_remove(folder), QLFT_OK, "%s", qlft_last_error());
}

/* OK: done. REFUSED: failed with the code, and the message holds all of the parts. */
#define OK(expression) cr_assert_eq((expression), QLFT_OK, "%s", qlft_last_error())
#define REFUSED(expression, code, ...)                                                                                                                         \
    do {                                                                                                                                                       \
        cr_assert_eq((expression), code, "%s", qlft_last_error());                                                                                             \
        const char *const parts_[] = {__VA_ARGS__};                                                                                                            \
        for (size_t p_ = 0; p_ < sizeof parts_ / sizeof *parts_; p_++)                                                                                         \
            cr_assert(strstr(qlft_last_error(), parts_[p_]), "\"%s\" lacks \"%s\"", qlft_last_error(), parts_[p_]);                                            \
    } while (0)

/* A path in the folder; each call has the next of eight buffers. */
static inline const char *in(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline void write_bytes(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0);
}

static inline void expect_text(const char *path, const char *text)
{
    char *got;
    size_t bytes;
    OK(file_read_text(&got, &bytes, path, 1 << 20));
    cr_assert_str_eq(got, text);
    free(got);
}

static inline int count_files(void)
{
    char command[600], text[32];
    snprintf(command, sizeof command, "find %s -type f | wc -l", folder);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe && fgets(text, sizeof text, pipe));
    pclose(pipe);
    return atoi(text);
}

/* xorshift64: the same numbers everywhere; the state is not 0. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
