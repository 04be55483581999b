/* qlft export: an adapter in PEFT or GGUF form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lora/gguf_lora.h"
#include "train/export.h"

static void gguf_module(gguf_lora_module *out, const run *r, const linear *l)
{
    tensor_role role = (tensor_role)(l->site % BLOCK_LINEARS);
    int layer = (int)(l->site / BLOCK_LINEARS);
    const arch *kind = r->m->dims.kind;
    const char *pattern = kind->names[role].gguf, *hole = strstr(pattern, "%d");
    out->l = l;
    snprintf(out->name, sizeof out->name, "%.*s%d%s.weight", (int)(hole - pattern), pattern, layer, hole + 2);
    out->permuted_heads = !kind->gguf_permuted ? 0 : role == TENSOR_Q ? r->m->dims.heads : role == TENSOR_K ? r->m->dims.key_heads : 0;
}

qlft_status export_gguf(const run *r, const char *path)
{
    gguf_lora_module *modules = calloc((size_t)r->adapted_count + 1, sizeof *modules);
    if (!modules) return status_fail(QLFT_ENOMEM, "out of memory");
    for (int i = 0; i < r->adapted_count; i++) gguf_module(&modules[i], r, r->adapted[i]);
    qlft_status status =
        gguf_lora_write(path, r->m->dims.kind->gguf_name, modules, r->adapted_count, r->pages.home[0], peft_scale(&r->adapter), r->adapter.rank);
    free(modules);
    return status;
}

/* The adapter's values on the heap: nothing else of the run is needed, so no memory is planned. */
static qlft_status read_values(run *r)
{
    r->pages.home[0] = calloc((size_t)r->m->parameters + 1, sizeof(float));
    if (!r->pages.home[0]) return status_fail(QLFT_ENOMEM, "out of memory for the adapter");
    for (int i = 0; i < r->continued.count; i++)
        QLFT_TRY(peft_read_module(r->pages.home[0], &r->continued, &r->continued.modules[i], model_linear(r->m, r->continued.modules[i].name)));
    return QLFT_OK;
}

static qlft_status export_peft(run *r, const char *folder, char hash[SHA256_HEX_BYTES])
{
    QLFT_TRY(folder_make(folder));
    return peft_write(folder, r->adapted, r->adapted_count, r->m->dims.layers, r->pages.home[0], &r->adapter, r->config->base, false, hash);
}

qlft_status qlft_export(char **json_text, const qlft_config *c, const qlft_observer *observer)
{
    run r;
    char hash[SHA256_HEX_BYTES] = "";
    bool packed = c->adapter_format == ADAPTER_GGUF;
    *json_text = NULL;
    qlft_status status = run_start(&r, c, observer);
    if (status == QLFT_OK) status = run_open_model(&r, RUN_FORWARD);
    if (status == QLFT_OK) status = read_values(&r);
    if (status == QLFT_OK) status = packed ? export_gguf(&r, c->out) : export_peft(&r, c->out, hash);
    if (status == QLFT_OK && packed) status = file_sha256(hash, c->out);
    if (status == QLFT_OK) {
        json_t *summary = json_pack("{s:o, s:s, s:i, s:f, s:s}", "path", json_string_or_null(c->out), "format", packed ? "gguf" : "peft", "tensors",
                                    2 * r.adapted_count, "scale", peft_scale(&r.adapter), "sha256", hash);
        *json_text = summary ? json_dumps(summary, JSON_INDENT(1)) : NULL;
        json_decref(summary);
        if (!*json_text) status = status_fail(QLFT_ENOMEM, "out of memory");
    }
    free(r.pages.home[0]);
    run_close(&r);
    return status;
}
