/* NF4 against bitsandbytes' rule: golden files of shared/golden/nf4 (oracle/golden_nf4.py), cases C11, C13 and C17, at every level of this CPU. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/json.h"
#include "core/safetensors.h"
#include "nf4/levels.h"
#include "tests/tolerance.h"

static void ok(qlft_status status)
{
    cr_assert_eq(status, QLFT_OK, "%s", qlft_last_error());
}

static device *open_at(cpu_level level, int threads)
{
    device *d = NULL;
    ok(device_open_cpu(&d, level, threads));
    return d;
}

/* ---- a matrix in an arena of its own ---- */

typedef struct owned {
    nf4_matrix m;
    unsigned char *memory;
} owned;

static owned matrix_new(int64_t rows, int64_t cols, bool double_quant)
{
    owned o = {0};
    ledger book = {0}, used = {0};
    arena dry = {.book = &book}, real = {.book = &used};
    nf4_bind(&o.m, &dry, "test", "weight", rows, cols, double_quant);
    ok(arena_status(&dry));
    cr_assert_null(o.m.codes);
    real.size[TIER_DEVICE] = dry.used[TIER_DEVICE];
    real.base[TIER_DEVICE] = o.memory = aligned_alloc(ARENA_ALIGN, dry.used[TIER_DEVICE]);
    cr_assert_not_null(o.memory);
    memset(o.memory, 0xA5, dry.used[TIER_DEVICE]);
    nf4_bind(&o.m, &real, "test", "weight", rows, cols, double_quant);
    ok(arena_status(&real));
    cr_assert_eq(real.used[TIER_DEVICE], dry.used[TIER_DEVICE]);
    cr_assert_eq(book.count, 1);
    cr_assert_eq(book.rows[0].kind, LEDGER_BASE);
    size_t bytes = nf4_total_bytes(rows * cols, double_quant);
    cr_assert(book.rows[0].bytes >= bytes && book.rows[0].bytes < bytes + 3 * ARENA_ALIGN);
    ledger_free(&book);
    ledger_free(&used);
    return o;
}

static void matrix_free(owned *o)
{
    free(o->memory);
}

/* ---- golden files ---- */

static void golden_open(safetensors *file, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/nf4/%s", TEST_GOLDEN, name);
    ok(safetensors_open(file, path));
}

static const safetensors_entry *entry(const safetensors *file, const char *name)
{
    const safetensors_entry *e = safetensors_find(file, name);
    cr_assert_not_null(e, "no tensor %s", name);
    return e;
}

static void same_bytes(const char *label, const char *what, const void *got, const safetensors_entry *expected)
{
    const unsigned char *a = expected->data, *b = got;
    for (size_t i = 0; i < expected->bytes; i++) cr_assert_eq(a[i], b[i], "%s: %s differs at byte %zu: %02x, not %02x", label, what, i, b[i], a[i]);
}

static float first_float(const safetensors_entry *e)
{
    float value;
    cr_assert(e->bytes >= sizeof value);
    memcpy(&value, e->data, sizeof value);
    return value;
}

static int64_t ulps_between(float a, float b)
{
    int32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    cr_assert((x ^ y) >= 0 || a == b, "signs differ");
    return llabs((long long)x - y);
}

static dtype dtype_of(safetensors_type type)
{
    return type == ST_F32 ? DTYPE_F32 : type == ST_BF16 ? DTYPE_BF16 : DTYPE_F16;
}

/* Whole, and in runs that start and end anywhere. */
static void check_decode(const char *label, const nf4_table *level, const nf4_matrix *m, const safetensors_entry *expected, dtype type)
{
    int64_t n = m->rows * m->cols;
    size_t element = dtype_bytes(type);
    unsigned char *out = malloc((size_t)n * element + 1);
    cr_assert_eq(expected->bytes, (size_t)n * element);
    level->decode(m, 0, n, out, type);
    same_bytes(label, expected->name, out, expected);
    uint32_t state = 12345;
    for (int i = 0; i < 60; i++) {
        int64_t first = (int64_t)((state = state * 1664525u + 1013904223u) >> 8) % n;
        int64_t count = 1 + (int64_t)((state = state * 1664525u + 1013904223u) >> 8) % (i % 2 ? 70 : 400);
        if (count > n - first) count = n - first;
        memset(out, 0x5A, (size_t)n * element + 1);
        level->decode(m, first, count, out, type);
        cr_assert_arr_eq(out, (const unsigned char *)expected->data + (size_t)first * element, (size_t)count * element, "%s: [%lld, +%lld)", label,
                         (long long)first, (long long)count);
        cr_assert_eq(out[(size_t)count * element], 0x5A, "%s: written behind the run", label);
    }
    free(out);
}

static void check_single(device *d, const char *label, const safetensors *file)
{
    const safetensors_entry *input = entry(file, "input");
    owned o = matrix_new(1, input->count, false);
    ok(nf4_quantize(d, &o.m, input->data, dtype_of(input->type), NULL));
    same_bytes(label, "packed", o.m.codes, entry(file, "packed"));
    same_bytes(label, "absmax", o.m.scale, entry(file, "absmax"));
    check_decode(label, nf4_at(d->level), &o.m, entry(file, "deq_single_f32"), DTYPE_F32);
    matrix_free(&o);
}

static void check_double(device *d, const char *label, const safetensors *file)
{
    const safetensors_entry *input = entry(file, "input");
    owned o = matrix_new(1, input->count, true);
    int64_t blocks = nf4_blocks(input->count);
    float *absmax = malloc((size_t)blocks * sizeof *absmax), offset = first_float(entry(file, "offset"));
    ok(nf4_quantize(d, &o.m, input->data, dtype_of(input->type), absmax));
    same_bytes(label, "packed", o.m.codes, entry(file, "packed"));
    same_bytes(label, "absmax", absmax, entry(file, "absmax"));
    cr_assert(ulps_between(o.m.offset, offset) <= TOLERANCE_NF4_OFFSET_ULPS, "%s: offset %.9g, not %.9g", label, (double)o.m.offset, (double)offset);
    nf4_quantize_scales(d, &o.m, absmax, blocks, offset);
    same_bytes(label, "nested_q", o.m.absmax, entry(file, "nested_q"));
    same_bytes(label, "nested_absmax", o.m.scale, entry(file, "nested_absmax"));
    check_decode(label, nf4_at(d->level), &o.m, entry(file, "deq_double_f32"), DTYPE_F32);
    check_decode(label, nf4_at(d->level), &o.m, entry(file, "deq_double_bf16"), DTYPE_BF16);
    free(absmax);
    matrix_free(&o);
}

Test(nf4, golden_cases)
{
    json_t *cases;
    ok(json_read_file(&cases, TEST_GOLDEN "/nf4/cases.json", 1 << 20));
    json_t *list = json_is_array(cases) ? cases : json_object_get(cases, "cases");
    cr_assert(json_array_size(list) >= 20);
    for (int level = CPU_REF; level <= (int)cpu_level_best(); level++)
        for (int threads = 1; threads <= 3; threads += 2) {
            device *d = open_at((cpu_level)level, threads);
            for (size_t i = 0; i < json_array_size(list); i++) {
                const char *name = json_string_value(json_object_get(json_array_get(list, i), "file"));
                char label[128];
                safetensors file;
                snprintf(label, sizeof label, "%s, level %s, %d threads", name, cpu_level_name((cpu_level)level), threads);
                golden_open(&file, name);
                check_single(d, label, &file);
                check_double(d, label, &file);
                safetensors_close(&file);
            }
            device_close(d);
        }
    json_decref(cases);
}

Test(nf4, tables)
{
    safetensors file;
    golden_open(&file, "tables.safetensors");
    same_bytes("tables", "levels", nf4_levels, entry(&file, "nf4"));
    same_bytes("tables", "midpoints", nf4_midpoints, entry(&file, "nf4_midpoints"));
    same_bytes("tables", "dynamic map", nf4_dynamic_map(), entry(&file, "dynamic_signed"));
    safetensors_close(&file);
    file_hash *hash;
    char hex[SHA256_HEX_BYTES];
    ok(file_hash_open(&hash));
    file_hash_put(hash, nf4_dynamic_map(), 256 * sizeof(float));
    file_hash_end(hash, hex);
    cr_assert_str_eq(hex, "e732639a65f497b4ad684bb166a4467708255edd5207757de8b8f0c7e1fda89c"); /* shared/FACTS.md B1 */
}

/* The 8-bit codes alone, on values that are no absmax of anything. */
Test(nf4, dynamic_codes)
{
    safetensors file;
    golden_open(&file, "dyn8.safetensors");
    const safetensors_entry *input = entry(&file, "signed.input"), *codes = entry(&file, "signed.q");
    owned o = matrix_new(1, input->count * NF4_BLOCK, true);
    device *d = open_at(CPU_REF, 2);
    nf4_quantize_scales(d, &o.m, input->data, input->count, 0.0f);
    same_bytes("dyn8", "signed.q", o.m.absmax, codes);
    same_bytes("dyn8", "signed.absmax", o.m.scale, entry(&file, "signed.absmax"));
    device_close(d);
    matrix_free(&o);
    safetensors_close(&file);
}

/* ---- a checkpoint that bitsandbytes wrote ---- */

typedef struct layer_case {
    const char *name;
    int64_t rows, cols;
    dtype stored;
} layer_case;

static void *file_copy(const safetensors *file, const char *layer, const char *suffix)
{
    char name[128];
    snprintf(name, sizeof name, "layer.%s.%s", layer, suffix);
    const safetensors_entry *e = entry(file, name);
    void *copy = malloc(e->bytes);
    cr_assert_not_null(copy);
    return memcpy(copy, e->data, e->bytes);
}

static float nested_offset(const safetensors *file, const char *layer)
{
    char name[128];
    snprintf(name, sizeof name, "layer.%s.weight.quant_state.bitsandbytes__nf4", layer);
    const safetensors_entry *e = entry(file, name);
    json_t *state;
    double offset;
    ok(json_parse(&state, e->data, e->bytes, name));
    ok(json_get_double(&offset, state, "nested_offset", 0.0, name));
    json_decref(state);
    return (float)offset;
}

static void check_layer(const safetensors *file, const safetensors *expected, const layer_case *layer)
{
    char name[128];
    nf4_matrix m = {0};
    m.rows = layer->rows;
    m.cols = layer->cols;
    m.double_quant = strcmp(layer->name, "d") != 0;
    m.codes = file_copy(file, layer->name, "weight");
    m.scale = file_copy(file, layer->name, m.double_quant ? "weight.nested_absmax" : "weight.absmax");
    if (m.double_quant) {
        m.absmax = file_copy(file, layer->name, "weight.absmax");
        m.map = file_copy(file, layer->name, "weight.nested_quant_map");
        m.offset = nested_offset(file, layer->name);
    }
    for (int level = CPU_REF; level <= (int)cpu_level_best(); level++) {
        snprintf(name, sizeof name, "layer.%s.weight", layer->name);
        check_decode(name, nf4_at((cpu_level)level), &m, entry(expected, name), DTYPE_F32);
        snprintf(name, sizeof name, "layer.%s.weight.in_stored_dtype", layer->name);
        if (layer->stored == DTYPE_BF16) check_decode(name, nf4_at((cpu_level)level), &m, entry(expected, name), DTYPE_BF16);
    }
    free(m.codes);
    free(m.scale);
    free(m.absmax);
    free(m.map);
}

Test(nf4, bitsandbytes_checkpoint)
{
    static const layer_case layers[] = {{"a", 64, 128, DTYPE_BF16}, {"b", 48, 100, DTYPE_F16}, {"c", 320, 64, DTYPE_F32}, {"d", 32, 64, DTYPE_BF16}};
    safetensors file, expected;
    golden_open(&file, "bnb4bit.safetensors");
    golden_open(&expected, "bnb4bit_expected.safetensors");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) check_layer(&file, &expected, &layers[i]);
    safetensors_close(&file);
    safetensors_close(&expected);
}

/* ---- cases ---- */

static void floats_of(float *out, json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) out[i] = (float)json_number_value(json_array_get(list, i));
}

static void check_c11_block(device *d, json_t *block)
{
    json_t *input = json_object_get(block, "input"), *restored = json_object_get(block, "dequantized");
    const char *hex = json_string_value(json_object_get(block, "packed_hex"));
    size_t n = json_array_size(input);
    float values[NF4_BLOCK], out[NF4_BLOCK];
    cr_assert_eq(n, NF4_BLOCK);
    floats_of(values, input);
    owned o = matrix_new(1, NF4_BLOCK, false);
    ok(nf4_quantize(d, &o.m, values, DTYPE_F32, NULL));
    for (int i = 0; i < NF4_BLOCK_BYTES; i++) {
        unsigned byte;
        cr_assert_eq(sscanf(hex + 2 * i, "%2x", &byte), 1);
        cr_assert_eq(o.m.codes[i], byte, "byte %d is %02x, not %02x", i, o.m.codes[i], byte);
    }
    nf4_operand(d, &o.m).decode(&o.m, 0, NF4_BLOCK, out, DTYPE_F32);
    cr_assert_eq(json_array_size(restored), n);
    for (size_t i = 0; i < n; i++) {
        double want = json_number_value(json_array_get(restored, i));
        cr_assert(fabs(want - (double)out[i]) <= TOLERANCE_NF4_RESTORED, "value %zu is %.9g, not %.9g", i, (double)out[i], want);
    }
    matrix_free(&o);
}

Test(nf4, c11_codes)
{
    json_t *c;
    ok(json_read_file(&c, TEST_GOLDEN "/cases/c11_nf4_codes.json", 1 << 20));
    json_t *blocks = json_object_get(c, "blocks");
    cr_assert_eq(json_array_size(blocks), 2);
    for (int level = CPU_REF; level <= (int)cpu_level_best(); level++) {
        device *d = open_at((cpu_level)level, 1);
        for (size_t i = 0; i < 2; i++) check_c11_block(d, json_array_get(blocks, i));
        device_close(d);
    }
    json_decref(c);
}

static void check_c13_case(device *d, json_t *item)
{
    json_t *list = json_object_get(item, "absmax"), *codes = json_object_get(item, "absmax8"), *restored = json_object_get(item, "restored");
    int64_t blocks = (int64_t)json_array_size(list);
    owned o = matrix_new(1, blocks * NF4_BLOCK, true);
    /* Blocks with one value each, so that this value is the absmax. */
    float *values = calloc((size_t)(blocks * NF4_BLOCK), sizeof *values), *absmax = malloc((size_t)blocks * sizeof *absmax);
    for (int64_t i = 0; i < blocks; i++) values[i * NF4_BLOCK + 5] = (float)json_number_value(json_array_get(list, (size_t)i));
    ok(nf4_quantize(d, &o.m, values, DTYPE_F32, absmax));
    cr_assert_eq((size_t)blocks, json_array_size(codes));
    for (int64_t i = 0; i < blocks; i++) {
        /* The file has bitsandbytes' CPU codes, which are not always the nearest ones: ours are, so no error may be larger than the file's. */
        double true_value = (double)absmax[i], file = json_number_value(json_array_get(restored, (size_t)i)), ours = (double)nf4_block_scale(&o.m, i);
        cr_assert(fabs(ours - true_value) <= fabs(file - true_value) + TOLERANCE_NF4_RESTORED * true_value);
        if (o.m.absmax[i] == json_integer_value(json_array_get(codes, (size_t)i)))
            cr_assert(fabs(ours - file) <= TOLERANCE_NF4_RESTORED);
        else
            cr_assert(fabs(ours - true_value) < fabs(file - true_value), "block %lld: another code and no smaller error", (long long)i);
    }
    free(values);
    free(absmax);
    matrix_free(&o);
}

Test(nf4, c13_double_quant)
{
    json_t *c;
    ok(json_read_file(&c, TEST_GOLDEN "/cases/c13_double_quant.json", 1 << 20));
    json_t *map = json_object_get(c, "code8"), *cases = json_object_get(c, "cases");
    for (size_t i = 0; i < 256; i++) cr_assert_eq((float)json_number_value(json_array_get(map, i)), nf4_dynamic_map()[i]);
    cr_assert(json_array_size(cases) >= 2);
    device *d = open_at(CPU_REF, 1);
    for (size_t i = 0; i < json_array_size(cases); i++) check_c13_case(d, json_array_get(cases, i));
    device_close(d);
    json_decref(c);
    /* The sizes of the case: 4.126953125 bits a weight. */
    cr_assert_eq(nf4_codes_bytes(16777216), 8388608);
    cr_assert_eq(nf4_blocks(16777216), 262144);
    cr_assert_eq(nf4_superblocks(16777216) * 4, 4096);
    cr_assert_eq(nf4_total_bytes(16777216, true), 8388608 + 262144 + 4096);
    cr_assert_eq((double)nf4_total_bytes(16777216, true) * 8.0 / 16777216.0, 4.126953125);
    cr_assert_eq(nf4_total_bytes(16777216, false), 8388608 + 262144 * 4);
}

Test(nf4, c17_sizes_are_64_bit)
{
    int64_t n = ((int64_t)1 << 31) + 64;
    cr_assert_eq(nf4_blocks(n), 33554433);
    cr_assert_eq(nf4_codes_bytes(n), 1073741856u);
    cr_assert_eq(nf4_superblocks(n), 131073);
    cr_assert_eq(nf4_blocks(0), 0);
    cr_assert_eq(nf4_blocks(1), 1);
    cr_assert_eq(nf4_codes_bytes(1), 1);
    cr_assert_eq(nf4_blocks(INT64_MAX), INT64_MAX / 64 + 1);
    cr_assert_eq(nf4_codes_bytes(INT64_MAX), (size_t)INT64_MAX / 2 + 1);
}

/* The last blocks of a matrix above 2^31 values, through indexes that do not fit in 32 bits. Only touched pages need memory. */
Test(nf4, c17_decode_and_quantize_far_out)
{
    int64_t n = ((int64_t)1 << 31) + 64, last = n - NF4_BLOCK;
    size_t bytes = nf4_codes_bytes(n), scale_bytes = (size_t)nf4_blocks(n) * sizeof(float);
    nf4_matrix m = {0};
    m.rows = n / 64;
    m.cols = 64;
    m.codes = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    m.scale = mmap(NULL, scale_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if ((void *)m.codes == MAP_FAILED || (void *)m.scale == MAP_FAILED) cr_skip_test("skipped: the system maps no 1 GiB");
    float values[NF4_BLOCK], out[NF4_BLOCK];
    for (int i = 0; i < NF4_BLOCK; i++) values[i] = nf4_levels[(i * 7 + 3) % 16] * 0.5f;
    for (int level = CPU_REF; level <= (int)cpu_level_best(); level++) {
        const nf4_table *t = nf4_at((cpu_level)level);
        cr_assert_eq(t->quantize_blocks(m.codes, m.scale, values, last, NF4_BLOCK), -1);
        t->decode(&m, last, NF4_BLOCK, out, DTYPE_F32);
        cr_assert_arr_eq(out, values, sizeof values);
        values[9] = NAN;
        cr_assert_eq(t->quantize_blocks(m.codes, m.scale, values, last, NF4_BLOCK), last + 9);
        values[9] = nf4_levels[(9 * 7 + 3) % 16] * 0.5f;
    }
    munmap(m.codes, bytes);
    munmap(m.scale, scale_bytes);
}

/* ---- errors and corners ---- */

static void check_refused(device *d, dtype type, int64_t n, int64_t at, float bad)
{
    uint16_t *halves = calloc((size_t)n, sizeof *halves);
    float *floats = calloc((size_t)n, sizeof *floats), *absmax = malloc((size_t)nf4_blocks(n) * sizeof *absmax);
    owned o = matrix_new(n / 10, 10, true);
    char number[64], column[64];
    floats[at] = bad;
    halves[at] = type == DTYPE_BF16 ? f32_to_bf16(bad) : f32_to_f16(bad);
    if (at + 100 < n) floats[at + 100] = NAN, halves[at + 100] = 0x7fff; /* the first one is told */
    qlft_status status = nf4_quantize(d, &o.m, type == DTYPE_F32 ? (void *)floats : (void *)halves, type, absmax);
    snprintf(number, sizeof number, "value %lld ", (long long)at);
    snprintf(column, sizeof column, "(row %lld, column %lld) is %s", (long long)(at / 10), (long long)(at % 10), isnan(bad) ? "NaN" : "infinite");
    cr_assert_eq(status, QLFT_EFORMAT);
    cr_assert(strstr(qlft_last_error(), number) && strstr(qlft_last_error(), column), "%s", qlft_last_error());
    matrix_free(&o);
    free(halves);
    free(floats);
    free(absmax);
}

Test(nf4, nan_and_infinity_are_refused)
{
    static const int64_t places[] = {0, 63, 64, 20000, 49999};
    for (int level = CPU_REF; level <= (int)cpu_level_best(); level++) {
        device *d = open_at((cpu_level)level, 2);
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            check_refused(d, DTYPE_F32, 50000, places[i], NAN);
            check_refused(d, DTYPE_F32, 50000, places[i], -INFINITY);
            check_refused(d, DTYPE_BF16, 50000, places[i], INFINITY);
            check_refused(d, DTYPE_F16, 50000, places[i], NAN);
        }
        device_close(d);
    }
}

/* absmax below 2^-128, whose reciprocal is infinite: zeros stay zeros and no level differs. */
Test(nf4, subnormal_blocks)
{
    float values[NF4_BLOCK] = {0}, out[NF4_BLOCK];
    values[1] = 0x1p-140f;
    values[2] = -0x1p-140f;
    values[3] = 0x1p-141f;
    for (int level = CPU_REF; level <= (int)cpu_level_best(); level++) {
        device *d = open_at((cpu_level)level, 1);
        owned o = matrix_new(1, NF4_BLOCK, false);
        ok(nf4_quantize(d, &o.m, values, DTYPE_F32, NULL));
        nf4_at((cpu_level)level)->decode(&o.m, 0, NF4_BLOCK, out, DTYPE_F32);
        cr_assert_eq(out[0], 0.0f);
        cr_assert_eq(out[1], 0x1p-140f);
        cr_assert_eq(out[2], -0x1p-140f);
        /* the code of 0.4407: 0.5 lies below the midpoint 0.50166 */
        cr_assert(fabs((double)out[3] - 0.4407098 * 0x1p-140) <= 0x1p-149);
        cr_assert_eq(out[63], 0.0f);
        matrix_free(&o);
        device_close(d);
    }
}

/* Subnormal values survive the rounding to BF16 (vcvtneps2bf16 would flush them). */
Test(nf4, subnormal_values_as_bf16)
{
    float values[NF4_BLOCK] = {0}, wide[NF4_BLOCK];
    uint16_t out[NF4_BLOCK];
    values[0] = 0x1.8p-127f;
    values[1] = -0x1.2p-129f;
    for (int level = CPU_REF; level <= (int)cpu_level_best(); level++) {
        device *d = open_at((cpu_level)level, 1);
        owned o = matrix_new(1, NF4_BLOCK, false);
        ok(nf4_quantize(d, &o.m, values, DTYPE_F32, NULL));
        nf4_at((cpu_level)level)->decode(&o.m, 0, NF4_BLOCK, wide, DTYPE_F32);
        nf4_at((cpu_level)level)->decode(&o.m, 0, NF4_BLOCK, out, DTYPE_BF16);
        cr_assert(wide[1] < 0.0f && wide[1] > -0x1p-126f);
        for (int i = 0; i < NF4_BLOCK; i++) cr_assert_eq(out[i], f32_to_bf16(wide[i]), "value %d", i);
        matrix_free(&o);
        device_close(d);
    }
}

/* A source in a mapped file may lie at any byte. */
Test(nf4, unaligned_source)
{
    enum { VALUES = 1000 };
    static unsigned char bytes[VALUES * 4 + 1];
    float values[VALUES];
    for (int i = 0; i < VALUES; i++) values[i] = sinf((float)i);
    memcpy(bytes + 1, values, sizeof values);
    device *d = open_at(cpu_level_best(), 1);
    owned a = matrix_new(1, VALUES, false), b = matrix_new(1, VALUES, false);
    ok(nf4_quantize(d, &a.m, values, DTYPE_F32, NULL));
    ok(nf4_quantize(d, &b.m, bytes + 1, DTYPE_F32, NULL));
    cr_assert_arr_eq(a.m.codes, b.m.codes, nf4_codes_bytes(VALUES));
    matrix_free(&a);
    matrix_free(&b);
    device_close(d);
}
