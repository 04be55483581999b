#include "core/device.h"

#include <stdlib.h>
#include <string.h>

#include "core/device_tables.h"

static const device_table *const tables[] = {&device_cpu};

const device_table *device_find(const char *name)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (strcmp(tables[i]->name, name) == 0) return tables[i];
    return NULL;
}

qlft_status device_open_cpu(device **out, cpu_level level, int threads)
{
    QLFT_TRY(device_cpu.open(out, 0, threads));
    (*out)->level = level;
    void *scratch = NULL;
    qlft_status status = device_cpu.reserve(*out, TIER_DEVICE, (size_t)(*out)->threads * DEVICE_SCRATCH_BYTES, &scratch);
    if (status != QLFT_OK) {
        device_close(*out);
        *out = NULL;
        return status;
    }
    (*out)->scratch = scratch;
    return QLFT_OK;
}

void device_close(device *d)
{
    if (d) d->table->close(d);
}
