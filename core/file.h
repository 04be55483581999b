/* Files: read-only maps, and writes that appear complete or not at all. */
#ifndef CORE_FILE_H
#define CORE_FILE_H

#include <stdio.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading ---- */
typedef struct file_map {
    const unsigned char *data;
    size_t bytes;
    char *path;
} file_map;
/* Maps a regular file read-only. An empty file gives data == NULL, bytes == 0. */
qlft_status file_map_open(file_map *out, const char *path);
void file_map_close(file_map *map); /* accepts a zeroed map */
/* Tells the system that [at, at + bytes) is not needed in memory any more; it is read again if touched. */
void file_map_forget(const file_map *map, size_t at, size_t bytes);

/* Whole file as a NUL-terminated string, yours to free(). Refuses files above `limit_bytes`. */
qlft_status file_read_text(char **out, size_t *bytes, const char *path, size_t limit_bytes);

bool file_exists(const char *path);
bool file_is_folder(const char *path);

/* ---- writing: to PATH.tmp-PID, then fsync, rename, fsync of the folder ----
 * A link is followed, so that it stays a link; what is neither missing nor a regular file is refused. */
typedef struct file_writer {
    int handle;
    char *path, *temporary; /* temporary == NULL: nothing is open */
    unsigned char *buffer;  /* gathers small pieces */
    size_t buffered, written;
    int error; /* errno of the first failure, 0 if none */
    qlft_status failed;
} file_writer;
qlft_status file_writer_open(file_writer *out, const char *path);
/* Errors stick and are reported by commit; short writes are completed. */
void file_writer_put(file_writer *w, const void *data, size_t bytes);
void file_writer_print(file_writer *w, const char *format, ...) CORE_PRINTF(2, 3);
/* Makes the file appear under its name; on failure nothing is left behind and an older file stays. Closes w. */
qlft_status file_writer_commit(file_writer *w);
void file_writer_abandon(file_writer *w); /* accepts a zeroed or committed writer */
qlft_status file_write_text(const char *path, const char *text);

/* ---- folders ---- */
qlft_status folder_make(const char *path);   /* with parents; an existing one is fine */
qlft_status folder_remove(const char *path); /* with all it holds; a missing one is fine */
void folder_remove_empty(const char *path);  /* one that holds anything stays */
/* Removes what a process that was killed left half written in `path`: entries named *.tmp-PID whose process is gone. A missing folder is fine. */
qlft_status folder_sweep(const char *path);
/* Renames a finished folder and fsyncs its files and its parent: FROM must hold only files. A folder that has the name TO
 * already is exchanged with it in one step where the system can (renameat2), and then removed. */
qlft_status folder_publish(const char *from, const char *to);
qlft_status folder_writable(const char *path); /* proves it by writing and removing a file */
/* Free bytes of the file system that holds path (an existing file or folder). */
qlft_status folder_free_bytes(size_t *out, const char *path);

/* An advisory lock (flock) on FOLDER/.lock, gone with the process. QLFT_EIO that names the other process if held. */
qlft_status folder_lock(int *out_handle, const char *folder);
void folder_unlock(int handle, const char *folder); /* and removes FOLDER/.lock */

/* ---- SHA-256 (nettle), lower-case hex ---- */
enum { SHA256_HEX_BYTES = 65 };
typedef struct file_hash file_hash;
qlft_status file_hash_open(file_hash **out);
void file_hash_put(file_hash *h, const void *data, size_t bytes);
void file_hash_end(file_hash *h, char hex[SHA256_HEX_BYTES]); /* frees h */
qlft_status file_sha256(char hex[SHA256_HEX_BYTES], const char *path);

/* Does a path, or a name of another kind, end in `end`? */
bool name_ends_with(const char *name, const char *end);
/* "a/b" + "c" = "a/b/c", yours to free(); NULL without memory. */
char *path_join(const char *folder, const char *name);
/* The folder part of a path ("." if none), yours to free(). */
char *path_folder(const char *path);

#ifdef __cplusplus
}
#endif
#endif
