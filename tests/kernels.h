/* The kernel checker's frame: every slot of every level of ops_table against the level ref, on random tensors with guards round each output,
 * and bit for bit against itself on 1, 2 and 3 threads. A check is a row {slot, function}; kernels.c runs the rows of kernels.c and of
 * kernels_elementwise.c for each level, and prints a slot that a level does not replace as skipped. */
#ifndef TESTS_KERNELS_H
#define TESTS_KERNELS_H

#include <stddef.h>

#include "core/device.h"
#include "ops/ops.h"

enum { KERNEL_THREADS = 3 }; /* devices[i] has i + 1 threads */

typedef struct kernel_run {
    const char *slot;                /* name of the row */
    const ops_table *table;          /* the level under test */
    const ops_table *reference;      /* ref */
    device *devices[KERNEL_THREADS]; /* at the level under test */
    device *reference_device;        /* at ref, one thread */
    uint64_t seed;                   /* state of kernel_random; set anew for each row */
} kernel_run;

typedef struct kernel_check {
    const char *name;             /* the slot */
    size_t slot;                  /* offsetof(ops_table, ...) */
    void (*check)(kernel_run *k); /* at level ref it is run too, with table == reference: threads and guards are still checked */
} kernel_check;

#define KERNEL_CHECK(member, function)                                                                                                                         \
    {                                                                                                                                                          \
#member, offsetof(ops_table, member), function                                                                                                         \
    }

extern const kernel_check elementwise_checks[]; /* tests/kernels_elementwise.c */
extern const int elementwise_check_count;
extern const kernel_check gemm_checks[]; /* tests/kernels_gemm.c */
extern const int gemm_check_count;

/* Uniform numbers: [0, 1), and integers in [from, to]. */
double kernel_random(kernel_run *k);
int64_t kernel_random_int(kernel_run *k, int64_t from, int64_t to);

/* A tensor in memory of its own, with guard bytes before, behind and between the rows (stride > cols). */
typedef struct guarded {
    tensor t;
    unsigned char *memory;
    size_t bytes;
    uint16_t fill; /* of the guards: a NaN as F32 and as BF16, another one for each tensor, so that what is read there shows and copying it too */
} guarded;

guarded guarded_new(int64_t rows, int64_t cols, int64_t stride, dtype type); /* elements are NaN (types without NaN: 0xA5) until written */
guarded guarded_random(kernel_run *k, int64_t rows, int64_t cols, int64_t stride, dtype type, float from, float to); /* uniform in [from, to) */
guarded guarded_copy(const guarded *g);                                                                              /* the same shape, elements and guards */
void guarded_free(guarded *g);                                                                                       /* accepts a zeroed one */

/* The checks count a failure, print slot, level, `what` and the first bad element, and return whether all was well. */
bool kernel_expect_guards(kernel_run *k, const char *what, const guarded *g);
/* |expected - got| <= relative * magnitude + absolute for each element; magnitude: a tensor of that shape (for a sum of products: the sum of
 * their absolute values), or with data NULL |expected|. A NaN in `got` fails unless `expected` is NaN too. */
bool kernel_expect_close(kernel_run *k, const char *what, tensor expected, tensor got, tensor magnitude, double relative, double absolute);
bool kernel_expect_same_bits(kernel_run *k, const char *what, tensor expected, tensor got);
/* Any other condition. */
bool kernel_expect(kernel_run *k, bool condition, const char *format, ...) CORE_PRINTF(3, 4);

static inline tensor kernel_no_magnitude(void)
{
    return tensor_of(NULL, 0, 0, DTYPE_F32);
}

#endif
