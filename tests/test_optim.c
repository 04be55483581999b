/* AdamW, schedules and clipping against PyTorch's and transformers' numbers (tests/golden/optim), and the identities of levels, threads and pages. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/random.h"
#include "core/safetensors.h"
#include "optim/optim.h"
#include "tests/tolerance.h"

#define GOLDEN TEST_GOLDEN "/optim/"

static json_t *read_json(const char *path)
{
    json_t *value;
    cr_assert_eq(json_read_file(&value, path, 1 << 20), QLFT_OK, "%s", qlft_last_error());
    return value;
}

/* ---- AdamW ---- */

enum { STEPS = 10, PARAMETERS = 4 };

/* The parameters a, b, c, d one behind the other, as the trainer holds its masters. */
static int64_t load_all(float *out, const safetensors *file, const char *setting, const char *what)
{
    int64_t at = 0;
    for (int p = 0; p < PARAMETERS; p++) {
        char name[96];
        snprintf(name, sizeof name, "%s.%s.%c", setting, what, 'a' + p);
        const safetensors_entry *entry = safetensors_find(file, name);
        cr_assert_not_null(entry, "%s", name);
        cr_assert_leq(at + entry->count, 1024);
        if (out) cr_assert_eq(safetensors_to_f32(out + at, entry, 0, entry->count), QLFT_OK, "%s", qlft_last_error());
        at += entry->count;
    }
    return at;
}

static double norm_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

static void expect_close(const float *want, const float *got, int64_t n, const char *setting, const char *what, cpu_level level)
{
    for (int64_t i = 0; i < n; i++)
        cr_assert(fabs((double)want[i] - (double)got[i]) <= TOLERANCE_ADAMW_10_STEPS, "%s, %s at level %s: element %d is %.9g, not %.9g", setting, what,
                  cpu_level_name(level), (int)i, (double)got[i], (double)want[i]);
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    cr_assert(json_is_number(value), "%s", key);
    return json_number_value(value);
}

static optim_hyper hyper_of(const json_t *setting)
{
    const json_t *betas = json_object_get(setting, "betas");
    optim_hyper h = {0};
    h.beta1 = json_number_value(json_array_get(betas, 0));
    h.beta2 = json_number_value(json_array_get(betas, 1));
    h.eps = number(setting, "eps");
    h.weight_decay = number(setting, "weight_decay");
    return h;
}

static void run_setting(const safetensors *file, const char *name, const json_t *setting, device *d)
{
    static float p[1024], g[1024], m[1024], v[1024], want[1024];
    void *const state[] = {m, v};
    const int64_t n = load_all(p, file, name, "init");
    optim_hyper h = hyper_of(setting);
    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    for (int step = 1; step <= STEPS; step++) {
        char what[32];
        snprintf(what, sizeof what, "step%02d.grad", step);
        load_all(g, file, name, what);
        double norm = norm_of(g, n), golden = json_number_value(json_array_get(json_object_get(setting, "grad_norm_per_step"), (size_t)step - 1));
        cr_assert(fabs(norm - golden) <= 1e-6 * golden, "%s: norm of step %d", name, step);
        h.step = step;
        h.lr = json_number_value(json_array_get(json_object_get(setting, "lr_per_step"), (size_t)step - 1));
        h.gradient_scale = (float)clip_factor(norm, number(setting, "clip"));
        optim_find("adamw")->step(d, p, g, state, n, &h);
        snprintf(what, sizeof what, "step%02d.param", step);
        load_all(want, file, name, what);
        expect_close(want, p, n, name, what, d->level);
    }
    load_all(want, file, name, "final.exp_avg");
    expect_close(want, m, n, name, "exp_avg", d->level);
    load_all(want, file, name, "final.exp_avg_sq");
    expect_close(want, v, n, name, "exp_avg_sq", d->level);
}

Test(optim, adamw_follows_pytorch_at_every_level)
{
    safetensors file;
    json_t *golden = read_json(GOLDEN "optim.json"), *settings = json_object_get(golden, "adamw"), *setting;
    const char *name;
    cr_assert_eq(safetensors_open(&file, GOLDEN "adamw.safetensors"), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(json_object_size(settings), 3);
    for (int level = 0; level <= (int)cpu_level_best(); level++) {
        device *d;
        cr_assert_eq(device_open_cpu(&d, (cpu_level)level, 1), QLFT_OK, "%s", qlft_last_error());
        json_object_foreach(settings, name, setting) run_setting(&file, name, setting, d);
        device_close(d);
    }
    safetensors_close(&file);
    json_decref(golden);
}

enum { LENGTH = 5003 };

typedef struct adam_arrays {
    float p[LENGTH], g[LENGTH], m[LENGTH], v[LENGTH];
} adam_arrays;

static void fill(adam_arrays *a)
{
    const random_key key = random_key_of(7, RANDOM_TEST, 1, 2);
    for (int i = 0; i < LENGTH; i++) {
        a->p[i] = random_float(key, (uint64_t)i) - 0.5f;
        a->g[i] = (random_float(key, (uint64_t)(LENGTH + i)) - 0.5f) * (i % 3 ? 1.0f : 1e-6f);
        a->m[i] = (random_float(key, (uint64_t)(2 * LENGTH + i)) - 0.5f) * 0.1f;
        a->v[i] = random_float(key, (uint64_t)(3 * LENGTH + i)) * 0.01f;
    }
}

/* Three steps in pages of `page` elements. */
static void run_pages(adam_arrays *a, cpu_level level, int threads, int page)
{
    device *d;
    optim_hyper h = {.lr = 3e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .gradient_scale = 0.37f};
    cr_assert_eq(device_open_cpu(&d, level, threads), QLFT_OK, "%s", qlft_last_error());
    for (h.step = 1; h.step <= 3; h.step++)
        for (int at = 0; at < LENGTH; at += page) {
            void *const state[] = {a->m + at, a->v + at};
            optim_find("adamw")->step(d, a->p + at, a->g + at, state, LENGTH - at < page ? LENGTH - at : page, &h);
        }
    device_close(d);
}

Test(optim, levels_threads_and_pages_give_the_same_bits)
{
    static adam_arrays want, got;
    static const int pages[] = {LENGTH, 1, 7, 64, 1000};
    fill(&want);
    run_pages(&want, CPU_REF, 1, LENGTH);
    for (int level = 0; level <= (int)cpu_level_best(); level++)
        for (int i = 0; i < 5; i++) {
            fill(&got);
            run_pages(&got, (cpu_level)level, 1 + i % 3, pages[i]);
            cr_assert(memcmp(&want, &got, sizeof want) == 0, "level %s, %d threads, pages of %d", cpu_level_name((cpu_level)level), 1 + i % 3, pages[i]);
        }
}

Test(optim, table)
{
    const optim_kind *adamw = optim_find("adamw");
    cr_assert_not_null(adamw);
    cr_expect_eq(adamw->state_count, 2);
    cr_expect_str_eq(adamw->state_name[0], "exp_avg");
    cr_expect_str_eq(adamw->state_name[1], "exp_avg_sq");
    cr_expect_geq(adamw->granule, 1);
    cr_expect_null(optim_find("sgdw"));
    cr_expect_null(optim_find(NULL));
}

/* ---- schedules ---- */

/* transformers' names of what qlft has; the others of the golden file (restarts, inverse square root, ...) it does not have. */
static const struct {
    const char *golden, *name;
} schedule_names_of[] = {
    {"constant", "constant"}, {"constant_with_warmup", "constant"}, {"linear", "linear"}, {"cosine", "cosine"},
    {"wsd_cosine", "wsd"},    {"wsd_linear", "wsd-linear"},
};

/* "wsd_linear/T20/W3/D4/min0.1" */
static bool parse_case(const char *key, schedule_shape *s)
{
    const size_t length = strcspn(key, "/");
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < sizeof schedule_names_of / sizeof *schedule_names_of; i++)
        if (strlen(schedule_names_of[i].golden) == length && strncmp(schedule_names_of[i].golden, key, length) == 0) s->name = schedule_names_of[i].name;
    for (const char *part = strchr(key, '/'); part; part = strchr(part + 1, '/')) {
        if (part[1] == 'T') s->steps = strtoll(part + 2, NULL, 10);
        if (part[1] == 'W') s->warmup = strtoll(part + 2, NULL, 10);
        if (part[1] == 'D') s->decay = strtoll(part + 2, NULL, 10);
        if (strncmp(part, "/min", 4) == 0) s->min_ratio = strtod(part + 4, NULL);
    }
    return s->name != NULL;
}

Test(optim, schedules_follow_transformers)
{
    json_t *golden = read_json(GOLDEN "schedules.json"), *values;
    const char *key;
    int compared = 0;
    json_object_foreach(json_object_get(golden, "values"), key, values)
    {
        schedule_shape s;
        if (!parse_case(key, &s)) continue;
        cr_assert_eq((int64_t)json_array_size(values), s.steps, "%s", key);
        for (int64_t step = 1; step <= s.steps; step++) {
            double want = json_number_value(json_array_get(values, (size_t)step - 1)), got = schedule_factor(&s, step);
            cr_assert(fabs(want - got) <= TOLERANCE_SCHEDULE * fmax(want, 1e-3), "%s, step %d: %.17g, not %.17g", key, (int)step, got, want);
        }
        compared++;
    }
    cr_assert_eq(compared, 22, "%d cases of the golden file were compared", compared);
    json_decref(golden);
}

static void expect_case(const json_t *file, const char *key, const char *name, int64_t steps, int64_t warmup)
{
    const json_t *values = json_object_get(file, key);
    const schedule_shape s = {name, steps, warmup, 0, 0};
    cr_assert_eq((int64_t)json_array_size(values), steps, "%s", key);
    for (int64_t step = 1; step <= steps; step++) {
        double want = json_number_value(json_array_get(values, (size_t)step - 1)), got = schedule_factor(&s, step);
        cr_assert(fabs(want - got) <= 1e-9, "%s, step %d: %.12g, not %.12g", key, (int)step, got, want); /* the file has nine digits */
    }
}

Test(optim, schedules_of_case_d03)
{
    json_t *file = read_json(GOLDEN "d03_lr.json");
    expect_case(file, "reference_linear", "linear", 10, 3);
    expect_case(file, "reference_cosine", "cosine", 10, 3);
    expect_case(file, "reference_cosine_no_warmup_4", "cosine", 4, 0);
    json_decref(file);
}

/* No rate is negative or above 1, also before the first and far past the last step; after the warm-up it never rises. */
Test(optim, schedules_stay_in_bounds)
{
    static const char *const names[] = {"cosine", "linear", "constant", "wsd", "wsd-linear"};
    for (int i = 0; i < 5; i++)
        for (int64_t steps = 1; steps <= 12; steps++)
            for (int64_t warmup = 0; warmup <= steps; warmup++)
                for (int64_t decay = 0; decay <= steps; decay += 2) {
                    const schedule_shape s = {names[i], steps, warmup, decay, 0.1};
                    double before = 1;
                    cr_assert(schedule_known(names[i]));
                    for (int64_t step = -1; step <= 3 * steps + 5; step++) {
                        double factor = schedule_factor(&s, step);
                        cr_assert(factor >= 0 && factor <= 1, "%s, step %d of %d: %g", names[i], (int)step, (int)steps, factor);
                        if (step <= warmup) continue;
                        cr_assert(factor <= before, "%s rises at step %d of %d, warm-up %d, decay %d", names[i], (int)step, (int)steps, (int)warmup,
                                  (int)decay);
                        before = factor;
                    }
                }
}

Test(optim, unknown_schedules_do_not_train)
{
    const schedule_shape s = {"polynomial", 10, 0, 0, 0};
    cr_expect(!schedule_known("polynomial"));
    cr_expect(!schedule_known(NULL));
    cr_expect(isnan(schedule_factor(&s, 3)));
    cr_expect_str_eq(schedule_names(), "cosine|linear|constant|wsd|wsd-linear");
}

/* ---- clipping ---- */

Test(optim, clipping)
{
    cr_expect(clip_factor(0.5, 1.0) == 1.0);
    cr_expect(clip_factor(123.0, 0.0) == 1.0);
    cr_expect(fabs(clip_factor(4.0, 1.0) - 1.0 / (4.0 + 1e-6)) <= 1e-16);
    cr_expect(clip_factor(INFINITY, 1.0) == 0.0);
    cr_expect(isnan(clip_factor(NAN, 1.0)));
}
