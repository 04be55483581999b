/* qlft: the public interface of libqlft, and the only header that the command line uses.
 *
 * Conventions
 *   - Every function that can fail returns qlft_status; qlft_last_error() then holds a message of this thread that names
 *     the file, line, tensor or option, what is wrong and what to do. Outputs come first.
 *   - `T **out` becomes yours: close or free it with the function named at its declaration. A returned pointer is borrowed.
 *   - The library never prints and never exits: messages go to the log callback, progress to the observer.
 */
#ifndef QLFT_H
#define QLFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QLFT_VERSION "0.1.0"

/* One list: enumerator, value, exit status of the command line, text. */
#define QLFT_STATUS_LIST(X)                                                  \
    X(QLFT_OK, 0, 0, "done")                                                 \
    X(QLFT_EARG, -1, 2, "wrong option or usage")                             \
    X(QLFT_EIO, -2, 3, "a file cannot be read or written")                   \
    X(QLFT_EFORMAT, -3, 3, "a file is not what it should be")                \
    X(QLFT_ENOMEM, -4, 4, "out of memory")                                   \
    X(QLFT_EFIT, -5, 4, "does not fit into the memory budget")               \
    X(QLFT_EDEVICE, -6, 5, "the device failed or is missing")                \
    X(QLFT_EUNSUPPORTED, -7, 3, "not supported")                             \
    X(QLFT_ENUMERIC, -8, 6, "a number is not finite or nothing was learned") \
    X(QLFT_ESIGNAL, -9, 130, "stopped by a signal after saving")

typedef enum qlft_status {
#define X(name, value, exit_status, text) name = value,
    QLFT_STATUS_LIST(X)
#undef X
} qlft_status;

/* Exit status of the command line for a status, and its short text (borrowed, static). */
int         qlft_exit_status(qlft_status status);
const char *qlft_status_text(qlft_status status);

/* The message of the last failure in this thread; "" if there was none. Valid until this thread's next failing call. */
const char *qlft_last_error(void);

/* ---- log ---- */
typedef enum qlft_log_level { QLFT_LOG_ERROR, QLFT_LOG_WARNING, QLFT_LOG_INFO, QLFT_LOG_DEBUG } qlft_log_level;
typedef void (*qlft_log_fn)(void *payload, qlft_log_level level, const char *message);
/* Messages above `level` are dropped. Without a callback all are. Set it before threads are started. */
void qlft_log_to(qlft_log_fn callback, void *payload, qlft_log_level level);

#ifdef __cplusplus
}
#endif
#endif
