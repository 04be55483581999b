/* Failure: a status code and a message of this thread. */
#ifndef CORE_STATUS_H
#define CORE_STATUS_H

#include "qlft.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CORE_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define CORE_PRINTF(format_at, first_at)
#endif

/* Forwards a failure to the caller. */
#define QLFT_TRY(expression)                                                                                                                                   \
    do {                                                                                                                                                       \
        qlft_status try_status_ = (expression);                                                                                                                \
        if (try_status_ != QLFT_OK) return try_status_;                                                                                                        \
    } while (0)

/* Sets this thread's message and returns `code`:  return status_fail(QLFT_EIO, "%s: %s", path, strerror(errno)); */
qlft_status status_fail(qlft_status code, const char *format, ...) CORE_PRINTF(2, 3);

/* Puts text in front of the present message ("train.jsonl line 3: " ...), keeping the code. */
qlft_status status_prefix(qlft_status code, const char *format, ...) CORE_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif
