#include "core/random.h"

enum { ROUNDS = 10 };

static void round_once(uint32_t x[4], const uint32_t key[2])
{
    uint64_t a = (uint64_t)0xD2511F53u * x[0], b = (uint64_t)0xCD9E8D57u * x[2];
    uint32_t y0 = (uint32_t)(b >> 32) ^ x[1] ^ key[0], y2 = (uint32_t)(a >> 32) ^ x[3] ^ key[1];
    x[0] = y0;
    x[1] = (uint32_t)b;
    x[2] = y2;
    x[3] = (uint32_t)a;
}

void random_block(uint32_t out[4], random_key key, uint64_t counter_low, uint64_t counter_high)
{
    uint32_t x[4] = {(uint32_t)counter_low, (uint32_t)(counter_low >> 32), (uint32_t)counter_high, (uint32_t)(counter_high >> 32)};
    uint32_t k[2] = {key.word[0], key.word[1]};
    for (int i = 0; i < ROUNDS; i++) {
        round_once(x, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) out[i] = x[i];
}

random_key random_key_of(uint64_t seed, uint64_t purpose, uint64_t a, uint64_t b)
{
    random_key key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    uint32_t mixed[4];
    random_block(mixed, key, purpose, a);
    key.word[0] = mixed[0];
    key.word[1] = mixed[1];
    random_block(mixed, key, b, ~purpose);
    key.word[0] = mixed[2];
    key.word[1] = mixed[3];
    return key;
}

uint32_t random_uint(random_key key, uint64_t index)
{
    uint32_t block[4];
    random_block(block, key, index / 4, 0);
    return block[index % 4];
}

float random_float(random_key key, uint64_t index)
{
    return (float)(random_uint(key, index) >> 8) * 0x1p-24f;
}

double random_double(random_key key, uint64_t index)
{
    uint32_t block[4];
    random_block(block, key, index / 2, 1);
    uint64_t wide = (uint64_t)block[2 * (index % 2)] << 32 | block[2 * (index % 2) + 1];
    return (double)(wide >> 11) * 0x1p-53;
}

/* Uniform below `limit`, by rejection of the incomplete last range; *at counts the numbers used. */
static uint32_t random_below(random_key key, uint64_t *at, uint32_t limit)
{
    uint32_t reject_from = (uint32_t)(0x100000000u / limit * limit - 1u); /* accept x <= reject_from */
    for (;;) {
        uint32_t x = random_uint(key, (*at)++);
        if (x <= reject_from) return x % limit;
    }
}

void random_permutation(random_key key, uint32_t *order, uint32_t count)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = random_below(key, &at, i), kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}
