/* core/gguf*.c. The oracle: values and files as the `gguf` package dequantizes and writes them (golden/make_gguf.py). */
#include "temporary.h"

#include "core/gguf.h"
#include "core/safetensors.h"

TestSuite(gguf, .init = make_folder, .fini = drop_folder);

/* Decodes every value, so that a sanitizer sees a range that leaves the map. */
static void touch(const gguf *g)
{
    for (int i = 0; i < g->tensor_count; i++) {
        const gguf_tensor *t = &g->tensors[i];
        float *out = malloc((size_t)t->count * sizeof *out);
        OK(gguf_to_f32(out, t, 0, t->count));
        free(out);
        cr_assert_eq(gguf_find_tensor(g, t->name), t);
    }
    unsigned sum = 0;
    for (int i = 0; i < g->value_count; i++) {
        const gguf_value *v = &g->values[i];
        for (uint64_t k = 0; v->strings && k < v->count; k++)
            for (size_t b = 0; b < v->strings[k].bytes; b++) sum += (unsigned char)v->strings[k].text[b];
        int64_t integer;
        double number;
        bool truth;
        gguf_string text;
        (void)!gguf_get_int(&integer, g, v->key, 0);
        (void)!gguf_get_double(&number, g, v->key, 0);
        (void)!gguf_get_bool(&truth, g, v->key, false);
        if (gguf_get_string(&text, g, v->key) == QLFT_OK)
            for (size_t b = 0; b < text.bytes; b++) sum += (unsigned char)text.text[b];
    }
    (void)sum;
}

Test(gguf, every_type_is_dequantized_to_the_bit)
{
    static const char *const names[] = {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"};
    safetensors golden;
    gguf g;
    OK(safetensors_open(&golden, TEST_GOLDEN "/gguf/blocks.safetensors"));
    OK(gguf_open(&g, TEST_GOLDEN "/gguf/small.gguf"));
    cr_assert_eq(g.tensor_count, 11);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.f32", names[i]);
        const safetensors_entry *e = safetensors_find(&golden, name);
        snprintf(name, sizeof name, "t.%s", names[i]);
        const gguf_tensor *t = gguf_find_tensor(&g, name);
        cr_assert(e && t && t->count == e->count);
        cr_assert(t->rank == 2 && t->shape[0] == 1 && t->shape[1] == t->count);
        float wanted[768], got[768 + 2];
        OK(safetensors_to_f32(wanted, e, 0, e->count));
        OK(gguf_to_f32(got, t, 0, t->count));
        cr_assert_eq(memcmp(got, wanted, (size_t)e->count * 4), 0, "%s", names[i]);
        /* Any part, also of blocks, and nothing beyond it. */
        for (int64_t from = 0; from < t->count; from += 7) {
            for (int64_t count = 0; count <= t->count - from; count += 1 + from % 13 + count / 2) {
                got[count] = 12345.0f;
                OK(gguf_to_f32(got, t, from, count));
                cr_assert_eq(memcmp(got, wanted + from, (size_t)count * 4), 0, "%s from %lld", names[i], (long long)from);
                cr_assert_eq(got[count], 12345.0f);
            }
        }
        REFUSED(gguf_to_f32(got, t, 1, t->count), QLFT_EARG, name);
        REFUSED(gguf_to_f32(got, t, INT64_MAX, INT64_MAX), QLFT_EARG, name);
        REFUSED(gguf_to_f32(got, t, -1, 1), QLFT_EARG, name);
        gguf_forget(&g, t);
    }
    cr_assert_null(gguf_type_find(9));
    gguf_close(&g);
    gguf_close(&g);
    safetensors_close(&golden);
}

Test(gguf, values_by_key)
{
    gguf g;
    int64_t i;
    double d;
    bool b;
    gguf_string s;
    OK(gguf_open(&g, TEST_GOLDEN "/gguf/small.gguf"));
    OK(gguf_get_int(&i, &g, "test.u32", 0));
    cr_assert_eq(i, 4000000000);
    OK(gguf_get_int(&i, &g, "test.i16", 0));
    cr_assert_eq(i, -5);
    OK(gguf_get_int(&i, &g, "test.u64", 0));
    cr_assert_eq(i, INT64_C(1) << 40);
    OK(gguf_get_int(&i, &g, "absent", 7));
    cr_assert_eq(i, 7);
    REFUSED(gguf_get_int(&i, &g, "test.f32", 0), QLFT_EFORMAT, "test.f32", "an integer", "f32", "small.gguf");
    REFUSED(gguf_get_int(&i, &g, "test.bool", 0), QLFT_EFORMAT, "test.bool");
    REFUSED(gguf_get_int(&i, &g, "test.ints", 0), QLFT_EFORMAT, "test.ints", "array");
    OK(gguf_get_double(&d, &g, "test.f32", 0));
    cr_assert(d == (double)0.1f);
    OK(gguf_get_double(&d, &g, "test.f64", 0));
    cr_assert(d == 0.1);
    OK(gguf_get_double(&d, &g, "test.i16", 0));
    cr_assert(d == -5.0);
    REFUSED(gguf_get_double(&d, &g, "test.string", 0), QLFT_EFORMAT, "test.string", "a number", "string");
    OK(gguf_get_bool(&b, &g, "test.bool", false));
    cr_assert(b);
    REFUSED(gguf_get_bool(&b, &g, "test.u32", false), QLFT_EFORMAT, "test.u32", "a bool");
    OK(gguf_get_string(&s, &g, "test.string"));
    cr_assert(s.bytes == 8 && memcmp(s.text, "gr\xc3\xbc\xc3\x9f\0e", 8) == 0);
    OK(gguf_get_string(&s, &g, "absent"));
    cr_assert_null(s.text);
    REFUSED(gguf_get_string(&s, &g, "test.u32"), QLFT_EFORMAT, "test.u32", "a string");
    const gguf_value *v = gguf_find(&g, "test.strings");
    cr_assert(v && v->kind == GGUF_ARRAY && v->item == GGUF_STRING && v->count == 3);
    cr_assert(v->strings[0].bytes == 1 && v->strings[1].bytes == 0 && memcmp(v->strings[2].text, "ccc", 3) == 0);
    v = gguf_find(&g, "test.ints");
    int32_t items[3];
    cr_assert(v && v->kind == GGUF_ARRAY && v->item == GGUF_I32 && v->count == 3 && !v->strings);
    memcpy(items, v->data, sizeof items);
    cr_assert(items[0] == 1 && items[1] == -2 && items[2] == 3);
    gguf_close(&g);
}

/* ---- files made by hand ---- */

typedef struct bytes {
    unsigned char data[4096];
    size_t used;
} bytes;

static void put(bytes *b, uint64_t value, int size)
{
    for (int i = 0; i < size; i++) b->data[b->used++] = (unsigned char)(value >> (8 * i));
}

static void put_text(bytes *b, const char *text)
{
    put(b, strlen(text), 8);
    memcpy(b->data + b->used, text, strlen(text));
    b->used += strlen(text);
}

static bytes begin(uint32_t version, uint64_t tensors, uint64_t values)
{
    bytes b = {{0}, 0};
    memcpy(b.data, "GGUF", 4);
    b.used = 4;
    put(&b, version, 4);
    put(&b, tensors, 8);
    put(&b, values, 8);
    return b;
}

static void put_key(bytes *b, const char *key, gguf_kind kind, uint64_t value, int size)
{
    put_text(b, key);
    put(b, (uint64_t)kind, 4);
    put(b, value, size);
}

static void put_tensor(bytes *b, const char *name, int rank, uint64_t first, uint64_t second, uint32_t type, uint64_t offset)
{
    put_text(b, name);
    put(b, (uint64_t)rank, 4);
    for (int i = 0; i < rank; i++) put(b, i == 0 ? first : i == 1 ? second : 1, 8);
    put(b, type, 4);
    put(b, offset, 8);
}

/* Adds the space for data and opens it. */
static qlft_status open_bytes(gguf *g, const bytes *b, size_t alignment, size_t data_bytes)
{
    unsigned char whole[8192] = {0};
    size_t start = (b->used + alignment - 1) / alignment * alignment;
    memcpy(whole, b->data, b->used);
    write_bytes(in("made.gguf"), whole, start + data_bytes);
    return gguf_open(g, in("made.gguf"));
}

Test(gguf, frames)
{
    gguf g;
    for (uint32_t version = 2; version <= 3; version++) {
        bytes b = begin(version, 1, 1);
        put_key(&b, "general.alignment", GGUF_U32, 64, 4);
        put_tensor(&b, "t", 2, 3, 2, 0, 64);
        OK(open_bytes(&g, &b, 64, 64 + 24));
        cr_assert(g.tensors[0].shape[0] == 2 && g.tensors[0].shape[1] == 3 && g.tensors[0].count == 6, "the file has the innermost extent first");
        cr_assert_eq((size_t)(g.tensors[0].data - g.map.data) % 64, 0);
        gguf_close(&g);
        REFUSED(open_bytes(&g, &b, 64, 64 + 23), QLFT_EFORMAT, "tensor t", "cut short", "made.gguf");
    }
    bytes b = begin(1, 0, 0);
    REFUSED(open_bytes(&g, &b, 1, 0), QLFT_EUNSUPPORTED, "version 1");
    b = begin(4, 0, 0);
    REFUSED(open_bytes(&g, &b, 1, 0), QLFT_EUNSUPPORTED, "version 4");
    b = begin(0x03000000, 0, 0);
    REFUSED(open_bytes(&g, &b, 1, 0), QLFT_EUNSUPPORTED, "big-endian");
    b.data[0] = 'g';
    REFUSED(open_bytes(&g, &b, 1, 0), QLFT_EFORMAT, "not a GGUF file");
    b = begin(3, 0, 1);
    put_key(&b, "split.count", GGUF_U16, 3, 2);
    REFUSED(open_bytes(&g, &b, 1, 0), QLFT_EUNSUPPORTED, "split.count", "3 parts");
    write_bytes(in("empty.gguf"), "", 0);
    REFUSED(gguf_open(&g, in("empty.gguf")), QLFT_EFORMAT, "empty.gguf");
    REFUSED(gguf_open(&g, in("absent.gguf")), QLFT_EIO, "absent.gguf");
}

Test(gguf, counts_and_lengths_are_not_believed)
{
    static const uint64_t huge[] = {1000, UINT64_C(1) << 31, UINT64_C(1) << 60, UINT64_MAX};
    gguf g;
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        bytes b = begin(3, huge[i], 0);
        REFUSED(open_bytes(&g, &b, 1, 200), QLFT_EFORMAT, "tensors", "made.gguf");
        b = begin(3, 0, huge[i]);
        REFUSED(open_bytes(&g, &b, 1, 200), QLFT_EFORMAT, "keys");
        b = begin(3, 0, 1);
        put(&b, huge[i], 8);
        REFUSED(open_bytes(&g, &b, 1, 200), QLFT_EFORMAT, "made.gguf");
        b = begin(3, 0, 1);
        put_key(&b, "k", GGUF_STRING, huge[i], 8);
        REFUSED(open_bytes(&g, &b, 1, 200), QLFT_EFORMAT, "made.gguf");
        for (int item = GGUF_U8; item < GGUF_KINDS; item++) {
            b = begin(3, 0, 1);
            put_key(&b, "k", GGUF_ARRAY, (uint64_t)item, 4);
            put(&b, huge[i], 8);
            REFUSED(open_bytes(&g, &b, 1, 200), item == GGUF_ARRAY ? QLFT_EUNSUPPORTED : QLFT_EFORMAT, "made.gguf");
        }
    }
    bytes b = begin(3, 0, 1);
    put_key(&b, "k", (gguf_kind)13, 0, 8);
    REFUSED(open_bytes(&g, &b, 1, 0), QLFT_EFORMAT, "key k", "13");
    b = begin(3, 0, 1);
    put_key(&b, "k", GGUF_BOOL, 2, 1);
    REFUSED(open_bytes(&g, &b, 1, 0), QLFT_EFORMAT, "key k", "bool");
    b = begin(3, 0, 2);
    put_key(&b, "k", GGUF_BOOL, 1, 1);
    put_key(&b, "k", GGUF_BOOL, 1, 1);
    REFUSED(open_bytes(&g, &b, 1, 0), QLFT_EFORMAT, "key k", "twice");
    static const uint64_t alignments[] = {0, 3, 48};
    for (size_t i = 0; i < 3; i++) {
        b = begin(3, 0, 1);
        put_key(&b, "general.alignment", GGUF_U32, alignments[i], 4);
        REFUSED(open_bytes(&g, &b, 1, 64), QLFT_EFORMAT, "general.alignment", "power of two");
    }
}

Test(gguf, tensors_are_checked)
{
    static const struct {
        int rank;
        uint64_t first, second;
        uint32_t type;
        uint64_t offset;
        qlft_status code;
        const char *part;
    } cases[] = {
        {5, 1, 1, 0, 0, QLFT_EFORMAT, "5 dimensions"},
        {1, 0, 1, 0, 0, QLFT_EFORMAT, "dimension 0"},
        {2, 8, 0, 0, 0, QLFT_EFORMAT, "dimension 1"},
        {1, UINT64_MAX, 1, 0, 0, QLFT_EFORMAT, "too large"},
        {2, UINT64_C(1) << 32, UINT64_C(1) << 32, 0, 0, QLFT_EFORMAT, "too large"},
        {2, UINT64_C(1) << 31, UINT64_C(1) << 31, 0, 0, QLFT_EFORMAT, "tensor t"},
        {1, 8, 1, 0, 4, QLFT_EFORMAT, "multiple of 32"},
        {1, 8, 1, 0, 64, QLFT_EFORMAT, "cut short"},
        {1, 8, 1, 0, UINT64_MAX - 31, QLFT_EFORMAT, "cut short"},
        {1, 33, 1, 8, 0, QLFT_EFORMAT, "Q8_0"},
        {2, 16, 2, 2, 0, QLFT_EFORMAT, "blocks of 32"},
        {1, 32, 1, 12, 0, QLFT_EFORMAT, "blocks of 256"},
        {1, 256, 1, 20, 0, QLFT_EUNSUPPORTED, "IQ4_NL"},
        {1, 256, 1, 10, 0, QLFT_EUNSUPPORTED, "Q2_K"},
        {1, 256, 1, 4, 0, QLFT_EUNSUPPORTED, "(4)"},
        {1, 256, 1, UINT32_MAX, 0, QLFT_EUNSUPPORTED, "4294967295"},
    };
    gguf g;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = begin(3, 1, 0);
        put_tensor(&b, "t", cases[i].rank, cases[i].first, cases[i].second, cases[i].type, cases[i].offset);
        REFUSED(open_bytes(&g, &b, 32, 64), cases[i].code, "made.gguf", "tensor t", cases[i].part);
    }
    bytes b = begin(3, 2, 0);
    put_tensor(&b, "a", 1, 9, 1, 0, 0);
    put_tensor(&b, "b", 1, 8, 1, 0, 32);
    REFUSED(open_bytes(&g, &b, 32, 128), QLFT_EFORMAT, "tensor b", "overlaps tensor a");
    b = begin(3, 2, 0);
    put_tensor(&b, "a", 1, 8, 1, 0, 0);
    put_tensor(&b, "a", 1, 8, 1, 0, 32);
    REFUSED(open_bytes(&g, &b, 32, 128), QLFT_EFORMAT, "tensor a", "twice");
}

/* Truncations at each byte and a few thousand flipped bits: accepted or refused, never a crash (run it under ASan and UBSan). */
Test(gguf, damaged_files_do_no_harm)
{
    file_map good;
    gguf g;
    OK(file_map_open(&good, TEST_GOLDEN "/gguf/small.gguf"));
    unsigned char *copy = malloc(good.bytes);
    int accepted = 0;
    for (size_t cut = 0; cut < good.bytes; cut++) {
        write_bytes(in("bad.gguf"), good.data, cut);
        if (gguf_open(&g, in("bad.gguf")) != QLFT_OK) continue;
        touch(&g);
        gguf_close(&g);
        accepted++;
    }
    /* Only the padding behind the last tensor may be missing: 630 bytes of Q6_K end 10 bytes before a multiple of 32. */
    cr_assert_eq(accepted, 10);
    uint64_t state = 20261201;
    for (int round = 0; round < 4000; round++) {
        memcpy(copy, good.data, good.bytes);
        for (uint64_t flips = 1 + next_random(&state) % 3; flips > 0; flips--) {
            uint64_t r = next_random(&state);
            copy[r / 16 % 900] ^= (unsigned char)(1 << (r >> 40) % 8);
        }
        write_bytes(in("bad.gguf"), copy, good.bytes);
        if (gguf_open(&g, in("bad.gguf")) != QLFT_OK) continue;
        touch(&g);
        gguf_close(&g);
    }
    free(copy);
    file_map_close(&good);
}

Test(gguf, writer_gives_the_bytes_of_the_reference)
{
    float a[32];
    uint16_t b[6], c[24];
    for (int i = 0; i < 32; i++) a[i] = (float)i / 4;
    for (int i = 0; i < 6; i++) b[i] = f32_to_f16((float)-i);
    for (int i = 0; i < 24; i++) c[i] = f32_to_bf16((float)i);
    b[0] = 0; /* the script negates an integer 0 */
    gguf_out_value values[] = {{"general.architecture", GGUF_STRING, "llama", 0},
                               {"general.type", GGUF_STRING, "adapter", 0},
                               {"adapter.type", GGUF_STRING, "lora", 0},
                               {"adapter.lora.alpha", GGUF_F32, NULL, 0.1},
                               {"llama.block_count", GGUF_U32, NULL, 4000000000.0}};
    gguf_out_tensor tensors[] = {
        {"blk.0.attn_q.weight.lora_a", DTYPE_F32, 2, {4, 8}, a}, {"blk.0.attn_q.weight.lora_b", DTYPE_F16, 2, {2, 3}, b}, {"c", DTYPE_BF16, 3, {2, 3, 4}, c}};
    OK(gguf_write(in("adapter.gguf"), values, 5, tensors, 3));
    char got[SHA256_HEX_BYTES], wanted[SHA256_HEX_BYTES];
    OK(file_sha256(got, in("adapter.gguf")));
    OK(file_sha256(wanted, TEST_GOLDEN "/gguf/adapter.gguf"));
    cr_assert_str_eq(got, wanted);

    values[4].number = 4294967296.0;
    REFUSED(gguf_write(in("bad.gguf"), values, 5, tensors, 3), QLFT_EARG, "llama.block_count");
    values[4].number = 0.5;
    REFUSED(gguf_write(in("bad.gguf"), values, 5, tensors, 3), QLFT_EARG, "llama.block_count");
    tensors[0].type = DTYPE_I32;
    REFUSED(gguf_write(in("bad.gguf"), values, 4, tensors, 3), QLFT_EARG, "blk.0.attn_q.weight.lora_a");
    tensors[0].type = DTYPE_F32;
    tensors[0].name = "a.name.of.sixty.four.bytes.that.llama.cpp.has.no.room.for.at.all";
    cr_assert_eq(strlen(tensors[0].name), 64);
    REFUSED(gguf_write(in("bad.gguf"), values, 4, tensors, 3), QLFT_EARG, "63");
    cr_assert(!file_exists(in("bad.gguf")));
}
