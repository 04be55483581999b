#include <stdlib.h>

#include "core/safetensors.h"

/* The types of safetensors and their widening. Data may lie anywhere in the file, so values are copied out, not pointed at. */

/* 1 sign, 4 exponent (bias 7), 3 fraction bits; no infinities, NaN is all ones (OCP 8-bit floating point, 2023, section 5). */
static float e4m3_to_f32(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80u) << 24, rest = code & 0x7fu, wide;
    float value;
    if (rest < 8) return (sign ? -1.0f : 1.0f) * (float)rest * 0x1p-9f;
    wide = rest == 0x7fu ? 0x7fc00000u : (rest << 20) + ((127u - 7u) << 23);
    wide |= sign;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* 1 sign, 5 exponent, 2 fraction bits: the upper half of an F16. */
static float e5m2_to_f32(uint8_t code)
{
    return f16_to_f32((uint16_t)(code << 8));
}

#define WIDEN(name, stored, wide, expression)                                                                                                                  \
    static void name(void *out, const unsigned char *data, int64_t count)                                                                                      \
    {                                                                                                                                                          \
        wide *values = out;                                                                                                                                    \
        for (int64_t i = 0; i < count; i++) {                                                                                                                  \
            stored v;                                                                                                                                          \
            memcpy(&v, data + (size_t)i * sizeof v, sizeof v);                                                                                                 \
            values[i] = expression;                                                                                                                            \
        }                                                                                                                                                      \
    }
WIDEN(f64_as_f32, double, float, (float)v)
WIDEN(f32_as_f32, float, float, v)
WIDEN(bf16_as_f32, uint16_t, float, bf16_to_f32(v))
WIDEN(f16_as_f32, uint16_t, float, f16_to_f32(v))
WIDEN(e4m3_as_f32, uint8_t, float, e4m3_to_f32(v))
WIDEN(e5m2_as_f32, uint8_t, float, e5m2_to_f32(v))
WIDEN(u8_as_f32, uint8_t, float, (float)v)
WIDEN(i8_as_f32, int8_t, float, (float)v)
WIDEN(i32_as_f32, int32_t, float, (float)v)
WIDEN(i64_as_f32, int64_t, float, (float)v)
WIDEN(u8_as_i64, uint8_t, int64_t, v)
WIDEN(i8_as_i64, int8_t, int64_t, v)
WIDEN(u16_as_i64, uint16_t, int64_t, v)
WIDEN(i16_as_i64, int16_t, int64_t, v)
WIDEN(u32_as_i64, uint32_t, int64_t, v)
WIDEN(i32_as_i64, int32_t, int64_t, v)
WIDEN(i64_as_i64, int64_t, int64_t, v)

typedef void (*widen)(void *out, const unsigned char *data, int64_t count);

static const struct {
    const char *name;
    size_t bytes;
    widen f32, i64; /* NULL: not done */
} types[ST_TYPES] = {
    [ST_BOOL] = {"BOOL", 1, NULL, u8_as_i64},         [ST_U8] = {"U8", 1, u8_as_f32, u8_as_i64},        [ST_I8] = {"I8", 1, i8_as_f32, i8_as_i64},
    [ST_F8_E5M2] = {"F8_E5M2", 1, e5m2_as_f32, NULL}, [ST_F8_E4M3] = {"F8_E4M3", 1, e4m3_as_f32, NULL}, [ST_I16] = {"I16", 2, NULL, i16_as_i64},
    [ST_U16] = {"U16", 2, NULL, u16_as_i64},          [ST_F16] = {"F16", 2, f16_as_f32, NULL},          [ST_BF16] = {"BF16", 2, bf16_as_f32, NULL},
    [ST_I32] = {"I32", 4, i32_as_f32, i32_as_i64},    [ST_U32] = {"U32", 4, NULL, u32_as_i64},          [ST_F32] = {"F32", 4, f32_as_f32, NULL},
    [ST_F64] = {"F64", 8, f64_as_f32, NULL},          [ST_I64] = {"I64", 8, i64_as_f32, i64_as_i64},    [ST_U64] = {"U64", 8, NULL, i64_as_i64},
};

const char *safetensors_type_name(safetensors_type type)
{
    return type >= 0 && type < ST_TYPES ? types[type].name : "unknown";
}

size_t safetensors_type_bytes(safetensors_type type)
{
    return type >= 0 && type < ST_TYPES ? types[type].bytes : 0;
}

static qlft_status convert(void *out, const safetensors_entry *e, int64_t from, int64_t count, widen f, const char *wanted)
{
    if (!f) return status_fail(QLFT_EUNSUPPORTED, "tensor %s: its type %s is not read as %s", e->name, safetensors_type_name(e->type), wanted);
    if (from < 0 || count < 0 || from > e->count || count > e->count - from)
        return status_fail(QLFT_EARG, "tensor %s: %lld elements from %lld on are not among its %lld", e->name, (long long)count, (long long)from,
                           (long long)e->count);
    if (count > 0) f(out, (const unsigned char *)e->data + (size_t)from * types[e->type].bytes, count);
    return QLFT_OK;
}

qlft_status safetensors_to_f32(float *out, const safetensors_entry *entry, int64_t from, int64_t count)
{
    return convert(out, entry, from, count, types[entry->type].f32, "real numbers");
}

qlft_status safetensors_to_i64(int64_t *out, const safetensors_entry *entry, int64_t from, int64_t count)
{
    QLFT_TRY(convert(out, entry, from, count, types[entry->type].i64, "whole numbers"));
    for (int64_t i = 0; entry->type == ST_U64 && i < count; i++)
        if (out[i] < 0) return status_fail(QLFT_EFORMAT, "tensor %s: element %lld is above 2^63 - 1", entry->name, (long long)(from + i));
    return QLFT_OK;
}
