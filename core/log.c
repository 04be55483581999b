#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>

static qlft_log_fn    log_callback;
static void          *log_payload;
static qlft_log_level log_level = QLFT_LOG_INFO;

void qlft_log_to(qlft_log_fn callback, void *payload, qlft_log_level level)
{
    log_callback = callback;
    log_payload = payload;
    log_level = level;
}

void log_message(qlft_log_level level, const char *format, ...)
{
    if (!log_callback || level > log_level) return;
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log_callback(log_payload, level, text);
}
