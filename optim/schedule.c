/* Learning-rate schedules, with the formulas of transformers.optimization: get_*_schedule_with_warmup and get_wsd_schedule. */
#include <math.h>
#include <string.h>

#include "optim/optim.h"

#define PI 3.14159265358979323846

/* `at` counts from 0 and is at or past the warm-up. */
typedef double (*schedule_curve)(const schedule_shape *s, int64_t at);

static double fraction(int64_t part, int64_t whole)
{
    return (double)part / (double)(whole > 1 ? whole : 1);
}

static double falling_line(double progress)
{
    return fmax(0.0, 1.0 - progress);
}

/* Half a cosine; past its end it stays at 0 instead of rising again. */
static double falling_cosine(double progress)
{
    return progress >= 1.0 ? 0.0 : fmax(0.0, 0.5 * (1.0 + cos(PI * progress)));
}

static double curve_constant(const schedule_shape *s, int64_t at)
{
    (void)s;
    (void)at;
    return 1.0;
}

static double curve_linear(const schedule_shape *s, int64_t at)
{
    return falling_line(fraction(at - s->warmup, s->steps - s->warmup));
}

static double curve_cosine(const schedule_shape *s, int64_t at)
{
    return falling_cosine(fraction(at - s->warmup, s->steps - s->warmup));
}

/* Warm-up, plateau, then the last `decay` steps. */
static double curve_wsd(const schedule_shape *s, int64_t at, double (*falling)(double progress))
{
    int64_t into = at - (s->steps - s->decay);
    if (into < 0) return 1.0;
    if (into >= s->decay) return s->min_ratio;
    return falling(fraction(into, s->decay)) * (1.0 - s->min_ratio) + s->min_ratio;
}

static double curve_wsd_cosine(const schedule_shape *s, int64_t at)
{
    return curve_wsd(s, at, falling_cosine);
}

static double curve_wsd_linear(const schedule_shape *s, int64_t at)
{
    return curve_wsd(s, at, falling_line);
}

/* warm_from_minimum: the warm-up rises from min_ratio, as transformers' wsd does. */
typedef struct schedule_kind {
    const char *name;
    schedule_curve curve;
    bool warm_from_minimum;
} schedule_kind;

static const schedule_kind schedules[] = {
    {"cosine", curve_cosine, false}, {"linear", curve_linear, false},        {"constant", curve_constant, false},
    {"wsd", curve_wsd_cosine, true}, {"wsd-linear", curve_wsd_linear, true},
};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

static const schedule_kind *schedule_find(const char *name)
{
    for (int i = 0; name && i < SCHEDULES; i++)
        if (strcmp(schedules[i].name, name) == 0) return &schedules[i];
    return NULL;
}

double schedule_factor(const schedule_shape *s, int64_t step)
{
    const schedule_kind *kind = schedule_find(s->name);
    const int64_t at = step > 1 ? step - 1 : 0;
    if (!kind) return NAN; /* the name is checked by schedule_known where it is read; an unchecked one must not train */
    if (at >= s->warmup) return kind->curve(s, at);
    double rising = fraction(at, s->warmup);
    return kind->warm_from_minimum ? rising * (1.0 - s->min_ratio) + s->min_ratio : rising;
}

bool schedule_known(const char *name)
{
    return schedule_find(name) != NULL;
}

const char *schedule_names(void)
{
    return "cosine|linear|constant|wsd|wsd-linear";
}
