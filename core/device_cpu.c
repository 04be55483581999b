/* The CPU as a device: every tier is this machine's memory, copies happen at once, lanes have nothing to wait for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/device_tables.h"
#include "core/ledger.h"

static qlft_status cpu_open(device **out, int index, int threads)
{
    *out = NULL;
    if (index != 0) return status_fail(QLFT_EDEVICE, "--device cpu has no number %d; there is one CPU device", index);
    device *d = calloc(1, sizeof *d);
    if (!d) return status_fail(QLFT_ENOMEM, "out of memory while opening the CPU device");
    d->table = &device_cpu;
    d->threads = threads > 0 ? threads : cpu_count();
    snprintf(d->name, sizeof d->name, "%s", cpu_name());
    qlft_status status = cpu_level_choose(&d->level);
    if (status != QLFT_OK) {
        free(d);
        return status;
    }
    *out = d;
    return QLFT_OK;
}

/* Present at once (MAP_POPULATE), so that running out of memory happens here and not at the longest sample. */
static qlft_status refused(size_t bytes, tier where, int error)
{
    char text[BYTES_TEXT];
    return status_fail(QLFT_ENOMEM, "the system refuses %s for the run's %s memory (%s); lower --seq, --batch or --r, or use --checkpointing block",
                       bytes_text(text, (double)bytes), ledger_tier_name(where), strerror(error));
}

static qlft_status cpu_reserve(device *d, tier where, size_t bytes, void **out)
{
    *out = NULL;
    if (bytes == 0) return QLFT_OK;
    void **reserved = realloc(d->reserved, (size_t)(d->reserved_count + 1) * sizeof *reserved);
    if (reserved) d->reserved = reserved;
    size_t *sizes = realloc(d->reserved_bytes, (size_t)(d->reserved_count + 1) * sizeof *sizes);
    if (sizes) d->reserved_bytes = sizes;
    if (!reserved || !sizes) return status_fail(QLFT_ENOMEM, "out of memory for %zu bytes of book-keeping", sizeof *sizes);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return refused(bytes, where, errno);
    d->reserved[d->reserved_count] = memory;
    d->reserved_bytes[d->reserved_count++] = bytes;
    *out = memory;
    return QLFT_OK;
}

static void cpu_copy(device *d, void *to, const void *from, size_t bytes, int lane)
{
    (void)d;
    (void)lane;
    memcpy(to, from, bytes);
}

static void cpu_wait(device *d, int lane, int for_lane)
{
    (void)d;
    (void)lane;
    (void)for_lane;
}

static qlft_status cpu_sync(device *d)
{
    (void)d;
    return QLFT_OK;
}

/* A number in a file of the control group, or of one of its lines "key N"; false: there is none ("max"). */
static bool cgroup_number(unsigned long long *out, const char *path, const char *key)
{
    char line[128];
    bool found = false;
    FILE *f = fopen(path, "r");
    if (!f) return false;
    while (!found && fgets(line, sizeof line, f)) {
        size_t skip = key ? strlen(key) : 0;
        if (!key || (strncmp(line, key, skip) == 0 && line[skip] == ' ')) found = sscanf(line + skip, "%llu", out) == 1;
    }
    fclose(f);
    return found;
}

/* A container may have less than its machine (cgroup v2). The cache of files counts as used there, but is given up when memory is asked for. */
static void cgroup_usage(size_t *used_bytes, size_t *total_bytes)
{
    unsigned long long limit = 0, used = 0, files = 0;
    if (!cgroup_number(&limit, "/sys/fs/cgroup/memory.max", NULL) || !cgroup_number(&used, "/sys/fs/cgroup/memory.current", NULL)) return;
    if (cgroup_number(&files, "/sys/fs/cgroup/memory.stat", "inactive_file")) used -= files < used ? files : used;
    if (limit >= *total_bytes) return;
    size_t machine_left = *total_bytes > *used_bytes ? *total_bytes - *used_bytes : 0, left = limit > used ? (size_t)(limit - used) : 0;
    *total_bytes = (size_t)limit;
    *used_bytes = (size_t)limit - (left < machine_left ? left : machine_left < limit ? machine_left : (size_t)limit);
}

static void cpu_usage(device *d, size_t *used_bytes, size_t *total_bytes)
{
    (void)d;
    *used_bytes = *total_bytes = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    if (!f) return;
    char line[128];
    unsigned long long kib = 0, total = 0, available = 0;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "MemTotal: %llu kB", &kib) == 1) total = kib;
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) available = kib;
    }
    fclose(f);
    *total_bytes = (size_t)total * 1024;
    *used_bytes = (size_t)(total - available) * 1024;
    cgroup_usage(used_bytes, total_bytes);
}

static void cpu_close(device *d)
{
    for (int i = 0; i < d->reserved_count; i++) {
        arena_allow(d->reserved[i], d->reserved_bytes[i]); /* whoever is given these addresses next */
        munmap(d->reserved[i], d->reserved_bytes[i]);
    }
    free(d->reserved);
    free(d->reserved_bytes);
    free(d);
}

const device_table device_cpu = {"cpu", cpu_open, cpu_reserve, cpu_copy, cpu_wait, cpu_sync, cpu_usage, cpu_close};
