#include "ops/act_vector.h"
#include "ops/levels.h"

void act_avx512_fill(ops_table *t)
{
    t->act_forward = act_forward;
    t->act_backward = act_backward;
}
