/* One comparison for every slot: the same call at ref and, on 1 .. KERNEL_THREADS threads, at the level under test, each on copies of the same outputs. */
#ifndef TESTS_KERNELS_COMPARE_H
#define TESTS_KERNELS_COMPARE_H

#include "tests/kernels.h"

enum { COMPARE_OUTPUTS_MOST = 4 };

/* Calls the slot of t on `out`; what it reads is in `inputs`. */
typedef void (*compare_call)(const ops_table *t, device *d, const void *inputs, guarded *out);

/* |ref - got| <= relative |ref| + absolute; bits: no difference at all. */
typedef struct compare_bound {
    double relative, absolute;
    bool bits;
} compare_bound;

/* blank: the outputs before the call (also what an in-place kernel reads); they stay as they are. Guards are checked after each call, and the bits of
 * 2 and 3 threads against those of 1. kept (or NULL) receives the outputs of ref for further checks; free them. */
void compare_levels(kernel_run *k, const char *what, compare_call call, const void *inputs, const guarded *blank, int outputs, const compare_bound *bounds,
                    guarded *kept);

/* The bound for a result that is rounded once to this type, `ulps` of F32 before that. */
compare_bound compare_rounded(dtype type, double ulps, double absolute);

double compare_largest(tensor t); /* largest |element| */

void check_attention_forward(kernel_run *k);
void check_attention_backward(kernel_run *k);

#endif
