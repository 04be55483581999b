/* Adapter kinds: a row of adapters[] each. */
#ifndef LORA_ADAPTER_H
#define LORA_ADAPTER_H

#include "lora/linear.h"

#ifdef __cplusplus
extern "C" {
#endif

struct adapter_kind {
    const char *name;      /* "lora" */
    const char *peft_type; /* "LORA" */
    /* FP32 parameters of l. */
    int64_t (*parameters)(const linear *l);
    /* Points a, b, da, db at the flat arrays (weights: compute type). */
    void (*attach)(linear *l, void *weights, dtype type, float *gradients);
    /* Fresh values of l's parameters in the FP32 master. */
    void (*init)(const linear *l, float *master, uint64_t seed);
    /* Computes u from x and gives the term that adds the adapter's part to y. */
    ops_product (*forward)(const linear_context *c, const linear *l, tensor x, tensor u);
    /* Adds to the gradients; writes t [N, R] and gives the term that adds the adapter's part to dx (count of terms: *terms is 0 or 1). */
    ops_product (*backward)(const linear_context *c, linear *l, tensor dy, tensor x, tensor u, tensor t);
    /* With dropout the term of backward is not linear in x alone: adds the masked part to dx instead. */
    void (*backward_dropped)(const linear_context *c, const linear *l, tensor dx, tensor t);
};

extern const adapter_kind *const adapters[];        /* ends with NULL */
const adapter_kind *adapter_find(const char *name); /* NULL if unknown */
extern const adapter_kind adapter_lora;

#ifdef __cplusplus
}
#endif
#endif
