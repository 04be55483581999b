#include <langinfo.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd/cmd.h"

static char said[1024];

qlft_status say_error(qlft_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    return status;
}

const char *said_error(void)
{
    return said;
}

/* ---- numbers ---- */

const char *show_bytes(char out[SHOWN_BYTES], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    double value = bytes;
    for (; fabs(value) >= 1023.95 && unit < 4; unit++) value /= 1024; /* 1023.95 would be written 1024.0 */
    snprintf(out, SHOWN_BYTES, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return out;
}

const char *show_count(char out[SHOWN_BYTES], int64_t count)
{
    char digits[SHOWN_BYTES];
    snprintf(digits, sizeof digits, "%lld", (long long)count);
    size_t length = strlen(digits), at = 0;
    for (size_t i = 0; i < length && at + 2 < SHOWN_BYTES; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-') out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

const char *show_time(char out[SHOWN_BYTES], double seconds)
{
    if (!(seconds >= 0) || seconds > 1e9)
        snprintf(out, SHOWN_BYTES, "?");
    else if (seconds < 59.95)
        snprintf(out, SHOWN_BYTES, seconds < 9.995 ? "%.1f s" : "%.0f s", seconds);
    else {
        long whole = lround(seconds);
        if (whole < 3600)
            snprintf(out, SHOWN_BYTES, "%ld:%02ld min", whole / 60, whole % 60);
        else
            snprintf(out, SHOWN_BYTES, "%ld:%02ld:%02ld h", whole / 3600, whole / 60 % 60, whole % 60);
    }
    return out;
}

/* ---- the terminal ---- */

int show_width(int handle)
{
    struct winsize size;
    if (isatty(handle) && ioctl(handle, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
    return 80;
}

bool show_utf8(void)
{
    /* setlocale is not called, so that numbers are always written with a point; the order is that of setlocale. */
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return strcasestr(value, "UTF-8") || strcasestr(value, "UTF8");
    }
    return false;
}

bool show_colour(FILE *to)
{
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(fileno(to)) && !(no && *no) && !(terminal && !strcmp(terminal, "dumb"));
}

void show_text(FILE *to, const char *text, size_t bytes, bool lines)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool c1 = byte == 0xC2 && i + 1 < bytes && (unsigned char)text[i + 1] < 0xA0; /* U+0080 to U+009F steer terminals too */
        if (c1)
            fprintf(to, "\\x%02x", (unsigned char)text[++i]);
        else if (byte >= 0x20 && byte != 0x7F)
            fputc(byte, to);
        else if (lines && (byte == '\n' || byte == '\t'))
            fputc(byte, to);
        else if (byte == '\n')
            fputs("\\n", to);
        else if (byte == '\t')
            fputs("\\t", to);
        else
            fprintf(to, "\\x%02x", byte);
    }
}

void show_shell_word(FILE *to, const char *word)
{
    if (*word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%")]) {
        fputs(word, to);
        return;
    }
    fputc('\'', to);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", to);
        else
            fputc(*word, to);
    }
    fputc('\'', to);
}

/* ---- JSON for people ---- */

qlft_status json_of_text(json_t **out, const char *text)
{
    json_error_t error;
    *out = json_loads(text ? text : "", JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    return *out ? QLFT_OK : say_error(QLFT_EFORMAT, "a result cannot be read: %s", error.text);
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && !strcmp(text + a - b, end);
}

static void show_scalar(FILE *to, const char *key, const json_t *value)
{
    char text[SHOWN_BYTES];
    switch (json_typeof(value)) {
    case JSON_STRING: show_text(to, json_string_value(value), json_string_length(value), false); break;
    case JSON_INTEGER:
        if (!strcmp(key, "bytes") || ends_with(key, "_bytes"))
            fputs(show_bytes(text, (double)json_integer_value(value)), to);
        else
            fputs(show_count(text, json_integer_value(value)), to);
        break;
    case JSON_REAL:
        if (!strcmp(key, "seconds") || ends_with(key, "_s"))
            fputs(show_time(text, json_real_value(value)), to);
        else
            fprintf(to, "%.6g", json_real_value(value));
        break;
    case JSON_TRUE: fputs("yes", to); break;
    case JSON_FALSE: fputs("no", to); break;
    default: fputs("-", to); break;
    }
}

static void show_list(FILE *to, const char *key, const json_t *list)
{
    size_t count = json_array_size(list), shown = 0;
    for (; shown < count && shown < 8; shown++) {
        const json_t *item = json_array_get(list, shown);
        if (shown) fputs(", ", to);
        if (json_is_object(item) || json_is_array(item))
            fputs("...", to);
        else
            show_scalar(to, key, item);
    }
    if (shown < count) fprintf(to, ", ... (%zu)", count);
}

void show_facts(FILE *to, const json_t *object, int indent)
{
    const char *key;
    json_t *value;
    int widest = 0;
    json_object_foreach((json_t *)object, key, value)
    {
        int length = (int)strlen(key);
        if (!json_is_object(value) && length > widest && length <= 40) widest = length;
    }
    json_object_foreach((json_t *)object, key, value)
    {
        fprintf(to, "%*s", indent, "");
        show_text(to, key, strlen(key), false);
        if (json_is_object(value)) {
            fputc('\n', to);
            show_facts(to, value, indent + 2);
            continue;
        }
        int length = (int)strlen(key);
        fprintf(to, "%*s", (length < widest ? widest - length : 0) + 2, "");
        if (json_is_array(value))
            show_list(to, key, value);
        else
            show_scalar(to, key, value);
        fputc('\n', to);
    }
}

qlft_status show_result(const call *c, char *json_text)
{
    json_t *object = NULL;
    qlft_status status = QLFT_OK;
    if (c->json)
        puts(json_text);
    else if ((status = json_of_text(&object, json_text)) == QLFT_OK)
        show_facts(stdout, object, 0);
    json_decref(object);
    qlft_free(json_text);
    return status;
}
