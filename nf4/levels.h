/* What the levels of NF4 share: their tables, a block's scale, and the scalar quantizer for the blocks that vectors do not take. */
#ifndef NF4_LEVELS_H
#define NF4_LEVELS_H

#include "nf4/nf4.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const nf4_table nf4_ref;
#ifdef QLFT_X86_LEVELS
extern const nf4_table nf4_avx2;
extern const nf4_table nf4_avx512;
#endif

enum { NF4_BLOCK_BYTES = NF4_BLOCK / 2, NF4_CODE_ZERO = 7 };

/* Below this absmax (2^-128) the reciprocal is not finite: such a block is divided instead, by the scalar quantizer. */
#define NF4_TINY 0x1p-128f

/* absmax of a block as decoded: two roundings, no fused multiply-add (-ffp-contract=off). */
static inline float nf4_block_scale(const nf4_matrix *m, int64_t block)
{
    if (!m->double_quant) return m->scale[block];
    return m->map[m->absmax[block]] * m->scale[block / NF4_SUPERBLOCK] + m->offset;
}

/* One block of count <= NF4_BLOCK values. Returns the index of the first value that is not finite, or -1. */
int64_t nf4_quantize_block(uint8_t *codes, float *absmax, const float *values, int64_t count);

/* Second level: absmax [blocks] less offset, into m's absmax and scale. */
void nf4_quantize_scales(device *d, nf4_matrix *m, const float *absmax, int64_t blocks, float offset);

/* The level's whole-block decoder: the 64 values of a block whose codes (`bytes` of them, 32 but for the last block) are given, unrounded or rounded. */
typedef void (*nf4_block_decoder)(void *out, const uint8_t *codes, int64_t bytes, float scale);

/* nf4_table's decode from a decoder of whole blocks; values outside [first, first + count) are not written. */
static inline void nf4_decode_blocks(const nf4_matrix *m, int64_t first, int64_t count, void *out, size_t element, nf4_block_decoder decode)
{
    int64_t code_bytes = (m->rows * m->cols + 1) / 2, end = first + count;
    unsigned char *to = (unsigned char *)out;
    for (int64_t block = first / NF4_BLOCK; block * NF4_BLOCK < end; block++) {
        int64_t at = block * NF4_BLOCK, bytes = code_bytes - at / 2;
        float scale = nf4_block_scale(m, block);
        if (bytes > NF4_BLOCK_BYTES) bytes = NF4_BLOCK_BYTES;
        if (at >= first && at + NF4_BLOCK <= end) {
            decode(to, m->codes + at / 2, bytes, scale);
            to += NF4_BLOCK * element;
            continue;
        }
        float part[NF4_BLOCK];
        int64_t from = at < first ? first - at : 0, until = at + NF4_BLOCK > end ? end - at : (int64_t)NF4_BLOCK;
        decode(part, m->codes + at / 2, bytes, scale);
        memcpy(to, (const char *)part + (size_t)from * element, (size_t)(until - from) * element);
        to += (size_t)(until - from) * element;
    }
}

#ifdef __cplusplus
}
#endif
#endif
