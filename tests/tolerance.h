/* Every bound of the tests, with where it comes from. Compare as !(error <= bound), so that a NaN fails. */
#ifndef TESTS_TOLERANCE_H
#define TESTS_TOLERANCE_H

/* shared/golden/README.md, table of recommended tolerances. */
#define TOLERANCE_ARCH_LOGITS_F32 2e-4
#define TOLERANCE_ARCH_LOGITS_BF16 1.0
#define TOLERANCE_ARCH_LOSS_F32 1e-5
#define TOLERANCE_ARCH_LOSS_BF16 3e-2
#define TOLERANCE_ARCH_GRADIENT_F32 1e-4 /* relative L2 */
#define TOLERANCE_ARCH_GRADIENT_BF16 0.2 /* relative L2, all together */
#define TOLERANCE_ARCH_GRADIENT_NORM_F32 1e-5
#define TOLERANCE_ARCH_GRADIENT_NORM_BF16 5e-2
/* Logits are about 1 here. Rows are computed apart from each other, so the difference is 0 today; a kernel for single rows may round activations elsewhere. */
#define TOLERANCE_DECODE_LOGITS_BF16 5e-2
#define TOLERANCE_ADAMW_10_STEPS 5e-6
#define TOLERANCE_SCHEDULE 1e-12
#define TOLERANCE_XENT_MEAN_F32 1e-6 /* relative */
#define TOLERANCE_XENT_GRADIENT_F32 1e-6
#define TOLERANCE_TRAIN_LOSS_F32 1e-4
#define TOLERANCE_TRAIN_LOSS_BF16 3e-2
#define TOLERANCE_TRAIN_NORM_F32 1e-3
#define TOLERANCE_TRAIN_ADAPTER_F32 1e-3 /* relative L2 */
#define TOLERANCE_TRAIN_NORM_BF16 5e-2
#define TOLERANCE_TRAIN_ADAPTER_BF16 0.3
#define TOLERANCE_REAL_LOSS_F32 5e-5
#define TOLERANCE_REAL_LOSS_BF16 3e-3
#define TOLERANCE_REAL_STEP_F32 1e-4
#define TOLERANCE_REAL_STEP_BF16 1e-2
#define TOLERANCE_REAL_NORM_F32 1e-4
#define TOLERANCE_REAL_NORM_BF16 3e-2
/* "No worse than bf16 anywhere": at step 1 B is 0, so the runs differ by the rounding of the base alone; PEFT's lies 5e-4 below FP32 there. */
#define TOLERANCE_REAL_WORSE 1e-3

/* Sum of n products in F32, relative to the sum of their absolute values: (number of roundings) * 2^-24 (Higham 2002, 3.1); blocks of 1024 are
 * summed apart, and a few roundings more are alpha, bias, the old value and the result. */
#define TOLERANCE_SUM_F32(n) (((double)((n) < 1024 ? (n) : 1024) + (double)(n) / 1024 + 8) * 0x1p-24)
#define TOLERANCE_ROUND_BF16 0x1.01p-8 /* half a unit in the last place, at worst relative to a power of two */

#define TOLERANCE_ROPE 1e-6 /* relative: shared/cases, C07 */
/* shared/FACTS.md B1: the mean of the scales in double equals torch's to an ulp or two. */
#define TOLERANCE_NF4_OFFSET_ULPS 2
/* shared/cases, C11 and C13. */
#define TOLERANCE_NF4_RESTORED 1e-6

/* One unit in the last place, relative. A level whose F32 value differs by an ulp may round to the neighbouring BF16. */
#define TOLERANCE_F32_ULP 1.1920929e-7 /* 2^-23 */
#define TOLERANCE_BF16_ULP 7.8125e-3   /* 2^-7 */
/* ops/vector.h: exp within 1.26 ulp; sigmoid adds a sum, a division; its derivative three roundings more, cancelling where it crosses 0. */
#define TOLERANCE_SILU_ULPS 6.0
#define TOLERANCE_SILU_SLOPE 1e-6 /* absolute, for inputs of size 1 */
#define TOLERANCE_SILU_TINY 1e-36 /* absolute: x below -88.7, where exp(-x) is Inf in F32 and the result 0 */
/* F32 dot products of up to 256 terms of size 1, and sums over up to 200 keys: measured below 4e-6. */
#define TOLERANCE_ATTENTION_F32 1e-5
/* BF16 tiles round the weights p and ds (2^-9 relative) and the result (2^-9): measured below 1 % of the largest element. */
#define TOLERANCE_ATTENTION_BF16 2e-2
/* Central differences in double with step 1e-5 against gradients rounded to F32. */
#define TOLERANCE_FINITE_DIFFERENCE 2e-6

/* Issue 3: micro-batches of 4 x 1 = 1 x 4 within 1e-5 relative. After Adam's first update a difference in a tiny gradient can flip a sign's worth of step:
 * measured 3e-5. */
#define TOLERANCE_SPLIT 1e-5
#define TOLERANCE_SPLIT_ADAPTER 1e-4

#endif
