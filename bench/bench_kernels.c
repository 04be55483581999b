/* Speed of the matrix kernels beside this machine's measured peak:
 *     qlft_bench_kernels [threads]        QLFT_CPU=ref|avx2|avx512 lowers the level
 * Shapes are those of SmolLM2-135M (width 576, inner width 1536, 192 key columns, vocabulary 49152). The best of the repetitions in about
 * 0.2 s each is printed: on a shared machine the others measure the neighbours. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef QLFT_X86_LEVELS
#include <immintrin.h>
#endif

#include "nf4/nf4.h"

#define BUDGET_SECONDS 0.2

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *room(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "out of memory for %zu bytes\n", bytes);
        exit(1);
    }
    return p;
}

static void must(qlft_status status)
{
    if (status == QLFT_OK) return;
    fprintf(stderr, "%s\n", qlft_last_error());
    exit(1);
}

/* ---- peak: twelve independent sums in registers ---- */

#ifdef QLFT_X86_LEVELS
enum { PEAK_SUMS = 12, PEAK_ROUNDS = 1 << 18 };

#define PEAK_LOOP(name, isa, vector, zero, step, flops)                                                                                                        \
    __attribute__((target(isa), noinline)) static double name(void)                                                                                            \
    {                                                                                                                                                          \
        vector sums[PEAK_SUMS];                                                                                                                                \
        for (int i = 0; i < PEAK_SUMS; i++) sums[i] = zero;                                                                                                    \
        double start = seconds();                                                                                                                              \
        for (int n = 0; n < PEAK_ROUNDS; n++) {                                                                                                                \
            _Pragma("GCC unroll 12") for (int i = 0; i < PEAK_SUMS; i++) sums[i] = step;                                                                       \
            __asm__ volatile("");                                                                                                                              \
        }                                                                                                                                                      \
        double took = seconds() - start;                                                                                                                       \
        for (int i = 0; i < PEAK_SUMS; i++) __asm__ volatile("" ::"x"(sums[i]));                                                                               \
        return (double)PEAK_ROUNDS * PEAK_SUMS * (flops) / took * 1e-9;                                                                                        \
    }

PEAK_LOOP(peak_bf16, "avx512f,avx512bf16", __m512, _mm512_setzero_ps(),
          _mm512_dpbf16_ps(sums[i], (__m512bh)_mm512_set1_epi32(0x3f803f80), (__m512bh)_mm512_set1_epi32(0x3f803f80)), 64)
PEAK_LOOP(peak_f32_512, "avx512f", __m512, _mm512_setzero_ps(), _mm512_fmadd_ps(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f), sums[i]), 32)
PEAK_LOOP(peak_f32_256, "avx2,fma", __m256, _mm256_setzero_ps(), _mm256_fmadd_ps(_mm256_set1_ps(0.5f), _mm256_set1_ps(0.5f), sums[i]), 16)
#endif

/* Of one thread, in GF/s; 0: not known for this level. */
static double peak_of(cpu_level level, dtype type)
{
#ifdef QLFT_X86_LEVELS
    double best = 0;
    for (int i = 0; i < 40; i++) { /* about 1 ms each: short enough to fall between the neighbours */
        double now = level == CPU_AVX512 ? (type == DTYPE_BF16 ? peak_bf16() : peak_f32_512()) : level == CPU_AVX2 ? peak_f32_256() : 0.0;
        if (now > best) best = now;
    }
    return best;
#else
    (void)level;
    (void)type;
    return 0;
#endif
}

/* ---- gemm ---- */

typedef struct shape {
    const char *what;
    int64_t rows, inner, cols;
    bool transposed, nf4;
    dtype type;
} shape;

static const shape shapes[] = {
    {"q, o forward", 512, 576, 576, true, true, DTYPE_BF16},        {"k, v forward", 512, 576, 192, true, true, DTYPE_BF16},
    {"gate, up forward", 512, 576, 1536, true, true, DTYPE_BF16},   {"down forward", 512, 1536, 576, true, true, DTYPE_BF16},
    {"q, o backward", 512, 576, 576, false, true, DTYPE_BF16},      {"k, v backward", 512, 192, 576, false, true, DTYPE_BF16},
    {"gate, up backward", 512, 1536, 576, false, true, DTYPE_BF16}, {"down backward", 512, 576, 1536, false, true, DTYPE_BF16},
    {"q, o forward", 512, 576, 576, true, false, DTYPE_BF16},       {"down forward", 512, 1536, 576, true, false, DTYPE_BF16},
    {"adapter a", 512, 576, 16, true, false, DTYPE_BF16},           {"adapter b", 512, 16, 576, true, false, DTYPE_BF16},
    {"head forward", 256, 576, 49152, true, false, DTYPE_BF16},     {"head backward", 256, 49152, 576, false, false, DTYPE_BF16},
    {"one token, q", 1, 576, 576, true, true, DTYPE_BF16},          {"one token, gate", 1, 576, 1536, true, true, DTYPE_BF16},
    {"one token, head", 1, 576, 49152, true, false, DTYPE_BF16},    {"q, o forward", 512, 576, 576, true, true, DTYPE_F32},
    {"down forward", 512, 1536, 576, true, true, DTYPE_F32},        {"gate, up backward", 512, 1536, 576, false, true, DTYPE_F32},
    {"head forward", 256, 576, 49152, true, false, DTYPE_F32},      {"one token, gate", 1, 576, 1536, true, true, DTYPE_F32},
};

static tensor filled(int64_t rows, int64_t cols, dtype type)
{
    tensor t = tensor_of(room((size_t)(rows * cols) * dtype_bytes(type)), rows, cols, type);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) tensor_put(t, i, j, (float)((i * 31 + j * 17) % 61 - 30) * 0.01f);
    return t;
}

static void nf4_make(nf4_matrix *m, device *d, tensor source)
{
    int64_t n = source.rows * source.cols;
    memset(m, 0, sizeof *m);
    m->rows = source.rows;
    m->cols = source.cols;
    m->double_quant = true;
    m->codes = room(nf4_codes_bytes(n));
    m->absmax = room((size_t)nf4_blocks(n));
    m->scale = room((size_t)nf4_superblocks(n) * sizeof(float));
    float *absmax = room((size_t)nf4_blocks(n) * sizeof(float));
    must(nf4_quantize(d, m, source.data, source.type, absmax));
    free(absmax);
}

static double best_gemm(device *d, tensor y, const ops_product *product)
{
    double best = 1e9, start = seconds();
    do {
        double now = seconds();
        ops_for(d)->gemm(d, y, product, 1, 1.0f, NULL, 0.0f);
        now = seconds() - now;
        if (now < best) best = now;
    } while (seconds() - start < BUDGET_SECONDS);
    return best;
}

static void bench_gemm(device *const *devices, const shape *s, double peak)
{
    tensor x = filled(s->rows, s->inner, s->type), w = filled(s->transposed ? s->cols : s->inner, s->transposed ? s->inner : s->cols, s->type);
    tensor y = filled(s->rows, s->cols, s->cols > 40000 ? DTYPE_F32 : s->type);
    nf4_matrix packed = {0};
    ops_product product = {x, ops_dense(w), s->transposed};
    if (s->nf4) {
        nf4_make(&packed, devices[0], w);
        product.w = nf4_operand(devices[0], &packed);
    }
    double flops = 2e-9 * (double)s->rows * (double)s->inner * (double)s->cols, rate[2];
    for (int i = 0; i < 2; i++) rate[i] = flops / best_gemm(devices[i], y, &product);
    printf("%-18s %4lld x %5lld x %5lld  %-4s x %-5s %8.1f %8.1f", s->what, (long long)s->rows, (long long)s->inner, (long long)s->cols, dtype_name(s->type),
           s->nf4 ? "NF4" : dtype_name(s->type), rate[0], rate[1]);
    if (peak > 0)
        printf("   %5.1f %5.1f\n", 100 * rate[0] / peak, 100 * rate[1] / (peak * devices[1]->threads));
    else
        printf("       -     -\n");
    void *all[] = {x.data, w.data, y.data, packed.codes, packed.absmax, packed.scale};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* ---- weight gradients ---- */

static void bench_outer(device *const *devices, int64_t rows, int64_t cols)
{
    tensor a = filled(512, rows, DTYPE_BF16), b = filled(512, cols, DTYPE_BF16), y = filled(rows, cols, DTYPE_F32);
    double rate[2];
    for (int i = 0; i < 2; i++) {
        double best = 1e9, start = seconds();
        do {
            double now = seconds();
            ops_for(devices[i])->gemm_outer(devices[i], y, a, b, 1e-6f);
            now = seconds() - now;
            if (now < best) best = now;
        } while (seconds() - start < BUDGET_SECONDS);
        rate[i] = 2e-9 * 512 * (double)rows * (double)cols / best;
    }
    printf("weight gradient    %4lld x %5d x %5lld  BF16 x BF16  %8.1f %8.1f\n", (long long)rows, 512, (long long)cols, rate[0], rate[1]);
    free(a.data);
    free(b.data);
    free(y.data);
}

/* ---- NF4 ---- */

static void bench_nf4(device *const *devices, dtype source_type)
{
    enum { ROWS = 1536, COLS = 576, RUN = 576 };
    tensor w = filled(ROWS, COLS, source_type);
    nf4_matrix m;
    nf4_make(&m, devices[0], w);
    float *absmax = room((size_t)nf4_blocks(ROWS * COLS) * sizeof(float)), line[RUN];
    const double values = (double)ROWS * COLS * 1e-9;
    for (int i = 0; i < 2; i++) {
        double best = 1e9, start = seconds();
        do {
            double now = seconds();
            must(nf4_quantize(devices[i], &m, w.data, source_type, absmax));
            now = seconds() - now;
            if (now < best) best = now;
        } while (seconds() - start < BUDGET_SECONDS);
        printf("NF4 quantize from %-5s %d thread%s  %6.2f G values/s\n", dtype_name(source_type), devices[i]->threads, devices[i]->threads > 1 ? "s" : " ",
               values / best);
    }
    const nf4_table *level = nf4_at(devices[0]->level);
    for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        double best = 1e9, start = seconds();
        do {
            double now = seconds();
            for (int64_t row = 0; row < ROWS; row++) level->decode(&m, row * COLS, RUN, line, (dtype)type);
            now = seconds() - now;
            if (now < best) best = now;
        } while (seconds() - start < BUDGET_SECONDS);
        printf("NF4 decode to %-5s in rows of %d, 1 thread  %6.2f G values/s\n", dtype_name((dtype)type), RUN, values / best);
    }
    void *all[] = {w.data, m.codes, m.absmax, m.scale, absmax};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

int main(int argc, char **argv)
{
    cpu_level level;
    device *devices[2];
    int threads = argc > 1 ? atoi(argv[1]) : cpu_count();
    if (argc > 2 || threads < 1) {
        fprintf(stderr, "usage: %s [threads]\n", argv[0]);
        return 2;
    }
    must(cpu_level_choose(&level));
    must(device_open_cpu(&devices[0], level, 1));
    must(device_open_cpu(&devices[1], level, threads));
    double peak[2] = {peak_of(level, DTYPE_F32), peak_of(level, DTYPE_BF16)};
    printf("%s, level %s, %d threads\n", cpu_name(), cpu_level_name(level), threads);
    printf("measured peak of one thread: F32 %.1f GF/s, BF16 %.1f GF/s\n\n", peak[0], peak[1]);
    printf("%-18s %-19s  %-12s %8s %8s   %% of peak\n", "GF/s", "rows x inner x cols", "types", "1 thread", "threads");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) bench_gemm(devices, &shapes[i], peak[shapes[i].type == DTYPE_BF16]);
    bench_outer(devices, 16, 576);
    bench_outer(devices, 1536, 16);
    bench_outer(devices, 64, 14336);
    bench_outer(devices, 14336, 16);
    printf("\n");
    bench_nf4(devices, DTYPE_BF16);
    device_close(devices[0]);
    device_close(devices[1]);
    return 0;
}
