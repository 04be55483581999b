#include "ops/levels.h"
#include "ops/rope_vector.h"

void rope_avx512_fill(ops_table *t)
{
    t->rope = rope;
}
