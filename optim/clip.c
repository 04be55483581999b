#include "optim/optim.h"

double clip_factor(double norm, double limit)
{
    if (limit <= 0) return 1.0;
    double factor = limit / (norm + 1e-6);
    return factor > 1.0 ? 1.0 : factor; /* a norm that is NaN stays NaN */
}
