#include "core/dtype.h"

static const struct {
    const char *name;
    size_t bytes;
} types[DTYPE_COUNT] = {{"F32", 4}, {"BF16", 2}, {"F16", 2}, {"U8", 1}, {"I32", 4}};

size_t dtype_bytes(dtype type)
{
    return types[type].bytes;
}

const char *dtype_name(dtype type)
{
    return types[type].name;
}

float f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, mantissa = bits & 1023u, wide;
    if (exponent == 31u)
        wide = sign | 0x7f800000u | (mantissa << 13);
    else if (exponent != 0u)
        wide = sign | ((exponent + 112u) << 23) | (mantissa << 13);
    else if (mantissa == 0u)
        wide = sign;
    else { /* subnormal: normalise */
        uint32_t shift = 0;
        while (!(mantissa & 1024u)) {
            mantissa <<= 1;
            shift++;
        }
        wide = sign | ((113u - shift) << 23) | ((mantissa & 1023u) << 13);
    }
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

uint16_t f32_to_f16(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    uint16_t sign = (uint16_t)((wide >> 16) & 0x8000u);
    uint32_t magnitude = wide & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x47800000u) return (uint16_t)(sign | 0x7c00u); /* 65536 and above */
    int32_t exponent = (int32_t)(magnitude >> 23) - 112;
    if (exponent <= 0) { /* subnormal or zero: shift the mantissa with its hidden bit, round to even */
        if (exponent < -10) return sign;
        uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u, shift = (uint32_t)(14 - exponent);
        uint32_t half = 1u << (shift - 1), rest = mantissa & ((1u << shift) - 1u), kept = mantissa >> shift;
        if (rest > half || (rest == half && (kept & 1u))) kept++;
        return (uint16_t)(sign | kept);
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    if (rounded >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}
