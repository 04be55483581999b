/* NF4 in plain C: the specification. */
#include "nf4/levels.h"

int64_t nf4_quantize_block(uint8_t *codes, float *absmax, const float *values, int64_t count)
{
    float largest = 0.0f;
    for (int64_t i = 0; i < count; i++) {
        float size = fabsf(values[i]);
        if (!(size <= 3.402823466e38f)) return i;
        if (size > largest) largest = size;
    }
    *absmax = largest;
    float reciprocal = largest > 0.0f ? 1.0f / largest : 0.0f;
    for (int64_t i = 0; i < count; i += 2) {
        unsigned pair[2] = {NF4_CODE_ZERO, NF4_CODE_ZERO};
        for (int64_t j = 0; j < 2 && i + j < count && largest > 0.0f; j++) {
            /* The rule is a product with the rounded reciprocal; where that overflows, the quotient. */
            float v = largest > NF4_TINY ? values[i + j] * reciprocal : values[i + j] / largest;
            unsigned code = 0;
            for (int k = 0; k < 15; k++) code += v > nf4_midpoints[k];
            pair[j] = code;
        }
        codes[i / 2] = (uint8_t)(pair[0] << 4 | pair[1]);
    }
    return -1;
}

static int64_t quantize_blocks(uint8_t *codes, float *absmax, const float *values, int64_t first, int64_t count)
{
    for (int64_t i = 0; i < count; i += NF4_BLOCK) {
        int64_t at = first + i, size = count - i < NF4_BLOCK ? count - i : NF4_BLOCK;
        int64_t bad = nf4_quantize_block(codes + at / 2, absmax + at / NF4_BLOCK, values + i, size);
        if (bad >= 0) return at + bad;
    }
    return -1;
}

static void decode(const void *matrix, int64_t first, int64_t count, void *out, dtype type)
{
    const nf4_matrix *m = matrix;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = first + i;
        int code = at & 1 ? m->codes[at / 2] & 15 : m->codes[at / 2] >> 4;
        float value = nf4_levels[code] * nf4_block_scale(m, at / NF4_BLOCK);
        if (type == DTYPE_F32)
            ((float *)out)[i] = value;
        else
            ((uint16_t *)out)[i] = f32_to_bf16(value);
    }
}

const nf4_table nf4_ref = {"ref", quantize_blocks, decode};
