#include "data/utf8.h"

size_t utf8_valid_bytes(const char *text, size_t bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t at = 0;
    while (at < bytes) {
        unsigned char c = s[at];
        if (c < 0x80) {
            at++;
            continue;
        }
        if (c < 0xC2 || c > 0xF4) return at;
        size_t more = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
        if (bytes - at <= more) return at;
        /* The second byte's range rules out overlong forms, surrogates and what is above U+10FFFF. */
        unsigned char low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80, high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
        if (s[at + 1] < low || s[at + 1] > high) return at;
        for (size_t i = 2; i <= more; i++)
            if ((s[at + i] & 0xC0) != 0x80) return at;
        at += more + 1;
    }
    return at;
}
