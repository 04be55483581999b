/* Folders: made, removed, swept, published as a whole, locked. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/file_impl.h"

/* The path without slashes at its end, yours to free(). */
static char *path_trim(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    return strndup(path, length);
}

static qlft_status make_one(const char *path)
{
    if (mkdir(path, 0777) == 0) return QLFT_OK;
    int error = errno;
    if (error == EEXIST && file_is_folder(path)) return QLFT_OK;
    if (error == EEXIST) return status_fail(QLFT_EIO, "cannot make the folder %s: there is a file of that name", path);
    return file_fail("make the folder", path, error);
}

qlft_status folder_make(const char *path)
{
    char *copy = path_trim(path);
    if (!copy) return file_fail_memory(path);
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
    if (errno != EISDIR && errno != EPERM) return file_fail("remove", path, errno);
    int handle = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (handle < 0) return file_fail("remove", path, errno);
    DIR *folder = fdopendir(handle);
    if (!folder) {
        int error = errno;
        close(handle);
        return file_fail("remove", path, error);
    }
    qlft_status status = QLFT_OK;
    struct dirent *entry;
    while (status == QLFT_OK && (errno = 0, entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char *below = path_join(path, entry->d_name);
        status = below ? remove_below(handle, entry->d_name, below) : file_fail_memory(path);
        free(below);
    }
    if (status == QLFT_OK && errno != 0) status = file_fail("remove", path, errno);
    closedir(folder);
    if (status == QLFT_OK && unlinkat(parent, name, AT_REMOVEDIR) != 0) status = file_fail("remove", path, errno);
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
    if (!folder) return errno == ENOENT ? QLFT_OK : file_fail("read", path, errno);
    qlft_status status = QLFT_OK;
    struct dirent *entry;
    while (status == QLFT_OK && (errno = 0, entry = readdir(folder)) != NULL) {
        if (!is_abandoned(entry->d_name)) continue;
        char *below = path_join(path, entry->d_name);
        status = below ? folder_remove(below) : file_fail_memory(path);
        free(below);
    }
    if (status == QLFT_OK && errno != 0) status = file_fail("read", path, errno);
    closedir(folder);
    return status;
}

static qlft_status sync_files(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return file_fail("publish", path, errno);
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
        } else if (file_sync(handle) != 0) {
            status = status_fail(QLFT_EIO, "cannot publish %s/%s: %s", path, entry->d_name, strerror(errno));
        }
        close(handle);
    }
    if (status == QLFT_OK && errno != 0) status = file_fail("publish", path, errno);
    closedir(folder);
    if (status == QLFT_OK) {
        int error = folder_sync(path);
        if (error) status = file_fail("publish", path, error);
    }
    return status;
}

/* Gives FROM the name TO, which is taken by an older folder; the older one is removed. */
static qlft_status replace_folder(const char *from, const char *to)
{
#ifdef RENAME_EXCHANGE
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) return folder_remove(from);
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return file_fail("publish", to, errno);
#endif
    char *aside;
    if (asprintf(&aside, "%s.old-%ld", to, (long)getpid()) < 0) return file_fail_memory(to);
    qlft_status status = folder_remove(aside);
    if (status == QLFT_OK && rename(to, aside) != 0) status = file_fail("publish", to, errno);
    if (status == QLFT_OK) {
        if (rename(from, to) == 0) {
            status = folder_remove(aside);
        } else {
            status = file_fail("publish", to, errno);
            if (rename(aside, to) != 0) status = status_prefix(status, "the older folder is now %s; ", aside);
        }
    }
    free(aside);
    return status;
}

qlft_status folder_publish(const char *from, const char *to)
{
    char *source = path_trim(from), *target = path_trim(to), *parent = path_folder(to);
    qlft_status status = source && target && parent ? QLFT_OK : file_fail_memory(to);
    if (status == QLFT_OK) status = sync_files(source);
    if (status != QLFT_OK) goto done;
    struct stat info;
    if (lstat(target, &info) == 0) {
        status = S_ISDIR(info.st_mode) ? replace_folder(source, target)
                                       : status_fail(QLFT_EIO, "cannot publish %s: there is something of that name that is not a folder", target);
    } else if (rename(source, target) != 0) {
        status = file_fail("publish", target, errno);
    }
    if (status == QLFT_OK) {
        int error = folder_sync(parent);
        if (error) status = file_fail("sync the folder of", target, error);
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
    if (asprintf(&name, "%s/.qlft-probe-%ld", path, (long)getpid()) < 0) return file_fail_memory(path);
    int handle = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    qlft_status status = QLFT_OK;
    if (handle < 0) {
        status = file_fail("write into the folder", path, errno);
        goto done;
    }
    ssize_t n;
    do n = write(handle, "\n", 1);
    while (n < 0 && errno == EINTR);
    if (n != 1) status = file_fail("write into the folder", path, n < 0 ? errno : EIO);
    if (close(handle) != 0 && errno != EINTR && status == QLFT_OK) status = file_fail("write into the folder", path, errno);
    if (unlink(name) != 0 && status == QLFT_OK) status = file_fail("remove", name, errno);
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
    if (result != 0) return file_fail("find the free space of", path, errno);
    if (__builtin_mul_overflow((size_t)info.f_bavail, (size_t)info.f_frsize, out)) *out = SIZE_MAX;
    return QLFT_OK;
}

/* Is the open file the one that has the name now? Its last holder may have removed it between open and flock. */
static bool has_name(int handle, const char *name)
{
    struct stat opened, named;
    return fstat(handle, &opened) == 0 && lstat(name, &named) == 0 && opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* 0, or -1 and errno; *handle is open (or -1) either way. */
static int lock_file(int *handle, const char *name)
{
    for (;;) {
        *handle = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (*handle < 0) return -1;
        int result;
        do result = flock(*handle, LOCK_EX | LOCK_NB);
        while (result != 0 && errno == EINTR);
        if (result != 0 || has_name(*handle, name)) return result;
        close(*handle);
    }
}

qlft_status folder_lock(int *out_handle, const char *folder)
{
    *out_handle = -1;
    char *name = path_join(folder, ".lock");
    if (!name) return file_fail_memory(folder);
    qlft_status status = QLFT_OK;
    char text[32] = "";
    int handle;
    if (lock_file(&handle, name) != 0) {
        int error = errno;
        ssize_t n = handle >= 0 && error == EWOULDBLOCK ? pread(handle, text, sizeof text - 1, 0) : 0;
        long holder = n > 0 ? strtol(text, NULL, 10) : 0;
        if (handle < 0 || error != EWOULDBLOCK)
            status = file_fail("lock", name, error);
        else if (holder > 0)
            status = status_fail(QLFT_EIO, "%s is in use by process %ld: wait for it, or give another folder", folder, holder);
        else
            status = status_fail(QLFT_EIO, "%s is in use by another process: wait for it, or give another folder", folder);
        goto done;
    }
    int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    errno = 0;
    if (ftruncate(handle, 0) != 0 || pwrite(handle, text, (size_t)length, 0) != length) {
        status = file_fail("lock", name, errno ? errno : EIO);
        goto done;
    }
    *out_handle = handle;
    handle = -1;
done:
    if (handle >= 0) close(handle);
    free(name);
    return status;
}

void folder_unlock(int handle, const char *folder)
{
    if (handle < 0) return;
    char *name = path_join(folder, ".lock");
    if (name) unlink(name); /* while it is held: whoever opened it meanwhile sees that the name is gone */
    free(name);
    close(handle);
}

void folder_remove_empty(const char *path)
{
    rmdir(path);
}
