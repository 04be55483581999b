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
#define TOLERANCE_ADAMW_10_STEPS 5e-6
#define TOLERANCE_SCHEDULE 1e-12
#define TOLERANCE_XENT_MEAN_F32 1e-6 /* relative */
#define TOLERANCE_XENT_GRADIENT_F32 1e-6
#define TOLERANCE_TRAIN_LOSS_F32 1e-4
#define TOLERANCE_TRAIN_LOSS_BF16 3e-2
#define TOLERANCE_TRAIN_NORM_F32 1e-3
#define TOLERANCE_TRAIN_ADAPTER_F32 1e-3 /* relative L2 */
#define TOLERANCE_REAL_LOSS_F32 5e-5
#define TOLERANCE_REAL_LOSS_BF16 3e-3
#define TOLERANCE_REAL_STEP_F32 1e-4
#define TOLERANCE_REAL_STEP_BF16 1e-2

#endif
