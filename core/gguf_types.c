#include "core/gguf.h"

/* Tensor types of ggml. A block holds `block` values of one row; its scales are F16. The formulas and the order of their
 * roundings are those of dequantize_row_* in ggml-quants.c: a value is always product first, then sum, each rounded to F32. */

enum { MAX_BLOCK = 256 };

static float half_at(const unsigned char *bytes)
{
    uint16_t bits;
    memcpy(&bits, bytes, sizeof bits);
    return f16_to_f32(bits);
}

/* ---- unquantized ---- */

static void f32_to_f32(float *out, const unsigned char *block, int64_t blocks)
{
    memcpy(out, block, (size_t)blocks * sizeof *out);
}

static void f16_row_to_f32(float *out, const unsigned char *block, int64_t blocks)
{
    for (int64_t i = 0; i < blocks; i++) out[i] = half_at(block + 2 * i);
}

static void bf16_row_to_f32(float *out, const unsigned char *block, int64_t blocks)
{
    for (int64_t i = 0; i < blocks; i++) {
        uint16_t bits;
        memcpy(&bits, block + 2 * i, sizeof bits);
        out[i] = bf16_to_f32(bits);
    }
}

/* ---- blocks of 32: the low halves of 16 bytes are values 0 to 15, the high halves values 16 to 31 ---- */

/* F16 scale, 32 signed bytes */
static void q8_0_to_f32(float *out, const unsigned char *block, int64_t blocks)
{
    for (int64_t b = 0; b < blocks; b++, block += 34, out += 32) {
        float scale = half_at(block);
        for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)block[2 + i] * scale;
    }
}

/* F16 scale, 16 bytes of halves; a half is 8 too large */
static void q4_0_to_f32(float *out, const unsigned char *block, int64_t blocks)
{
    for (int64_t b = 0; b < blocks; b++, block += 18, out += 32) {
        float scale = half_at(block);
        for (int i = 0; i < 16; i++) {
            out[i] = (float)((block[2 + i] & 15) - 8) * scale;
            out[i + 16] = (float)((block[2 + i] >> 4) - 8) * scale;
        }
    }
}

/* F16 scale, F16 minimum, 16 bytes of halves */
static void q4_1_to_f32(float *out, const unsigned char *block, int64_t blocks)
{
    for (int64_t b = 0; b < blocks; b++, block += 20, out += 32) {
        float scale = half_at(block), minimum = half_at(block + 2);
        for (int i = 0; i < 16; i++) {
            out[i] = (float)(block[4 + i] & 15) * scale + minimum;
            out[i + 16] = (float)(block[4 + i] >> 4) * scale + minimum;
        }
    }
}

/* The fifth bits: bit i of 32, little-endian, belongs to value i. */
static void join_fifth_bits(int values[32], const unsigned char *high, const unsigned char *low)
{
    uint32_t bits;
    memcpy(&bits, high, sizeof bits);
    for (int i = 0; i < 16; i++) {
        values[i] = (low[i] & 15) | (int)((bits >> i & 1u) << 4);
        values[i + 16] = (low[i] >> 4) | (int)((bits >> (i + 16) & 1u) << 4);
    }
}

/* F16 scale, 4 bytes of fifth bits, 16 bytes of halves; a value is 16 too large */
static void q5_0_to_f32(float *out, const unsigned char *block, int64_t blocks)
{
    int values[32];
    for (int64_t b = 0; b < blocks; b++, block += 22, out += 32) {
        float scale = half_at(block);
        join_fifth_bits(values, block + 2, block + 6);
        for (int i = 0; i < 32; i++) out[i] = (float)(values[i] - 16) * scale;
    }
}

/* F16 scale, F16 minimum, 4 bytes of fifth bits, 16 bytes of halves */
static void q5_1_to_f32(float *out, const unsigned char *block, int64_t blocks)
{
    int values[32];
    for (int64_t b = 0; b < blocks; b++, block += 24, out += 32) {
        float scale = half_at(block), minimum = half_at(block + 2);
        join_fifth_bits(values, block + 4, block + 8);
        for (int i = 0; i < 32; i++) out[i] = (float)values[i] * scale + minimum;
    }
}

/* ---- blocks of 256 in groups with scales of their own ---- */

/* Eight 6-bit scales and eight 6-bit minima in 12 bytes: those of groups 0 to 3 in the low 6 bits of bytes 0 to 3 and 4 to 7; of groups
 * 4 to 7 the low 4 bits are the halves of bytes 8 to 11, and the upper 2 bits are on top of bytes 0 to 3 and 4 to 7. */
static void unpack_scales(int scales[8], int minima[8], const unsigned char *packed)
{
    for (int i = 0; i < 4; i++) {
        scales[i] = packed[i] & 63;
        minima[i] = packed[i + 4] & 63;
        scales[i + 4] = (packed[i + 8] & 15) | (packed[i] >> 6) << 4;
        minima[i + 4] = (packed[i + 8] >> 4) | (packed[i + 4] >> 6) << 4;
    }
}

/* F16 scale of scales, F16 scale of minima, 12 bytes of both, 128 bytes of halves: 32 bytes are two groups, low halves first */
static void q4_k_to_f32(float *out, const unsigned char *block, int64_t blocks)
{
    int scales[8], minima[8];
    for (int64_t b = 0; b < blocks; b++, block += 144) {
        float scale = half_at(block), minimum = half_at(block + 2);
        unpack_scales(scales, minima, block + 4);
        for (int group = 0; group < 8; group++, out += 32) {
            const unsigned char *codes = block + 16 + group / 2 * 32;
            float d = scale * (float)scales[group], m = minimum * (float)minima[group];
            int shift = group % 2 * 4;
            for (int i = 0; i < 32; i++) out[i] = d * (float)(codes[i] >> shift & 15) - m;
        }
    }
}

/* As Q4_K with 32 bytes of fifth bits before the halves: bit g of byte i belongs to value i of group g */
static void q5_k_to_f32(float *out, const unsigned char *block, int64_t blocks)
{
    int scales[8], minima[8];
    for (int64_t b = 0; b < blocks; b++, block += 176) {
        float scale = half_at(block), minimum = half_at(block + 2);
        const unsigned char *high = block + 16;
        unpack_scales(scales, minima, block + 4);
        for (int group = 0; group < 8; group++, out += 32) {
            const unsigned char *codes = block + 48 + group / 2 * 32;
            float d = scale * (float)scales[group], m = minimum * (float)minima[group];
            int shift = group % 2 * 4;
            for (int i = 0; i < 32; i++) out[i] = d * (float)((codes[i] >> shift & 15) + (high[i] >> group & 1) * 16) - m;
        }
    }
}

/* 128 bytes of low halves, 64 bytes of upper 2 bits, 16 signed scales, F16 scale of scales; a code is 32 too large.
 * In each 128 values, byte i of the halves holds values i (low) and i + 64 (high), and byte i % 32 of the upper bits holds
 * those of values i % 32 + 0, 32, 64, 96. */
static void q6_k_to_f32(float *out, const unsigned char *block, int64_t blocks)
{
    for (int64_t b = 0; b < blocks; b++, block += 210) {
        float scale = half_at(block + 208);
        for (int group = 0; group < 8; group++, out += 32) {
            int part = group / 4, quarter = group % 4;
            const unsigned char *low = block + part * 64 + quarter % 2 * 32, *high = block + 128 + part * 32;
            const unsigned char *scales = block + 192 + group * 2;
            float d[2] = {scale * (float)(int8_t)scales[0], scale * (float)(int8_t)scales[1]};
            int low_shift = quarter / 2 * 4, high_shift = quarter * 2;
            for (int i = 0; i < 32; i++) out[i] = d[i / 16] * (float)(((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32);
        }
    }
}

/* Numbers: enum ggml_type. */
static const gguf_type types[] = {
    {0, "F32", 1, 4, f32_to_f32},        {1, "F16", 1, 2, f16_row_to_f32},    {30, "BF16", 1, 2, bf16_row_to_f32}, {8, "Q8_0", 32, 34, q8_0_to_f32},
    {2, "Q4_0", 32, 18, q4_0_to_f32},    {3, "Q4_1", 32, 20, q4_1_to_f32},    {6, "Q5_0", 32, 22, q5_0_to_f32},    {7, "Q5_1", 32, 24, q5_1_to_f32},
    {12, "Q4_K", 256, 144, q4_k_to_f32}, {13, "Q5_K", 256, 176, q5_k_to_f32}, {14, "Q6_K", 256, 210, q6_k_to_f32},
};

const gguf_type *gguf_type_find(int id)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].id == id) return &types[i];
    return NULL;
}

qlft_status gguf_to_f32(float *out, const gguf_tensor *t, int64_t from, int64_t count)
{
    if (from < 0 || count < 0 || from > t->count || count > t->count - from)
        return status_fail(QLFT_EARG, "tensor %s: %lld elements from %lld on are not among its %lld", t->name, (long long)count, (long long)from,
                           (long long)t->count);
    const gguf_type *type = t->type;
    const unsigned char *block = t->data + (size_t)(from / type->block) * (size_t)type->block_bytes;
    int64_t skip = from % type->block;
    float whole[MAX_BLOCK];
    while (count > 0) {
        int64_t blocks = 1, run;
        if (skip == 0 && count >= type->block) {
            blocks = count / type->block;
            run = blocks * type->block;
            type->to_f32(out, block, blocks);
        } else {
            run = type->block - skip < count ? type->block - skip : count;
            type->to_f32(whole, block, 1);
            memcpy(out, whole + skip, (size_t)run * sizeof *out);
            skip = 0;
        }
        out += run;
        count -= run;
        block += (size_t)blocks * (size_t)type->block_bytes;
    }
    return QLFT_OK;
}
