#include "lora/adapter.h"

#include <string.h>

const adapter_kind *const adapters[] = {&adapter_lora, NULL};

const adapter_kind *adapter_find(const char *name)
{
    for (int i = 0; adapters[i]; i++)
        if (strcmp(adapters[i]->name, name) == 0) return adapters[i];
    return NULL;
}
