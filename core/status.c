#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 2048 };

static _Thread_local char message[MESSAGE_BYTES];

int qlft_exit_status(qlft_status status)
{
    switch (status) {
#define X(name, value, exit_status, text)                                                                                                                      \
    case name: return exit_status;
        QLFT_STATUS_LIST(X)
#undef X
    }
    return 1;
}

const char *qlft_status_text(qlft_status status)
{
    switch (status) {
#define X(name, value, exit_status, text)                                                                                                                      \
    case name: return text;
        QLFT_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

const char *qlft_last_error(void)
{
    return message;
}

qlft_status status_fail(qlft_status code, const char *format, ...)
{
    /* Arguments may point into the present message, so the new one is made beside it. */
    char made[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(made, sizeof made, format, arguments);
    va_end(arguments);
    memcpy(message, made, sizeof made);
    return code;
}

qlft_status status_prefix(qlft_status code, const char *format, ...)
{
    char made[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(made, sizeof made, format, arguments);
    va_end(arguments);
    if (used >= 0 && used < MESSAGE_BYTES) snprintf(made + used, (size_t)(MESSAGE_BYTES - used), "%s", message);
    memcpy(message, made, sizeof made);
    return code;
}
