/* Counter-based random numbers (Philox 4x32-10, Salmon et al. 2011): a number is a function of key and counter, so a mask
 * or an initialisation is the same in a recomputation, on any number of threads, after a resume. */
#ifndef CORE_RANDOM_H
#define CORE_RANDOM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct random_key {
    uint32_t word[2];
} random_key;

/* Four 32-bit numbers for (key, counter). */
void random_block(uint32_t out[4], random_key key, uint64_t counter_low, uint64_t counter_high);

/* A key for a purpose: mixes the seed with up to three labels, e.g. (seed, RANDOM_DROPOUT, step, layer). */
random_key random_key_of(uint64_t seed, uint64_t purpose, uint64_t a, uint64_t b);

enum { RANDOM_ADAPTER_INIT = 1, RANDOM_SHUFFLE = 2, RANDOM_DROPOUT = 3, RANDOM_SAMPLE = 4, RANDOM_TEST = 99 };

/* Uniform in [0, 1): element `index` of the stream of `key`. Exactly random_uint(...) * 2^-32 in double for f64. */
uint32_t random_uint(random_key key, uint64_t index);
float random_float(random_key key, uint64_t index);   /* 24 bits, [0, 1) */
double random_double(random_key key, uint64_t index); /* 53 bits, [0, 1) */

/* order[i] = a permutation of 0 .. count-1, Fisher-Yates from the end, without modulo bias. */
void random_permutation(random_key key, uint32_t *order, uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
