/* UTF-8 as the Unicode standard has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef DATA_UTF8_H
#define DATA_UTF8_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Offset of the first byte that begins no well-formed UTF-8 (Unicode 15, table 3-7), or `bytes`. */
size_t utf8_valid_bytes(const char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
