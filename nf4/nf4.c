/* NF4: constants, sizes, and the quantization of a whole matrix from blocks that a level quantizes. */
#include "nf4/nf4.h"

#include <assert.h>
#include <omp.h>
#include <pthread.h>

#include "nf4/levels.h"

/* Quantiles of the normal distribution, normalised to [-1, 1] (bitsandbytes' constants), and fl((a + b) / 2) of neighbours. */
const float nf4_levels[16] = {-1.0f,
                              -0.6961928009986877f,
                              -0.5250730514526367f,
                              -0.39491748809814453f,
                              -0.28444138169288635f,
                              -0.18477343022823334f,
                              -0.09105003625154495f,
                              0.0f,
                              0.07958029955625534f,
                              0.16093020141124725f,
                              0.24611230194568634f,
                              0.33791524171829224f,
                              0.44070982933044434f,
                              0.5626170039176941f,
                              0.7229568362236023f,
                              1.0f};
const float nf4_midpoints[15] = {-0.8480963706970215f,  -0.6106328964233398f,   -0.4599952697753906f, -0.33967941999435425f, -0.23460739850997925f,
                                 -0.13791173696517944f, -0.045525018125772476f, 0.03979014977812767f, 0.120255246758461f,    0.2035212516784668f,
                                 0.2920137643814087f,   0.3893125355243683f,    0.5016634464263916f,  0.6427869200706482f,   0.8614784479141235f};

/* ---- the dynamic map ---- */

enum { MAP_ENTRIES = 256, MAP_ZERO = 127, MAP_DECADES = 7 };

static float dynamic_map[MAP_ENTRIES];
static float dynamic_midpoints[MAP_ENTRIES - 1];
static pthread_once_t dynamic_map_once = PTHREAD_ONCE_INIT;

/* Point p of 2^decade + 1 evenly spaced ones on [0.1, 1], as torch.linspace computes it: from the nearer end, by fused multiply-add. */
static float linspace_point(int decade, int p)
{
    int intervals = 1 << decade;
    float step = (1.0f - 0.1f) / (float)intervals;
    return p < (intervals + 1) / 2 ? fmaf(step, (float)p, 0.1f) : fmaf(-step, (float)(intervals - p), 1.0f);
}

/* 0, 1, and in decade i the 2^i centres of intervals of [0.1, 1], times 10^(i - 6), with both signs; ascending. */
static void fill_dynamic_map(void)
{
    static const float power[MAP_DECADES] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
    int at = 1;
    for (int decade = 0; decade < MAP_DECADES; decade++)
        for (int j = 0; j < 1 << decade; j++, at++) {
            float value = power[decade] * (0.5f * (linspace_point(decade, j) + linspace_point(decade, j + 1)));
            dynamic_map[MAP_ZERO + at] = value;
            dynamic_map[MAP_ZERO - at] = -value;
        }
    dynamic_map[MAP_ZERO] = 0.0f;
    dynamic_map[MAP_ENTRIES - 1] = 1.0f;
    for (int i = 0; i + 1 < MAP_ENTRIES; i++) dynamic_midpoints[i] = (dynamic_map[i] + dynamic_map[i + 1]) * 0.5f;
}

const float *nf4_dynamic_map(void)
{
    pthread_once(&dynamic_map_once, fill_dynamic_map);
    return dynamic_map;
}

/* ---- sizes ---- */

int64_t nf4_blocks(int64_t n)
{
    return n / NF4_BLOCK + (n % NF4_BLOCK != 0);
}

int64_t nf4_superblocks(int64_t n)
{
    int64_t blocks = nf4_blocks(n);
    return blocks / NF4_SUPERBLOCK + (blocks % NF4_SUPERBLOCK != 0);
}

size_t nf4_codes_bytes(int64_t n)
{
    return (size_t)(n / 2 + n % 2);
}

size_t nf4_total_bytes(int64_t n, bool double_quant)
{
    size_t scales = (size_t)(double_quant ? nf4_superblocks(n) : nf4_blocks(n)) * sizeof(float);
    return nf4_codes_bytes(n) + (double_quant ? (size_t)nf4_blocks(n) : 0) + scales;
}

void nf4_bind(nf4_matrix *m, arena *a, const char *owner, const char *name, int64_t rows, int64_t cols, bool double_quant)
{
    int64_t n = rows * cols;
    memset(m, 0, sizeof *m);
    m->rows = rows;
    m->cols = cols;
    m->double_quant = double_quant;
    m->codes = arena_take(a, TIER_DEVICE, LEDGER_BASE, owner, name, nf4_codes_bytes(n));
    if (double_quant) {
        m->absmax = arena_take(a, TIER_DEVICE, LEDGER_BASE, owner, name, (size_t)nf4_blocks(n));
        m->map = (float *)nf4_dynamic_map(); /* shared and never written: a file's own map takes its place by pointer */
    }
    m->scale = arena_take(a, TIER_DEVICE, LEDGER_BASE, owner, name, (size_t)(double_quant ? nf4_superblocks(n) : nf4_blocks(n)) * sizeof(float));
}

/* ---- levels ---- */

const nf4_table *nf4_at(cpu_level level)
{
#ifdef QLFT_X86_LEVELS
    if (level == CPU_AVX2) return &nf4_avx2;
    if (level == CPU_AVX512) return &nf4_avx512;
#endif
    (void)level;
    return &nf4_ref;
}

void nf4_decode(const void *matrix, int64_t first, int64_t count, void *out, dtype type)
{
    nf4_ref.decode(matrix, first, count, out, type);
}

ops_matrix nf4_operand(const device *d, const nf4_matrix *m)
{
    ops_matrix operand;
    operand.rows = m->rows;
    operand.cols = m->cols;
    operand.data = m;
    operand.stride = m->cols;
    operand.type = DTYPE_BF16;
    operand.decode = nf4_at(d->level)->decode;
    return operand;
}

/* ---- quantization ---- */

enum { CHUNK = 256 * NF4_BLOCK };
_Static_assert(CHUNK * sizeof(float) <= DEVICE_SCRATCH_BYTES, "a chunk of values fits in a thread's scratch");

/* Values [first, first + count) of source as float. The source may lie in a mapped file, at any address. */
static void widen(float *values, const void *source, dtype type, int64_t first, int64_t count)
{
    size_t element = dtype_bytes(type);
    const char *from = (const char *)source + (size_t)first * element;
    if (type == DTYPE_F32) {
        memcpy(values, from, (size_t)count * element);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + 2 * i, sizeof half);
        values[i] = type == DTYPE_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
    }
}

/* The nearest entry of the dynamic map, ties down: the number of midpoints below v. */
static uint8_t nearest_code(float v)
{
    int low = 0, high = MAP_ENTRIES - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (v > dynamic_midpoints[middle])
            low = middle + 1;
        else
            high = middle;
    }
    return (uint8_t)low;
}

static void quantize_superblock(uint8_t *codes, float *scale, const float *absmax, int64_t count, float offset)
{
    float largest = 0.0f;
    for (int64_t i = 0; i < count; i++) largest = fmaxf(largest, fabsf(absmax[i] - offset));
    *scale = largest;
    float reciprocal = largest > 0.0f ? 1.0f / largest : 0.0f;
    for (int64_t i = 0; i < count; i++) {
        float d = absmax[i] - offset;
        codes[i] = largest > 0.0f ? nearest_code(largest > NF4_TINY ? d * reciprocal : d / largest) : 0;
    }
}

void nf4_quantize_scales(device *d, nf4_matrix *m, const float *absmax, int64_t blocks, float offset)
{
    m->offset = offset;
    m->map = (float *)nf4_dynamic_map();
#pragma omp parallel for num_threads(d->threads)
    for (int64_t i = 0; i < blocks; i += NF4_SUPERBLOCK) {
        int64_t count = blocks - i < NF4_SUPERBLOCK ? blocks - i : NF4_SUPERBLOCK;
        quantize_superblock(m->absmax + i, m->scale + i / NF4_SUPERBLOCK, absmax + i, count, offset);
    }
}

/* In order and in double, so that it does not depend on threads. */
static float mean_of(const float *values, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) sum += (double)values[i];
    return (float)(sum / (double)count);
}

qlft_status nf4_quantize(device *d, nf4_matrix *m, const void *source, dtype type, float *absmax_scratch)
{
    assert(type == DTYPE_F32 || type == DTYPE_BF16 || type == DTYPE_F16);
    assert(!m->double_quant || absmax_scratch);
    const nf4_table *level = nf4_at(d->level);
    int64_t n = m->rows * m->cols, first_bad = INT64_MAX;
    float *absmax = m->double_quant ? absmax_scratch : m->scale;
    if (n == 0) return QLFT_OK;
#pragma omp parallel for num_threads(d->threads) schedule(dynamic) reduction(min : first_bad)
    for (int64_t first = 0; first < n; first += CHUNK) {
        float *values = device_scratch(d, omp_get_thread_num());
        int64_t count = n - first < CHUNK ? n - first : CHUNK;
        widen(values, source, type, first, count);
        int64_t bad = level->quantize_blocks(m->codes, absmax, values, first, count);
        if (bad >= 0 && bad < first_bad) first_bad = bad;
    }
    if (first_bad != INT64_MAX) {
        float value;
        widen(&value, source, type, first_bad, 1);
        return status_fail(QLFT_EFORMAT, "value %lld (row %lld, column %lld) is %s; only finite weights can be quantized", (long long)first_bad,
                           (long long)(first_bad / m->cols), (long long)(first_bad % m->cols), isnan(value) ? "NaN" : "infinite");
    }
    if (m->double_quant) nf4_quantize_scales(d, m, absmax, nf4_blocks(n), mean_of(absmax, nf4_blocks(n)));
    return QLFT_OK;
}
