/* The parts that the tables of ops/ops.h are made of: one function a stem and level, that puts the stem's kernels of this level into the table.
 * A table starts as a copy of the level below, so a fill function sets only the slots that its level does better. */
#ifndef OPS_LEVELS_H
#define OPS_LEVELS_H

#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

void gemm_ref_fill(ops_table *t); /* gemm, gemm_outer */
void attention_ref_fill(ops_table *t);
void norm_ref_fill(ops_table *t);
void rope_ref_fill(ops_table *t);
void act_ref_fill(ops_table *t);
void xent_ref_fill(ops_table *t);
void embed_ref_fill(ops_table *t);
void element_ref_fill(ops_table *t); /* cast, add, sum_squares, dropout */

#ifdef QLFT_X86_LEVELS
void gemm_avx2_fill(ops_table *t);
void attention_avx2_fill(ops_table *t);
void norm_avx2_fill(ops_table *t);
void rope_avx2_fill(ops_table *t);
void act_avx2_fill(ops_table *t);
void xent_avx2_fill(ops_table *t);
void element_avx2_fill(ops_table *t);

void gemm_avx512_fill(ops_table *t);
void attention_avx512_fill(ops_table *t);
void norm_avx512_fill(ops_table *t);
void rope_avx512_fill(ops_table *t);
void act_avx512_fill(ops_table *t);
void xent_avx512_fill(ops_table *t);
void element_avx512_fill(ops_table *t);
#endif

#ifdef __cplusplus
}
#endif
#endif
