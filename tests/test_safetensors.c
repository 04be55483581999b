/* core/safetensors.c. The oracles: a file as the safetensors package writes it (golden/make_gguf.py), the headers of golden/cases,
 * and the formulas of the OCP 8-bit formats. */
#include "temporary.h"

#include <fcntl.h>

#include "core/json.h"
#include "core/safetensors.h"

TestSuite(safetensors, .init = make_folder, .fini = drop_folder);

static void write_safetensors(const char *path, const char *header, size_t data_bytes)
{
    uint64_t length = strlen(header);
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(&length, 8, 1, file) == 1 && fwrite(header, 1, length, file) == length);
    for (size_t i = 0; i < data_bytes; i++) fputc(0, file);
    cr_assert_eq(fclose(file), 0);
}

/* Reads every value, so that a sanitizer sees a range that leaves the map. */
static void touch(const safetensors *s)
{
    for (int i = 0; i < s->count; i++) {
        const safetensors_entry *e = &s->entries[i];
        float *out = malloc((size_t)e->count * sizeof *out + 1);
        qlft_status status = safetensors_to_f32(out, e, 0, e->count);
        cr_assert(status == QLFT_OK || status == QLFT_EUNSUPPORTED, "%s", qlft_last_error());
        free(out);
        cr_assert_eq(safetensors_find(s, e->name), e);
    }
}

Test(safetensors, case_c01_headers)
{
    json_t *cases;
    OK(json_read_file(&cases, TEST_GOLDEN "/cases/c01_headers.json", 1 << 20));
    int accepted = 0, rejected = 0;
    size_t i;
    json_t *one;
    json_array_foreach(cases, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name")), *must = json_string_value(json_object_get(one, "must"));
        write_safetensors(in("c01.safetensors"), json_string_value(json_object_get(one, "header")),
                          (size_t)json_integer_value(json_object_get(one, "data_bytes")));
        safetensors s;
        qlft_status status = safetensors_open(&s, in("c01.safetensors"));
        if (strcmp(must, "accept") == 0) {
            cr_assert_eq(status, QLFT_OK, "%s: %s", name, qlft_last_error());
            touch(&s);
            safetensors_close(&s);
            accepted++;
        } else {
            cr_assert_eq(status, QLFT_EFORMAT, "%s", name);
            cr_assert(strstr(qlft_last_error(), "c01.safetensors"), "%s: %s", name, qlft_last_error());
            rejected++;
        }
    }
    cr_assert(accepted == 6 && rejected == 14);
    json_decref(cases);
}

Test(safetensors, more_headers)
{
    static const struct {
        const char *header, *part;
        size_t data_bytes;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,4611686018427387904,4],\"data_offsets\":[0,0]}}", "tensor a", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2,-2],\"data_offsets\":[0,16]}}", "dimension 0", 16},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", "9 dimensions", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551617],\"data_offsets\":[0,4]}}", "line 1", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":7}", "tensor b", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "shape", 4},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", "dtype", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "data_offsets", 4},
        {"{\"__metadata__\":{\"format\":1},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "format", 4},
        {"{\"__metadata__\":[]}", "__metadata__", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} x", "line 1", 4},
        {" {}", "JSON object", 0},
        {"", "JSON object", 0},
        {"{}", "behind the last tensor", 1},
        {"{\"a\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "line 1", 4},
    };
    safetensors s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_safetensors(in("more.safetensors"), cases[i].header, cases[i].data_bytes);
        REFUSED(safetensors_open(&s, in("more.safetensors")), QLFT_EFORMAT, "more.safetensors", cases[i].part);
    }
    OK(file_write_text(in("lfs.safetensors"), "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"));
    REFUSED(safetensors_open(&s, in("lfs.safetensors")), QLFT_EFORMAT, "git lfs pull");
}

/* Two shards and their index, as in case C03. */
static void write_shards(void)
{
    char *index;
    size_t bytes;
    OK(file_read_text(&index, &bytes, TEST_GOLDEN "/cases/c03_index.json", 1 << 20));
    OK(file_write_text(in("model.safetensors.index.json"), index));
    free(index);
    write_safetensors(in("model-00001-of-00002.safetensors"),
                      "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                      "\"model.layers.0.self_attn.q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
                      "\"model.layers.0.mlp.down_proj.weight\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[12,32]}}",
                      32);
    write_safetensors(in("model-00002-of-00002.safetensors"),
                      "{\"model.layers.0.mlp.down_proj.weight\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", 12);
}

Test(safetensors, case_c02_cut_files)
{
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    safetensors s;
    size_t whole = 8 + sizeof header - 1 + 8;
    char real[64], wanted[64];
    snprintf(real, sizeof real, "%zu", whole - 1);
    snprintf(wanted, sizeof wanted, "%zu", whole);
    write_safetensors(in("a.safetensors"), header, 7);
    REFUSED(safetensors_open(&s, in("a.safetensors")), QLFT_EFORMAT, "a.safetensors", "tensor a", real, wanted);
    write_safetensors(in("b.safetensors"), header, 0);
    cr_assert_eq(truncate(in("b.safetensors"), 30), 0);
    REFUSED(safetensors_open(&s, in("b.safetensors")), QLFT_EFORMAT, "b.safetensors", "30");
    static const struct {
        uint64_t length;
        const char *text;
    } lengths[] = {{UINT64_C(1) << 63, "9223372036854775808"}, {200000000, "200000000"}, {UINT64_MAX, "18446744073709551615"}};
    for (size_t i = 0; i < 3; i++) {
        char page[4096] = {0};
        memcpy(page, &lengths[i].length, 8);
        write_bytes(in("c.safetensors"), page, sizeof page);
        REFUSED(safetensors_open(&s, in("c.safetensors")), QLFT_EFORMAT, "c.safetensors", lengths[i].text, "4096");
    }
    write_bytes(in("e.safetensors"), "1234567", 7);
    REFUSED(safetensors_open(&s, in("e.safetensors")), QLFT_EFORMAT, "e.safetensors", "8", "7");
    write_bytes(in("f.safetensors"), "", 0);
    REFUSED(safetensors_open(&s, in("f.safetensors")), QLFT_EFORMAT, "f.safetensors", "8", "0");
    /* A header above the limit of the format, in a file that has it (as a hole on the disk). */
    uint64_t length = 100000001;
    write_bytes(in("h.safetensors"), &length, 8);
    cr_assert_eq(truncate(in("h.safetensors"), 100000200), 0);
    REFUSED(safetensors_open(&s, in("h.safetensors")), QLFT_EFORMAT, "100000001", "100000000");
    write_shards();
    cr_assert_eq(truncate(in("model-00002-of-00002.safetensors"), 60), 0);
    REFUSED(safetensors_open(&s, in("model.safetensors.index.json")), QLFT_EFORMAT, "model-00002-of-00002.safetensors");
}

Test(safetensors, case_c03_shards)
{
    safetensors s;
    write_shards();
    OK(file_write_text(in("model.safetensors"), "a stray that is no safetensors file"));
    OK(safetensors_open(&s, in("model.safetensors.index.json")));
    touch(&s);
    cr_assert_eq(s.count, 3);
    const safetensors_entry *e = safetensors_find(&s, "model.layers.0.mlp.down_proj.weight");
    cr_assert(e && e->count == 3, "the index decides which shard a tensor is read from");
    cr_assert(strstr(s.files[e->file].path, "00002"));
    safetensors_close(&s);

    cr_assert_eq(unlink(in("model-00002-of-00002.safetensors")), 0);
    REFUSED(safetensors_open(&s, in("model.safetensors.index.json")), QLFT_EIO, "model-00002-of-00002.safetensors", "missing");
    write_safetensors(in("model-00002-of-00002.safetensors"), "{\"other\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", 12);
    REFUSED(safetensors_open(&s, in("model.safetensors.index.json")), QLFT_EFORMAT, "model.layers.0.mlp.down_proj.weight", "model-00002-of-00002.safetensors");

    static const struct {
        const char *index, *part;
    } bad[] = {{"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "../x.safetensors"},
               {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "/etc/passwd"},
               {"{\"weight_map\":{\"a\":\"..\"}}", "refused"},
               {"{\"weight_map\":{\"a\":3}}", "tensor a"},
               {"{\"weight_map\":{}}", "weight_map"},
               {"{}", "weight_map"},
               {"{\"weight_map\":{\"a\":\"x\",\"a\":\"y\"}}", "duplicate"},
               {"[]", "object"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        OK(file_write_text(in("bad.index.json"), bad[i].index));
        REFUSED(safetensors_open(&s, in("bad.index.json")), QLFT_EFORMAT, "bad.index.json", bad[i].part);
    }
    write_safetensors(in("model.safetensors"), "{\"b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", 12);
    OK(safetensors_open(&s, in("model.safetensors")));
    cr_assert_null(safetensors_find(&s, "a"));
    safetensors_close(&s);
}

/* Writes what was read, in another order: the reference wrote the file, so its bytes are the oracle. */
Test(safetensors, writer_gives_the_bytes_of_the_reference)
{
    safetensors s;
    OK(safetensors_open(&s, TEST_GOLDEN "/gguf/blocks.safetensors"));
    cr_assert_eq(s.count, 22);
    safetensors_out out[22];
    for (int i = 0; i < s.count; i++) {
        const safetensors_entry *e = &s.entries[(i * 5 + 3) % s.count];
        out[i] = (safetensors_out){.name = e->name, .type = e->type, .rank = e->rank, .data = e->data};
        memcpy(out[i].shape, e->shape, sizeof e->shape);
    }
    char wanted[SHA256_HEX_BYTES], made[SHA256_HEX_BYTES], got[SHA256_HEX_BYTES];
    OK(safetensors_write(in("again.safetensors"), out, s.count, NULL, made));
    OK(file_sha256(wanted, TEST_GOLDEN "/gguf/blocks.safetensors"));
    OK(file_sha256(got, in("again.safetensors")));
    cr_assert_str_eq(got, wanted);
    cr_assert_str_eq(made, wanted);
    out[1] = out[0];
    REFUSED(safetensors_write(in("twice.safetensors"), out, 2, NULL, NULL), QLFT_EARG, out[0].name, "twice");
    out[0].shape[0] = -1;
    REFUSED(safetensors_write(in("twice.safetensors"), out, 1, NULL, NULL), QLFT_EARG, out[0].name);
    out[0].name = "a";
    static const char *const latin[] = {"note", "\xfc", NULL};
    REFUSED(safetensors_write(in("latin.safetensors"), out, 1, latin, NULL), QLFT_ENOMEM, "metadata", "not UTF-8");
    safetensors_close(&s);
    cr_assert_eq(count_files(), 1);
}

Test(safetensors, metadata_and_order)
{
    static const float four[2] = {1.5f, -2.0f};
    static const uint16_t half = 0x3c00;
    static const char *const metadata[] = {"format", "pt", "note", "\"\xc3\xbc", NULL};
    /* As the package wrote it for the same tensors. */
    static const char wanted[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"note\":\"\\\"\xc3\xbc\"},\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
        "\"z\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]},\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[12,14]}}";
    const safetensors_out out[] = {{"z", ST_F32, 0, {0}, four}, {"a", ST_F16, 1, {1}, &half}, {"b", ST_F32, 2, {2, 1}, four}};
    OK(safetensors_write(in("m.safetensors"), out, 3, metadata, NULL));
    file_map map;
    OK(file_map_open(&map, in("m.safetensors")));
    size_t padded = (sizeof wanted - 1 + 7) / 8 * 8;
    cr_assert_eq(map.bytes, 8 + padded + 14);
    cr_assert(map.data[0] == padded % 256 && map.data[1] == padded / 256);
    cr_assert_eq(memcmp(map.data + 8, wanted, sizeof wanted - 1), 0);
    for (size_t i = sizeof wanted - 1; i < padded; i++) cr_assert_eq(map.data[8 + i], ' ');
    file_map_close(&map);
    safetensors s;
    OK(safetensors_open(&s, in("m.safetensors")));
    cr_assert_str_eq(safetensors_metadata(&s, "note"), "\"\xc3\xbc");
    cr_assert_null(safetensors_metadata(&s, "pt"));
    float value;
    OK(safetensors_to_f32(&value, safetensors_find(&s, "b"), 1, 1));
    cr_assert(value == -2.0f);
    REFUSED(safetensors_to_f32(&value, safetensors_find(&s, "b"), 2, 1), QLFT_EARG, "tensor b");
    REFUSED(safetensors_to_f32(&value, safetensors_find(&s, "b"), INT64_MAX, INT64_MAX), QLFT_EARG, "tensor b");
    int64_t whole;
    REFUSED(safetensors_to_i64(&whole, safetensors_find(&s, "b"), 0, 1), QLFT_EUNSUPPORTED, "tensor b", "F32");
    safetensors_close(&s);
}

/* The last values of a file above 4 GiB, which is a hole on the disk but for them. */
Test(safetensors, places_above_4_gib)
{
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2147483648],\"data_offsets\":[0,8589934592]},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8589934592,8589934600]}}";
    static const float last[3] = {1.5f, 2.5f, 3.5f};
    write_safetensors(in("large.safetensors"), header, 0);
    off_t end = (off_t)(8 + sizeof header - 1) + INT64_C(8589934600);
    if (truncate(in("large.safetensors"), end) != 0) cr_skip_test("skipped: no room for a file of 8 GiB with a hole");
    int handle = open(in("large.safetensors"), O_WRONLY);
    cr_assert(handle >= 0 && pwrite(handle, last, sizeof last, end - (off_t)sizeof last) == sizeof last);
    close(handle);
    safetensors s;
    OK(safetensors_open(&s, in("large.safetensors")));
    float got[3];
    OK(safetensors_to_f32(got, safetensors_find(&s, "a"), INT64_C(2147483646), 2));
    OK(safetensors_to_f32(got + 1, safetensors_find(&s, "b"), 0, 2));
    cr_assert(got[0] == 0.0f && got[1] == 2.5f && got[2] == 3.5f);
    OK(safetensors_to_f32(got, safetensors_find(&s, "a"), INT64_C(2147483647), 1));
    cr_assert(got[0] == 1.5f);
    safetensors_forget(&s, safetensors_find(&s, "a"));
    safetensors_close(&s);
    cr_assert_eq(truncate(in("large.safetensors"), end - 1), 0);
    REFUSED(safetensors_open(&s, in("large.safetensors")), QLFT_EFORMAT, "tensor b", "large.safetensors");
}

Test(safetensors, integers_are_widened)
{
    static const int8_t i8[] = {-128, 127};
    static const uint64_t u64[] = {5, UINT64_C(1) << 63};
    static const int32_t i32[] = {INT32_MIN, 7};
    static const uint16_t u16[] = {65535, 1};
    const safetensors_out out[] = {{"i8", ST_I8, 1, {2}, i8}, {"u64", ST_U64, 1, {2}, u64}, {"i32", ST_I32, 1, {2}, i32}, {"u16", ST_U16, 1, {2}, u16}};
    OK(safetensors_write(in("i.safetensors"), out, 4, NULL, NULL));
    safetensors s;
    OK(safetensors_open(&s, in("i.safetensors")));
    int64_t got[2];
    OK(safetensors_to_i64(got, safetensors_find(&s, "i8"), 0, 2));
    cr_assert(got[0] == -128 && got[1] == 127);
    OK(safetensors_to_i64(got, safetensors_find(&s, "i32"), 0, 2));
    cr_assert(got[0] == INT32_MIN && got[1] == 7);
    OK(safetensors_to_i64(got, safetensors_find(&s, "u16"), 0, 2));
    cr_assert(got[0] == 65535 && got[1] == 1);
    OK(safetensors_to_i64(got, safetensors_find(&s, "u64"), 0, 1));
    cr_assert_eq(got[0], 5);
    REFUSED(safetensors_to_i64(got, safetensors_find(&s, "u64"), 0, 2), QLFT_EFORMAT, "u64", "element 1");
    float f[2];
    OK(safetensors_to_f32(f, safetensors_find(&s, "i8"), 0, 2));
    cr_assert(f[0] == -128.0f && f[1] == 127.0f);
    safetensors_close(&s);
}

/* value = +-2^(e - bias) (1 + m / 2^bits), or +-2^(1 - bias) m / 2^bits for e = 0: OCP 8-bit floating point, table 1. */
static double small_float(int code, int exponent_bits, int bias)
{
    int bits = 7 - exponent_bits, exponent = (code & 127) >> bits, mantissa = code & ((1 << bits) - 1);
    double value = exponent ? ldexp(1.0 + ldexp(mantissa, -bits), exponent - bias) : ldexp(mantissa, 1 - bias - bits);
    return code & 128 ? -value : value;
}

Test(safetensors, all_codes_of_8_bit_floats)
{
    uint8_t codes[256];
    for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    const safetensors_out out[] = {{"e4m3", ST_F8_E4M3, 1, {256}, codes}, {"e5m2", ST_F8_E5M2, 1, {256}, codes}};
    OK(safetensors_write(in("f8.safetensors"), out, 2, NULL, NULL));
    safetensors s;
    OK(safetensors_open(&s, in("f8.safetensors")));
    float e4m3[256], e5m2[256];
    OK(safetensors_to_f32(e4m3, safetensors_find(&s, "e4m3"), 0, 256));
    OK(safetensors_to_f32(e5m2, safetensors_find(&s, "e5m2"), 0, 256));
    for (int i = 0; i < 256; i++) {
        int low = i & 127;
        if (low == 127)
            cr_assert(isnan(e4m3[i]));
        else
            cr_assert(e4m3[i] == small_float(i, 4, 7) && !signbit(e4m3[i]) == !(i & 128), "E4M3 %d gives %g", i, (double)e4m3[i]);
        if (low > 124)
            cr_assert(isnan(e5m2[i]));
        else if (low == 124)
            cr_assert(isinf(e5m2[i]) && !signbit(e5m2[i]) == !(i & 128));
        else
            cr_assert(e5m2[i] == small_float(i, 5, 15) && !signbit(e5m2[i]) == !(i & 128), "E5M2 %d gives %g", i, (double)e5m2[i]);
    }
    cr_assert(e4m3[0x7e] == 448.0f && e5m2[0x7b] == 57344.0f);
    safetensors_close(&s);
}

/* Truncations at each byte and a few thousand damaged headers: accepted or refused, never a crash (run it under ASan and UBSan). */
Test(safetensors, damaged_files_do_no_harm)
{
    static const float data[12] = {1, 2, 3};
    const safetensors_out out[] = {{"first", ST_F32, 2, {2, 3}, data}, {"second", ST_F32, 1, {4}, data}, {"third", ST_BF16, 2, {1, 2}, data}};
    static const char *const metadata[] = {"format", "pt", NULL};
    OK(safetensors_write(in("good.safetensors"), out, 3, metadata, NULL));
    file_map good;
    OK(file_map_open(&good, in("good.safetensors")));
    unsigned char *copy = malloc(good.bytes);
    safetensors s;
    for (size_t cut = 0; cut < good.bytes; cut++) {
        write_bytes(in("cut.safetensors"), good.data, cut);
        cr_assert_eq(safetensors_open(&s, in("cut.safetensors")), QLFT_EFORMAT, "cut at %zu", cut);
    }
    uint64_t state = 20261201;
    for (int round = 0; round < 4000; round++) {
        memcpy(copy, good.data, good.bytes);
        for (uint64_t flips = 1 + next_random(&state) % 3; flips > 0; flips--) {
            uint64_t r = next_random(&state);
            if (r & 1)
                copy[r / 16 % (good.bytes - 44)] ^= (unsigned char)(1 << (r >> 40) % 8);
            else
                copy[r / 16 % (good.bytes - 44)] = (unsigned char)("0123456789[]{}\",:-eE. n\\\0"[(r >> 40) % 24]);
        }
        write_bytes(in("bad.safetensors"), copy, good.bytes);
        if (safetensors_open(&s, in("bad.safetensors")) != QLFT_OK) continue;
        touch(&s);
        safetensors_close(&s);
    }
    free(copy);
    file_map_close(&good);
}
