#include "lora/gguf_lora.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static qlft_status check_a(const linear *l, const float *a)
{
    for (int64_t i = 0; i < l->rank * l->in; i++)
        if (!isfinite(a[i])) return status_fail(QLFT_ENUMERIC, "lora_A of %s is not finite; the adapter is not written", l->name);
    return QLFT_OK;
}

static qlft_status copy_b(float *out, const gguf_lora_module *m, const float *b)
{
    const linear *l = m->l;
    int64_t size = m->permuted_heads ? l->out / m->permuted_heads : 0;
    bool learned = false;
    for (int64_t row = 0; row < l->out; row++) {
        int64_t to = size ? gguf_pair_row(row, size) : row;
        for (int r = 0; r < l->rank; r++) {
            float value = b[row * l->rank + r];
            if (!isfinite(value)) return status_fail(QLFT_ENUMERIC, "lora_B of %s is not finite; the adapter is not written", l->name);
            learned = learned || value != 0.0f;
            out[to * l->rank + r] = value;
        }
    }
    return learned ? QLFT_OK : status_fail(QLFT_ENUMERIC, "lora_B of %s is all zero: the adapter would do nothing there, so it is not written", l->name);
}

qlft_status gguf_lora_write(const char *path, const char *architecture, const gguf_lora_module *modules, int count, const float *master, double scale, int rank)
{
    qlft_status status = QLFT_OK;
    int64_t rows = 0, at = 0;
    for (int i = 0; i < count; i++) rows += modules[i].l->out;
    float *b = malloc((size_t)(rows * rank) * sizeof *b);
    gguf_out_tensor *tensors = calloc(2 * (size_t)count, sizeof *tensors);
    char(*names)[112] = calloc(2 * (size_t)count, sizeof *names);
    if (!b || !tensors || !names) {
        status = status_fail(QLFT_ENOMEM, "out of memory for %d adapter modules", count);
        goto done;
    }
    for (int i = 0; i < count; i++) {
        const linear *l = modules[i].l;
        if ((status = check_a(l, master + l->offset)) != QLFT_OK) goto done;
        if ((status = copy_b(b + at, &modules[i], master + l->offset + l->rank * l->in)) != QLFT_OK) goto done;
        snprintf(names[2 * i], sizeof names[0], "%s.lora_a", modules[i].name);
        snprintf(names[2 * i + 1], sizeof names[0], "%s.lora_b", modules[i].name);
        tensors[2 * i] = (gguf_out_tensor){names[2 * i], DTYPE_F32, 2, {l->rank, l->in}, master + l->offset};
        tensors[2 * i + 1] = (gguf_out_tensor){names[2 * i + 1], DTYPE_F32, 2, {l->out, l->rank}, b + at};
        at += l->out * l->rank;
    }
    const gguf_out_value values[] = {{"general.architecture", GGUF_STRING, architecture, 0},
                                     {"general.type", GGUF_STRING, "adapter", 0},
                                     {"general.name", GGUF_STRING, "qlft adapter", 0},
                                     {"adapter.type", GGUF_STRING, "lora", 0},
                                     {"adapter.lora.alpha", GGUF_F32, NULL, scale * rank}};
    status = gguf_write(path, values, (int)(sizeof values / sizeof values[0]), tensors, 2 * count);
done:
    free(b);
    free(tensors);
    free(names);
    return status;
}
