#include "core/file_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <nettle/version.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE_BUFFER_BYTES = 64 * 1024, READ_BUFFER_BYTES = 1024 * 1024 };

qlft_status file_fail(const char *what, const char *path, int error)
{
    return status_fail(error == ENOMEM ? QLFT_ENOMEM : QLFT_EIO, "cannot %s %s: %s", what, path, strerror(error));
}

qlft_status file_fail_memory(const char *path)
{
    return status_fail(QLFT_ENOMEM, "%s: out of memory", path);
}

int file_sync(int handle)
{
    int result;
    do result = fsync(handle);
    while (result != 0 && errno == EINTR);
    return result;
}

/* Some file systems have no fsync for folders (EINVAL): their renames need none. */
int folder_sync(const char *path)
{
    int handle = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0) return errno;
    int error = file_sync(handle) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
    close(handle);
    return error;
}

/* ---- paths ---- */

char *path_join(const char *folder, const char *name)
{
    size_t length = strlen(folder);
    bool slash = length > 0 && folder[length - 1] != '/';
    char *path;
    return asprintf(&path, "%s%s%s", folder, slash ? "/" : "", name) < 0 ? NULL : path;
}

char *path_folder(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    while (length > 0 && path[length - 1] != '/') length--;
    while (length > 1 && path[length - 1] == '/') length--;
    return length == 0 ? strdup(".") : strndup(path, length);
}

/* ---- reading ---- */

/* O_NONBLOCK: opening a FIFO by mistake must not wait for its writer. */
static qlft_status open_regular(int *out, size_t *bytes, const char *path)
{
    int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0) return file_fail("open", path, errno);
    struct stat info;
    if (fstat(handle, &info) != 0) {
        int error = errno;
        close(handle);
        return file_fail("open", path, error);
    }
    if (!S_ISREG(info.st_mode)) {
        close(handle);
        return status_fail(QLFT_EIO, "cannot open %s: it is %s, not a file", path, S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    }
    *out = handle;
    *bytes = (size_t)info.st_size;
    return QLFT_OK;
}

qlft_status file_map_open(file_map *out, const char *path)
{
    memset(out, 0, sizeof *out);
    int handle = -1;
    size_t bytes = 0;
    QLFT_TRY(open_regular(&handle, &bytes, path));
    void *data = NULL;
    if (bytes > 0) data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, handle, 0);
    int error = errno;
    close(handle);
    if (data == MAP_FAILED) return file_fail("map", path, error);
    char *name = strdup(path);
    if (!name) {
        if (data) munmap(data, bytes);
        return file_fail_memory(path);
    }
    out->data = data;
    out->bytes = bytes;
    out->path = name;
    return QLFT_OK;
}

void file_map_close(file_map *map)
{
    if (map->data) munmap((void *)(uintptr_t)map->data, map->bytes);
    free(map->path);
    memset(map, 0, sizeof *map);
}

void file_map_forget(const file_map *map, size_t at, size_t bytes)
{
    if (!map->data || at >= map->bytes) return;
    if (bytes > map->bytes - at) bytes = map->bytes - at;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t first = (at + page - 1) / page * page, end = (at + bytes) / page * page;
    /* The last page of the file belongs to nobody else, whole or not. */
    if (at + bytes == map->bytes) end = map->bytes;
    /* Advice: where it is not taken the pages only stay longer. */
    if (end > first) madvise((void *)(uintptr_t)(map->data + first), end - first, MADV_DONTNEED);
}

/* Reads until `bytes` or the end of the file; gives what was read, or -1 with errno. */
static ssize_t read_full(int handle, void *data, size_t bytes)
{
    size_t got = 0;
    while (got < bytes) {
        ssize_t n = read(handle, (char *)data + got, bytes - got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

/* Grows as it reads: the size of a pipe or of a file in /proc is not known before. */
static qlft_status read_growing(char **out, size_t *bytes, int handle, const char *path, size_t limit_bytes)
{
    char *text = NULL;
    size_t used = 0, capacity = 0;
    qlft_status status = QLFT_OK;
    for (;;) {
        if (used + 1 >= capacity) {
            capacity = capacity ? capacity * 2 : 64 * 1024;
            char *grown = realloc(text, capacity);
            if (!grown) {
                status = file_fail_memory(path);
                goto done;
            }
            text = grown;
        }
        ssize_t n = read_full(handle, text + used, capacity - used - 1);
        if (n < 0) {
            status = file_fail("read", path, errno);
            goto done;
        }
        used += (size_t)n;
        if (used > limit_bytes) {
            status = status_fail(QLFT_EFORMAT, "%s: larger than the %zu bytes that are read of such a file", path, limit_bytes);
            goto done;
        }
        if (used + 1 < capacity) break;
    }
    text[used] = '\0';
    *out = text;
    *bytes = used;
    text = NULL;
done:
    free(text);
    return status;
}

qlft_status file_read_text(char **out, size_t *bytes, const char *path, size_t limit_bytes)
{
    size_t ignored;
    *out = NULL;
    if (!bytes) bytes = &ignored;
    *bytes = 0;
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    if (handle < 0) return file_fail("open", path, errno);
    qlft_status status = read_growing(out, bytes, handle, path, limit_bytes);
    close(handle);
    return status;
}

bool file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool file_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* ---- writing ---- */

static void writer_fail(file_writer *w, int error)
{
    if (w->failed != QLFT_OK) return;
    w->error = error;
    w->failed = error == ENOMEM ? QLFT_ENOMEM : QLFT_EIO;
}

static void writer_send(file_writer *w, const unsigned char *data, size_t bytes)
{
    while (bytes > 0 && w->failed == QLFT_OK) {
        /* Linux takes at most 2^31 - 4096 bytes a call. */
        size_t piece = bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30;
        ssize_t n = write(w->handle, data, piece);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            writer_fail(w, errno);
        } else {
            data += n;
            bytes -= (size_t)n;
        }
    }
}

static void writer_flush(file_writer *w)
{
    size_t bytes = w->buffered;
    w->buffered = 0;
    writer_send(w, w->buffer, bytes);
}

/* The name to rename to: PATH, or what it links to. */
static qlft_status writer_target(char **out, const char *path)
{
    struct stat info;
    *out = NULL;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) {
        *out = realpath(path, NULL);
        if (!*out) return file_fail("write", path, errno);
    } else {
        *out = strdup(path);
        if (!*out) return file_fail_memory(path);
    }
    if (stat(*out, &info) == 0 && !S_ISREG(info.st_mode)) {
        free(*out);
        *out = NULL;
        return status_fail(QLFT_EIO, "cannot write %s: it is %s, not a file", path, S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    }
    return QLFT_OK;
}

qlft_status file_writer_open(file_writer *out, const char *path)
{
    memset(out, 0, sizeof *out);
    out->handle = -1;
    char *target = NULL, *temporary = NULL;
    QLFT_TRY(writer_target(&target, path));
    unsigned char *buffer = malloc(WRITE_BUFFER_BYTES);
    qlft_status status = QLFT_OK;
    if (!buffer || asprintf(&temporary, "%s.tmp-%ld", target, (long)getpid()) < 0) {
        temporary = NULL;
        status = file_fail_memory(path);
        goto done;
    }
    int handle = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (handle < 0) {
        status = file_fail("write", path, errno);
        goto done;
    }
    out->handle = handle;
    out->path = target;
    out->temporary = temporary;
    out->buffer = buffer;
    return QLFT_OK;
done:
    free(target);
    free(temporary);
    free(buffer);
    return status;
}

void file_writer_put(file_writer *w, const void *data, size_t bytes)
{
    if (bytes == 0 || w->failed != QLFT_OK) return;
    w->written += bytes;
    if (bytes > WRITE_BUFFER_BYTES - w->buffered) writer_flush(w);
    if (bytes >= WRITE_BUFFER_BYTES) {
        writer_send(w, data, bytes);
    } else {
        memcpy(w->buffer + w->buffered, data, bytes);
        w->buffered += bytes;
    }
}

void file_writer_print(file_writer *w, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int bytes = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (bytes < 0) {
        writer_fail(w, ENOMEM);
        return;
    }
    file_writer_put(w, text, (size_t)bytes);
    free(text);
}

static void writer_release(file_writer *w)
{
    free(w->path);
    free(w->temporary);
    free(w->buffer);
    memset(w, 0, sizeof *w);
    w->handle = -1;
}

qlft_status file_writer_commit(file_writer *w)
{
    if (!w->temporary) return status_fail(QLFT_EARG, "a file is committed that is not open");
    writer_flush(w);
    if (w->failed == QLFT_OK && file_sync(w->handle) != 0) writer_fail(w, errno);
    /* A close that was interrupted has closed, and fsync has said that the data is down. */
    if (close(w->handle) != 0 && errno != EINTR) writer_fail(w, errno);
    if (w->failed == QLFT_OK && rename(w->temporary, w->path) != 0) writer_fail(w, errno);
    qlft_status status = w->failed;
    if (status != QLFT_OK) {
        unlink(w->temporary);
        file_fail("write", w->path, w->error);
    } else {
        char *folder = path_folder(w->path);
        int error = folder ? folder_sync(folder) : ENOMEM;
        if (error) status = file_fail("sync the folder of", w->path, error);
        free(folder);
    }
    writer_release(w);
    return status;
}

void file_writer_abandon(file_writer *w)
{
    if (!w->temporary) return;
    close(w->handle);
    unlink(w->temporary);
    writer_release(w);
}

qlft_status file_write_text(const char *path, const char *text)
{
    file_writer w;
    QLFT_TRY(file_writer_open(&w, path));
    file_writer_put(&w, text, strlen(text));
    return file_writer_commit(&w);
}

/* ---- SHA-256 ---- */

struct file_hash {
    struct sha256_ctx state;
};

qlft_status file_hash_open(file_hash **out)
{
    *out = malloc(sizeof **out);
    if (!*out) return status_fail(QLFT_ENOMEM, "out of memory");
    sha256_init(&(*out)->state);
    return QLFT_OK;
}

void file_hash_put(file_hash *h, const void *data, size_t bytes)
{
    if (bytes > 0) sha256_update(&h->state, bytes, data);
}

void file_hash_end(file_hash *h, char hex[SHA256_HEX_BYTES])
{
    uint8_t digest[SHA256_DIGEST_SIZE];
#if NETTLE_VERSION_MAJOR >= 4
    sha256_digest(&h->state, digest);
#else
    sha256_digest(&h->state, sizeof digest, digest);
#endif
    for (size_t i = 0; i < sizeof digest; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    free(h);
}

qlft_status file_sha256(char hex[SHA256_HEX_BYTES], const char *path)
{
    hex[0] = '\0';
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    if (handle < 0) return file_fail("open", path, errno);
    unsigned char *buffer = malloc(READ_BUFFER_BYTES);
    file_hash *hash = NULL;
    qlft_status status = buffer ? file_hash_open(&hash) : file_fail_memory(path);
    while (status == QLFT_OK) {
        ssize_t n = read_full(handle, buffer, READ_BUFFER_BYTES);
        if (n < 0) status = file_fail("read", path, errno);
        if (n <= 0) break;
        file_hash_put(hash, buffer, (size_t)n);
    }
    if (status == QLFT_OK)
        file_hash_end(hash, hex);
    else
        free(hash);
    free(buffer);
    close(handle);
    return status;
}

bool name_ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}
