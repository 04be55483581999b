#include "ops/levels.h"
#include "ops/norm_vector.h"

void norm_avx512_fill(ops_table *t)
{
    t->norm_forward = norm_forward;
    t->norm_backward = norm_backward;
}
