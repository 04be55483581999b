/* The level of CPU kernels in use: the best one that this processor has, lowered by QLFT_CPU=ref|avx2|avx512. */
#ifndef CORE_CPU_H
#define CORE_CPU_H

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Later levels include earlier ones. AVX512 means F, BW, DQ, VL, VNNI-free, and BF16 dot products. */
typedef enum cpu_level { CPU_REF, CPU_AVX2, CPU_AVX512, CPU_LEVELS } cpu_level;

const char *cpu_level_name(cpu_level level); /* "ref", "avx2", "avx512" */
cpu_level cpu_level_best(void);              /* what the processor and the system support */
/* The level to use: QLFT_CPU if set (QLFT_EARG if unknown or above the best), else the best. */
qlft_status cpu_level_choose(cpu_level *out);
/* Name of the processor for reports; borrowed, static. */
const char *cpu_name(void);
/* Processors this process may run on (affinity and cgroup quota). */
int cpu_count(void);

#ifdef __cplusplus
}
#endif
#endif
