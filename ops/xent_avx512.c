#include "ops/levels.h"

void xent_avx512_fill(ops_table *t)
{
    (void)t;
}
