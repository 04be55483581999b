/* Messages for people; the callback is set through qlft_log_to. */
#ifndef CORE_LOG_H
#define CORE_LOG_H

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

void log_message(qlft_log_level level, const char *format, ...) CORE_PRINTF(2, 3);
/* A second listener for the time of a command, whatever the level: a run keeps its warnings for the report. NULL: none. */
void log_watch(qlft_log_fn listener, void *payload);
#define log_warning(...) log_message(QLFT_LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_message(QLFT_LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_message(QLFT_LOG_DEBUG, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
