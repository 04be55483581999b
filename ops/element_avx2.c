#include "ops/element_vector.h"
#include "ops/levels.h"

void element_avx2_fill(ops_table *t)
{
    t->cast = cast;
    t->add = add;
    t->sum_squares = sum_squares;
    t->dropout = dropout;
}
