#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>

static qlft_log_fn log_callback;
static void *log_payload;
static qlft_log_level log_level = QLFT_LOG_INFO;
static qlft_log_fn watch_listener;
static void *watch_payload;

void qlft_log_to(qlft_log_fn callback, void *payload, qlft_log_level level)
{
    log_callback = callback;
    log_payload = payload;
    log_level = level;
}

void log_watch(qlft_log_fn listener, void *payload)
{
    watch_listener = listener;
    watch_payload = payload;
}

void log_message(qlft_log_level level, const char *format, ...)
{
    bool shown = log_callback && level <= log_level;
    if (!shown && !watch_listener) return;
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (shown) log_callback(log_payload, level, text);
    if (watch_listener) watch_listener(watch_payload, level, text);
}
