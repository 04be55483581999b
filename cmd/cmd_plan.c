#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

static const char *const kinds[] = {"base", "adapter", "gradient", "optimizer", "activation", "scratch", "staging"};
static const char *const tiers[] = {"device", "pinned", "host", "disk"};
enum { KINDS = sizeof kinds / sizeof kinds[0], TIERS = sizeof tiers / sizeof tiers[0] };

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static int64_t whole_at(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}

static int place_of(const char *const *words, int count, const char *word)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(words[i], word)) return i;
    return -1;
}

/* One column a tier in use. */
static void show_row(const char *kind, const char *owner, const char *name, const int64_t bytes[TIERS], const bool used[TIERS], int wide)
{
    char text[SHOWN_BYTES];
    int printed = printf("%-11s ", kind);
    printed += printf("%s%s%s", owner, *owner && *name ? " " : "", name);
    printf("%*s", printed < wide ? wide - printed : 0, "");
    for (int t = 0; t < TIERS; t++)
        if (used[t]) printf("%13s", bytes[t] ? show_bytes(text, (double)bytes[t]) : "-");
    putchar('\n');
}

/* Where the tiers share one budget (a CPU run: all of it is memory of the machine) the sum is what must fit. */
static void show_peaks(const json_t *plan, const bool used[TIERS], int wide)
{
    const json_t *memory = json_object_get(plan, "memory"), *by_tier = json_object_get(memory, "tiers");
    int64_t peak[TIERS], budget[TIERS], left[TIERS], total = whole_at(memory, "planned_peak_bytes"), only = 0;
    bool shared = true;
    for (int t = 0; t < TIERS; t++) {
        const json_t *tier = json_object_get(by_tier, tiers[t]);
        peak[t] = whole_at(tier, "planned_peak_bytes");
        budget[t] = whole_at(tier, "budget_bytes");
        left[t] = budget[t] ? budget[t] - peak[t] : 0;
        if (!budget[t]) continue;
        shared = shared && (!only || budget[t] == only);
        only = budget[t];
    }
    putchar('\n');
    show_row("peak", "", "temporaries share space", peak, used, wide);
    if (shared && only) {
        char a[SHOWN_BYTES], b[SHOWN_BYTES], c[SHOWN_BYTES];
        printf("\nin all %s of a budget of %s; %s %s\n", show_bytes(a, (double)total), show_bytes(b, (double)only),
               show_bytes(c, (double)(only < total ? total - only : only - total)), only < total ? "too much" : "left");
    } else {
        show_row("budget", "", "", budget, used, wide);
        show_row("left", "", "", left, used, wide);
    }
}

static void show_ledger(const json_t *plan)
{
    const json_t *ledger = json_object_get(plan, "ledger");
    bool used[TIERS] = {false};
    int wide = 40;
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)ledger, i, row)
    {
        int tier = place_of(tiers, TIERS, text_at(row, "tier"));
        int length = 14 + (int)(strlen(text_at(row, "owner")) + strlen(text_at(row, "name")));
        if (tier >= 0) used[tier] = true;
        if (length > wide) wide = length;
    }
    printf("\n%-*s", wide, "kind        buffer");
    for (int t = 0; t < TIERS; t++)
        if (used[t]) printf("%13s", tiers[t]);
    putchar('\n');
    for (int k = 0; k < KINDS; k++) {
        int64_t sum[TIERS] = {0};
        int rows = 0;
        json_array_foreach((json_t *)ledger, i, row)
        {
            int tier = place_of(tiers, TIERS, text_at(row, "tier"));
            int64_t bytes[TIERS] = {0};
            if (tier < 0 || strcmp(text_at(row, "kind"), kinds[k]) != 0) continue;
            bytes[tier] = whole_at(row, "planned_bytes");
            sum[tier] += bytes[tier];
            show_row(rows++ ? "" : kinds[k], text_at(row, "owner"), text_at(row, "name"), bytes, used, wide);
        }
        if (rows > 1) show_row("", "", "= sum", sum, used, wide);
    }
    show_peaks(plan, used, wide);
}

static void show_choices(const json_t *plan)
{
    const json_t *choices = json_object_get(plan, "choices");
    const char *key;
    json_t *value;
    if (json_object_size(choices)) printf("\nas it would run\n");
    json_object_foreach((json_t *)choices, key, value)
    {
        printf("  %-20s ", key);
        if (json_is_string(value))
            printf("%s\n", json_string_value(value));
        else if (json_is_integer(value))
            printf("%lld\n", (long long)json_integer_value(value));
        else if (json_is_boolean(value))
            puts(json_is_true(value) ? "on" : "off");
        else
            putchar('\n');
    }
    size_t i;
    json_t *lever;
    const json_t *levers = json_object_get(plan, "levers");
    bool fits = json_is_true(json_object_get(plan, "fits"));
    if (json_array_size(levers)) printf("\nwhat is done where a run does not fit, in this order\n");
    json_array_foreach((json_t *)levers, i, lever)
    {
        char saves[SHOWN_BYTES] = "";
        if (whole_at(lever, "saves_bytes")) show_bytes(saves, (double)whole_at(lever, "saves_bytes"));
        bool done = json_is_true(json_object_get(lever, "pulled"));
        const char *state = done ? "[done]" : !*saves ? "[no gain]" : fits ? "[not needed]" : "[ruled out]";
        printf("  %-12s  %s%s%s\n  %12s  %s\n", state, text_at(lever, "name"), *saves ? ", frees " : "", saves, "", text_at(lever, "cost"));
    }
}

static void show_plan(const json_t *plan)
{
    const json_t *base = json_object_get(plan, "base"), *data = json_object_get(plan, "data");
    char a[SHOWN_BYTES], b[SHOWN_BYTES], d[SHOWN_BYTES];
    printf("base   %s: %s, %s parameters\n", text_at(base, "path"), text_at(base, "architecture"), show_count(a, whole_at(base, "parameters")));
    if (!data) printf("data   none given: the largest micro-batch is planned, --batch rows of --seq tokens\n");
    if (data)
        printf("data   %s samples, %s tokens, %s of them learned\n", show_count(a, whole_at(data, "samples")), show_count(b, whole_at(data, "tokens")),
               show_count(d, whole_at(data, "supervised_tokens")));
    if (data && json_object_get(plan, "steps"))
        printf("run    %s step%s, at most %s tokens in a micro-batch\n", show_count(a, whole_at(plan, "steps")), whole_at(plan, "steps") == 1 ? "" : "s",
               show_count(b, whole_at(plan, "micro_batch_tokens")));
    show_ledger(plan);
    show_choices(plan);
    if (json_is_true(json_object_get(plan, "fits"))) printf("\nIt fits.\n");
}

qlft_status cmd_plan(call *c)
{
    char *text = NULL;
    json_t *plan = NULL;
    qlft_status status = qlft_plan(&text, c->config, &c->observer), read = QLFT_OK;
    progress_clear(c->shown);
    /* A plan that does not fit is shown all the same: it is what one looks at to find out why. */
    if (text && c->json)
        puts(text);
    else if (text && (read = json_of_text(&plan, text)) == QLFT_OK)
        show_plan(plan);
    json_decref(plan);
    qlft_free(text);
    return status != QLFT_OK ? status : read;
}
