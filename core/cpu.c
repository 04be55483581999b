#include "core/cpu.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[CPU_LEVELS] = {"ref", "avx2", "avx512"};

const char *cpu_level_name(cpu_level level)
{
    return level >= 0 && level < CPU_LEVELS ? level_names[level] : "unknown";
}

cpu_level cpu_level_best(void)
{
#ifdef QLFT_X86_LEVELS
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) return CPU_REF;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bf16"))
        return CPU_AVX512;
    return CPU_AVX2;
#else
    return CPU_REF;
#endif
}

qlft_status cpu_level_choose(cpu_level *out)
{
    const char *wanted = getenv("QLFT_CPU");
    cpu_level best = cpu_level_best();
    *out = best;
    if (!wanted || !*wanted) return QLFT_OK;
    for (int i = 0; i < CPU_LEVELS; i++) {
        if (strcmp(wanted, level_names[i]) != 0) continue;
        if ((cpu_level)i > best)
            return status_fail(QLFT_EDEVICE, "QLFT_CPU=%s: this processor has only level %s; unset it or choose that", wanted, level_names[best]);
        *out = (cpu_level)i;
        return QLFT_OK;
    }
    return status_fail(QLFT_EARG, "QLFT_CPU=%s: unknown level; choose ref, avx2 or avx512", wanted);
}

const char *cpu_name(void)
{
    static _Thread_local char name[80];
    snprintf(name, sizeof name, "unknown CPU");
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f) return name;
    char line[256];
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "model name", 10) != 0) continue;
        char *text = strchr(line, ':');
        if (!text) break;
        for (text++; isspace((unsigned char)*text); text++) {}
        text[strcspn(text, "\n")] = 0;
        snprintf(name, sizeof name, "%.79s", text);
        break;
    }
    fclose(f);
    return name;
}

/* Whole processors that a cgroup v2 quota allows; 0 without a quota. */
static int cgroup_quota(void)
{
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!f) return 0;
    long long quota = 0, period = 0;
    int fields = fscanf(f, "%lld %lld", &quota, &period);
    fclose(f);
    if (fields != 2 || quota <= 0 || period <= 0) return 0;
    long long whole = (quota + period - 1) / period;
    return whole < 4096 ? (int)whole : 4096;
}

int cpu_count(void)
{
    cpu_set_t set;
    /* The set holds 1024 processors; where there are more the call fails and the system's own count serves. */
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    int quota = cgroup_quota();
    if (quota > 0 && quota < count) count = quota;
    return count > 0 ? count : 1;
}
