/* The backend's root: where kernels run and where memory comes from. The CPU's device knows its level and its threads. */
#ifndef CORE_DEVICE_H
#define CORE_DEVICE_H

#include "core/cpu.h"
#include "core/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch that a kernel may use in each thread, bytes; every kernel asserts that it needs no more. */
enum { DEVICE_SCRATCH_BYTES = 1 << 20 };

typedef struct device device;
typedef struct device_table {
    const char *name;
    qlft_status (*open)(device **out, int index, int threads);                   /* threads 0: all that cpu_count gives */
    qlft_status (*reserve)(device *d, tier where, size_t bytes, void **out);     /* zero-filled, present in memory at once; freed by close */
    void (*copy)(device *d, void *to, const void *from, size_t bytes, int lane); /* asynchronous where the device can */
    void (*wait)(device *d, int lane, int for_lane);
    qlft_status (*sync)(device *d);                                    /* gives the sticky error */
    void (*usage)(device *d, size_t *used_bytes, size_t *total_bytes); /* as the system sees it */
    void (*close)(device *d);                                          /* accepts NULL */
} device_table;

struct device {
    const device_table *table;
    char name[96];
    cpu_level level;
    int threads;
    unsigned char *scratch; /* threads x DEVICE_SCRATCH_BYTES, 64-byte aligned; set by device_bind_scratch */
    void **reserved;        /* allocations to give back */
    size_t *reserved_bytes;
    int reserved_count;
};

/* A thread's scratch inside a kernel: thread is omp_get_thread_num(). */
static inline void *device_scratch(const device *d, int thread)
{
    return d->scratch + (size_t)thread * DEVICE_SCRATCH_BYTES;
}

const device_table *device_find(const char *name); /* "cpu"; NULL if this build has no such device */

/* A CPU device with its scratch allocated on its own, for tests and commands that bind no arena. */
qlft_status device_open_cpu(device **out, cpu_level level, int threads);
void device_close(device *d); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
