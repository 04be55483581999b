#include "ops/levels.h"

void xent_avx2_fill(ops_table *t)
{
    (void)t;
}
