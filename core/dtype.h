/* Element types of tensors and the conversions between them. */
#ifndef CORE_DTYPE_H
#define CORE_DTYPE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_U8, DTYPE_I32, DTYPE_COUNT } dtype;

size_t dtype_bytes(dtype type);
const char *dtype_name(dtype type); /* "F32", "BF16", ... as in safetensors */

static inline float bf16_to_f32(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Round to nearest, ties to even; NaN stays a (quiet) NaN. */
static inline uint16_t f32_to_bf16(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    if ((wide & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((wide >> 16) | 0x40u);
    return (uint16_t)((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
}

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value); /* round to nearest even */

#ifdef __cplusplus
}
#endif
#endif
