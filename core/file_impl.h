/* What file.c and folder.c share. */
#ifndef CORE_FILE_IMPL_H
#define CORE_FILE_IMPL_H

#include "core/file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "cannot WHAT PATH: ..." of an errno: QLFT_ENOMEM or QLFT_EIO. */
qlft_status file_fail(const char *what, const char *path, int error);
qlft_status file_fail_memory(const char *path);
int file_sync(int handle);         /* fsync(2) that is not interrupted: 0, or -1 with errno */
int folder_sync(const char *path); /* 0 or an errno */

#ifdef __cplusplus
}
#endif
#endif
