/* 4-bit NormalFloat with double quantization, as bitsandbytes' CPU path stores it (Dettmers et al. 2023).
 *
 * The matrix is taken as one flat row-major run; blocks of 64 may span rows, the last may be short.
 *   absmax = max |x|; v = x * fl(1 / absmax); code = number of midpoints of neighbouring levels strictly below v (ties go down);
 *   an all-zero block: absmax 0, code 7; where the reciprocal overflows (absmax <= 2^-128) v = x / absmax.
 *   Byte = first code in the high nibble; an odd end is padded with code 7.
 *   offset = fl(mean of all absmax, summed in double); d = absmax - offset in blocks of 256: nested scale = max |d|,
 *   code8 = nearest entry of the signed dynamic map of d * fl(1 / scale), ties down; a block with scale 0 gets code 0.
 *   Value: level[code] * (fl(map[code8] * scale) + offset), no fused multiply-add. */
#ifndef NF4_NF4_H
#define NF4_NF4_H

#include "core/device.h"
#include "core/ledger.h"
#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NF4_BLOCK = 64, NF4_SUPERBLOCK = 256 };

typedef struct nf4_matrix {
    int64_t rows, cols;
    bool double_quant;
    uint8_t *codes;  /* [(n + 1) / 2] */
    uint8_t *absmax; /* double_quant: [blocks] codes of the dynamic map */
    float *scale;    /* double_quant: [superblocks]; else [blocks] absmax itself */
    float *map;      /* [256] dynamic map in use (shared table, or the file's); NULL without double_quant */
    float offset;
} nf4_matrix;

extern const float nf4_levels[16];
extern const float nf4_midpoints[15];
const float *nf4_dynamic_map(void); /* the signed 256-entry map; borrowed, static, ready after the first call */

/* Sizes for n elements; 64-bit throughout. */
int64_t nf4_blocks(int64_t n);
int64_t nf4_superblocks(int64_t n);
size_t nf4_codes_bytes(int64_t n);
size_t nf4_total_bytes(int64_t n, bool double_quant); /* codes and scales; the offset, one float a matrix, is in nf4_matrix */

/* Takes codes, absmax and scales from the arena (tier device, kind base), dry or real. */
void nf4_bind(nf4_matrix *m, arena *a, const char *owner, const char *name, int64_t rows, int64_t cols, bool double_quant);

/* Quantizes source (n = rows*cols values: F32, BF16 or F16 in memory, contiguous) into a bound matrix. A NaN or Inf gives QLFT_EFORMAT with
 * the flat index; the caller puts the tensor's name in front. absmax_scratch: float [nf4_blocks(n)], needed if double_quant. */
qlft_status nf4_quantize(device *d, nf4_matrix *m, const void *source, dtype type, float *absmax_scratch);

/* Values [first, first + count) as F32 (exact) or BF16 (rounded to nearest even): the decode of ops_matrix. */
void nf4_decode(const void *matrix, int64_t first, int64_t count, void *out, dtype type);
ops_matrix nf4_operand(const device *d, const nf4_matrix *m); /* with the decoder of the device's level */

/* One table a level, for the checker. */
typedef struct nf4_table {
    const char *name;
    /* Codes and absmax of values [first, first + count) of the flat run: first is a multiple of NF4_BLOCK, values[0] is value `first` as float,
     * codes and absmax are those of the whole run. Returns the flat index of the first value that is not finite, or -1. */
    int64_t (*quantize_blocks)(uint8_t *codes, float *absmax, const float *values, int64_t first, int64_t count);
    void (*decode)(const void *matrix, int64_t first, int64_t count, void *out, dtype type);
} nf4_table;
const nf4_table *nf4_at(cpu_level level);

#ifdef __cplusplus
}
#endif
#endif
