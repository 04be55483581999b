#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <nettle/version.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { WRITE_BUFFER_BYTES = 64 * 1024, READ_BUFFER_BYTES = 1024 * 1024 };

static qlft_status fail_errno(const char *what, const char *path, int error)
{
    return status_fail(error == ENOMEM ? QLFT_ENOMEM : QLFT_EIO, "cannot %s %s: %s", what, path, strerror(error));
}

static qlft_status fail_memory(const char *path)
{
    return status_fail(QLFT_ENOMEM, "%s: out of memory", path);
}

static int sync_handle(int handle)
{
    int result;
    do result = fsync(handle);
    while (result != 0 && errno == EINTR);
    return result;
}

/* 0 or an errno. Some file systems have no fsync for folders (EINVAL): their renames need none. */
static int sync_folder(const char *path)
{
    int handle = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0) return errno;
    int error = sync_handle(handle) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
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

/* The path without slashes at its end, yours to free(). */
static char *path_trim(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    return strndup(path, length);
}

/* ---- reading ---- */

/* O_NONBLOCK: opening a FIFO by mistake must not wait for its writer. */
static qlft_status open_regular(int *out, size_t *bytes, const char *path)
{
    int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0) return fail_errno("open", path, errno);
    struct stat info;
    if (fstat(handle, &info) != 0) {
        int error = errno;
        close(handle);
        return fail_errno("open", path, error);
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
    if (data == MAP_FAILED) return fail_errno("map", path, error);
    char *name = strdup(path);
    if (!name) {
        if (data) munmap(data, bytes);
        return fail_memory(path);
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
                status = fail_memory(path);
                goto done;
            }
            text = grown;
        }
        ssize_t n = read_full(handle, text + used, capacity - used - 1);
        if (n < 0) {
            status = fail_errno("read", path, errno);
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
    if (handle < 0) return fail_errno("open", path, errno);
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
        if (!*out) return fail_errno("write", path, errno);
    } else {
        *out = strdup(path);
        if (!*out) return fail_memory(path);
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
        status = fail_memory(path);
        goto done;
    }
    int handle = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (handle < 0) {
        status = fail_errno("write", path, errno);
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
    if (w->failed == QLFT_OK && sync_handle(w->handle) != 0) writer_fail(w, errno);
    /* A close that was interrupted has closed, and fsync has said that the data is down. */
    if (close(w->handle) != 0 && errno != EINTR) writer_fail(w, errno);
    if (w->failed == QLFT_OK && rename(w->temporary, w->path) != 0) writer_fail(w, errno);
    qlft_status status = w->failed;
    if (status != QLFT_OK) {
        unlink(w->temporary);
        fail_errno("write", w->path, w->error);
    } else {
        char *folder = path_folder(w->path);
        int error = folder ? sync_folder(folder) : ENOMEM;
        if (error) status = fail_errno("sync the folder of", w->path, error);
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

/* ---- folders ---- */

static qlft_status make_one(const char *path)
{
    if (mkdir(path, 0777) == 0) return QLFT_OK;
    int error = errno;
    if (error == EEXIST && file_is_folder(path)) return QLFT_OK;
    return fail_errno("make the folder", path, error);
}

qlft_status folder_make(const char *path)
{
    char *copy = path_trim(path);
    if (!copy) return fail_memory(path);
    qlft_status status = QLFT_OK;
    for (char *at = copy + (copy[0] == '/'); status == QLFT_OK && (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        /* A parent that is there needs no right to be made again. */
        if (!file_is_folder(copy)) status = make_one(copy);
        *at = '/';
    }
    if (status == QLFT_OK) status = make_one(copy);
    free(copy);
    return status;
}

/* Removes NAME in the folder `parent` and all below; `path` is for messages. Links are removed, not followed. */
static qlft_status remove_below(int parent, const char *name, const char *path)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) return QLFT_OK;
    if (errno != EISDIR && errno != EPERM) return fail_errno("remove", path, errno);
    int handle = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (handle < 0) return fail_errno("remove", path, errno);
    DIR *folder = fdopendir(handle);
    if (!folder) {
        int error = errno;
        close(handle);
        return fail_errno("remove", path, error);
    }
    qlft_status status = QLFT_OK;
    struct dirent *entry;
    while (status == QLFT_OK && (errno = 0, entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char *below = path_join(path, entry->d_name);
        status = below ? remove_below(handle, entry->d_name, below) : fail_memory(path);
        free(below);
    }
    if (status == QLFT_OK && errno != 0) status = fail_errno("remove", path, errno);
    closedir(folder);
    if (status == QLFT_OK && unlinkat(parent, name, AT_REMOVEDIR) != 0) status = fail_errno("remove", path, errno);
    return status;
}

qlft_status folder_remove(const char *path)
{
    return remove_below(AT_FDCWD, path, path);
}

/* Does the name end in ".tmp-PID", and is there no such process? A number that another process has now is left for the next time. */
static bool is_abandoned(const char *name)
{
    const char *mark = strstr(name, ".tmp-");
    char *end = NULL;
    if (!mark || mark[5] < '0' || mark[5] > '9') return false;
    errno = 0;
    long process = strtol(mark + 5, &end, 10);
    if (errno || *end || process < 1 || process > INT_MAX) return false;
    return kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

qlft_status folder_sweep(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return errno == ENOENT ? QLFT_OK : fail_errno("read", path, errno);
    qlft_status status = QLFT_OK;
    struct dirent *entry;
    while (status == QLFT_OK && (errno = 0, entry = readdir(folder)) != NULL) {
        if (!is_abandoned(entry->d_name)) continue;
        char *below = path_join(path, entry->d_name);
        status = below ? folder_remove(below) : fail_memory(path);
        free(below);
    }
    if (status == QLFT_OK && errno != 0) status = fail_errno("read", path, errno);
    closedir(folder);
    return status;
}

static qlft_status sync_files(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return fail_errno("publish", path, errno);
    qlft_status status = QLFT_OK;
    struct dirent *entry;
    while (status == QLFT_OK && (errno = 0, entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        struct stat info;
        int handle = openat(dirfd(folder), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (handle < 0) {
            status = status_fail(QLFT_EIO, "cannot publish %s/%s: %s", path, entry->d_name, strerror(errno));
            break;
        }
        if (fstat(handle, &info) != 0 || !S_ISREG(info.st_mode)) {
            status = status_fail(QLFT_EIO, "cannot publish %s/%s: it is not a file", path, entry->d_name);
        } else if (sync_handle(handle) != 0) {
            status = status_fail(QLFT_EIO, "cannot publish %s/%s: %s", path, entry->d_name, strerror(errno));
        }
        close(handle);
    }
    if (status == QLFT_OK && errno != 0) status = fail_errno("publish", path, errno);
    closedir(folder);
    if (status == QLFT_OK) {
        int error = sync_folder(path);
        if (error) status = fail_errno("publish", path, error);
    }
    return status;
}

/* Gives FROM the name TO, which is taken by an older folder; the older one is removed. */
static qlft_status replace_folder(const char *from, const char *to)
{
#ifdef RENAME_EXCHANGE
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) return folder_remove(from);
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return fail_errno("publish", to, errno);
#endif
    char *aside;
    if (asprintf(&aside, "%s.old-%ld", to, (long)getpid()) < 0) return fail_memory(to);
    qlft_status status = folder_remove(aside);
    if (status == QLFT_OK && rename(to, aside) != 0) status = fail_errno("publish", to, errno);
    if (status == QLFT_OK) {
        if (rename(from, to) == 0) {
            status = folder_remove(aside);
        } else {
            status = fail_errno("publish", to, errno);
            if (rename(aside, to) != 0) status = status_prefix(status, "the older folder is now %s; ", aside);
        }
    }
    free(aside);
    return status;
}

qlft_status folder_publish(const char *from, const char *to)
{
    char *source = path_trim(from), *target = path_trim(to), *parent = path_folder(to);
    qlft_status status = source && target && parent ? QLFT_OK : fail_memory(to);
    if (status == QLFT_OK) status = sync_files(source);
    if (status != QLFT_OK) goto done;
    struct stat info;
    if (lstat(target, &info) == 0) {
        status = S_ISDIR(info.st_mode) ? replace_folder(source, target)
                                       : status_fail(QLFT_EIO, "cannot publish %s: there is something of that name that is not a folder", target);
    } else if (rename(source, target) != 0) {
        status = fail_errno("publish", target, errno);
    }
    if (status == QLFT_OK) {
        int error = sync_folder(parent);
        if (error) status = fail_errno("sync the folder of", target, error);
    }
done:
    free(source);
    free(target);
    free(parent);
    return status;
}

qlft_status folder_writable(const char *path)
{
    char *name;
    if (asprintf(&name, "%s/.qlft-probe-%ld", path, (long)getpid()) < 0) return fail_memory(path);
    int handle = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    qlft_status status = QLFT_OK;
    if (handle < 0) {
        status = fail_errno("write into the folder", path, errno);
        goto done;
    }
    ssize_t n;
    do n = write(handle, "\n", 1);
    while (n < 0 && errno == EINTR);
    if (n != 1) status = fail_errno("write into the folder", path, n < 0 ? errno : EIO);
    if (close(handle) != 0 && errno != EINTR && status == QLFT_OK) status = fail_errno("write into the folder", path, errno);
    if (unlink(name) != 0 && status == QLFT_OK) status = fail_errno("remove", name, errno);
done:
    free(name);
    return status;
}

qlft_status folder_free_bytes(size_t *out, const char *path)
{
    struct statvfs info;
    *out = 0;
    int result;
    do result = statvfs(path, &info);
    while (result != 0 && errno == EINTR);
    if (result != 0) return fail_errno("find the free space of", path, errno);
    if (__builtin_mul_overflow((size_t)info.f_bavail, (size_t)info.f_frsize, out)) *out = SIZE_MAX;
    return QLFT_OK;
}

qlft_status folder_lock(int *out_handle, const char *folder)
{
    *out_handle = -1;
    char *name = path_join(folder, ".lock");
    if (!name) return fail_memory(folder);
    qlft_status status = QLFT_OK;
    char text[32] = "";
    int handle = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (handle < 0) {
        status = fail_errno("lock", name, errno);
        goto done;
    }
    int result;
    do result = flock(handle, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result != 0) {
        int error = errno;
        ssize_t n = error == EWOULDBLOCK ? pread(handle, text, sizeof text - 1, 0) : 0;
        long holder = n > 0 ? strtol(text, NULL, 10) : 0;
        if (error != EWOULDBLOCK)
            status = fail_errno("lock", name, error);
        else if (holder > 0)
            status = status_fail(QLFT_EIO, "%s is in use by process %ld: wait for it, or give another folder", folder, holder);
        else
            status = status_fail(QLFT_EIO, "%s is in use by another process: wait for it, or give another folder", folder);
        goto done;
    }
    int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    errno = 0;
    if (ftruncate(handle, 0) != 0 || pwrite(handle, text, (size_t)length, 0) != length) {
        status = fail_errno("lock", name, errno ? errno : EIO);
        goto done;
    }
    *out_handle = handle;
    handle = -1;
done:
    if (handle >= 0) close(handle);
    free(name);
    return status;
}

void folder_unlock(int handle)
{
    if (handle >= 0) close(handle);
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
    if (handle < 0) return fail_errno("open", path, errno);
    unsigned char *buffer = malloc(READ_BUFFER_BYTES);
    file_hash *hash = NULL;
    qlft_status status = buffer ? file_hash_open(&hash) : fail_memory(path);
    while (status == QLFT_OK) {
        ssize_t n = read_full(handle, buffer, READ_BUFFER_BYTES);
        if (n < 0) status = fail_errno("read", path, errno);
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
