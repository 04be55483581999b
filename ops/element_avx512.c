#include "ops/levels.h"
#include "ops/element_vector.h"

void element_avx512_fill(ops_table *t)
{
    t->cast = cast;
    t->add = add;
    t->sum_squares = sum_squares;
}
