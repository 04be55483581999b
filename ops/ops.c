/* The three tables of kernels, each a copy of the level below with its own kernels on top. */
#include "ops/ops.h"

#include <assert.h>
#include <pthread.h>

#include "ops/levels.h"

static ops_table tables[CPU_LEVELS];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fill_ref(ops_table *t)
{
    gemm_ref_fill(t);
    attention_ref_fill(t);
    norm_ref_fill(t);
    rope_ref_fill(t);
    act_ref_fill(t);
    xent_ref_fill(t);
    embed_ref_fill(t);
    element_ref_fill(t);
}

#ifdef QLFT_X86_LEVELS
static void fill_avx2(ops_table *t)
{
    gemm_avx2_fill(t);
    attention_avx2_fill(t);
    norm_avx2_fill(t);
    rope_avx2_fill(t);
    act_avx2_fill(t);
    xent_avx2_fill(t);
    element_avx2_fill(t);
}

static void fill_avx512(ops_table *t)
{
    gemm_avx512_fill(t);
    attention_avx512_fill(t);
    norm_avx512_fill(t);
    rope_avx512_fill(t);
    act_avx512_fill(t);
    xent_avx512_fill(t);
    element_avx512_fill(t);
}
#endif

static void fill_tables(void)
{
    ops_table *ref = &tables[CPU_REF], *avx2 = &tables[CPU_AVX2], *avx512 = &tables[CPU_AVX512];
    fill_ref(ref);
    *avx2 = *ref;
#ifdef QLFT_X86_LEVELS
    fill_avx2(avx2);
#endif
    *avx512 = *avx2;
#ifdef QLFT_X86_LEVELS
    fill_avx512(avx512);
#endif
    ref->name = cpu_level_name(CPU_REF);
    avx2->name = cpu_level_name(CPU_AVX2);
    avx512->name = cpu_level_name(CPU_AVX512);
}

const ops_table *ops_at(cpu_level level)
{
    assert((int)level >= 0 && level < CPU_LEVELS);
    pthread_once(&tables_once, fill_tables);
    return &tables[level];
}

const ops_table *ops_for(const device *d)
{
    return ops_at(d->level);
}

void ops_matrix_row(const ops_matrix *m, int64_t row, int64_t col, int64_t count, void *out, dtype type)
{
    assert(row >= 0 && row < m->rows && col >= 0 && count >= 0 && count <= m->cols - col && (type == DTYPE_F32 || type == DTYPE_BF16));
    if (m->decode) {
        m->decode(m->data, row * m->cols + col, count, out, type);
        return;
    }
    assert(m->type == DTYPE_F32 || m->type == DTYPE_BF16);
    const char *from = (const char *)m->data + (size_t)(row * m->stride + col) * dtype_bytes(m->type);
    if (m->type == type) {
        memcpy(out, from, (size_t)count * dtype_bytes(type));
    } else if (type == DTYPE_F32) {
        float *to = out;
        for (int64_t i = 0; i < count; i++) to[i] = bf16_to_f32(((const uint16_t *)(const void *)from)[i]);
    } else {
        uint16_t *to = out;
        for (int64_t i = 0; i < count; i++) to[i] = f32_to_bf16(((const float *)(const void *)from)[i]);
    }
}
