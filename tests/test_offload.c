/* The pager: pages visit the device and go home; nothing depends on whether they travel. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "offload/pager.h"

enum { COUNT = 2 * PAGER_PAGE + 1000 };

/* Binds dry and real, fills the arrays, steps every page twice, and gives the arrays' sum of weighted elements. */
static void walk(bool paged, double sums[2], size_t *host_bytes)
{
    static const ledger_kind kinds[] = {LEDGER_ADAPTER, LEDGER_OPTIMIZER};
    static const char *const names[] = {"first", "second"};
    device *d = NULL;
    ledger planned = {0}, used = {0};
    arena dry = {.book = &planned}, real = {.book = &used};
    pager p;
    cr_assert_eq(device_open_cpu(&d, CPU_REF, 1), QLFT_OK);
    pager_bind(&p, &dry, d, paged, 2, COUNT, kinds, names);
    for (int i = 0; i < TIER_COUNT; i++) {
        void *base = NULL;
        cr_assert_eq(d->table->reserve(d, (tier)i, planned.peak[i], &base), QLFT_OK);
        real.base[i] = base;
        real.size[i] = planned.peak[i];
    }
    pager_bind(&p, &real, d, paged, 2, COUNT, kinds, names);
    cr_assert_eq(arena_status(&real), QLFT_OK);
    cr_assert_eq(used.peak[TIER_HOST], planned.peak[TIER_HOST]);
    *host_bytes = used.peak[TIER_HOST];
    for (int64_t i = 0; i < COUNT; i++) p.home[0][i] = (float)(i % 97), p.home[1][i] = 0;
    cr_assert_eq(pager_pages(&p), 3);
    for (int round = 1; round <= 2; round++)
        for (int64_t page = 0, seen = 0; page < 3; page++) {
            float *at[PAGER_ARRAYS];
            int64_t first, count;
            pager_fetch(&p, page, at, &first, &count);
            cr_assert_eq(first, seen);
            seen += count;
            for (int64_t i = 0; i < count; i++) {
                at[1][i] += at[0][i] + (float)round;
                at[0][i] += 1;
            }
            pager_store(&p, page);
            if (page == 2) cr_assert_eq(seen, COUNT);
        }
    for (int j = 0; j < 2; j++) {
        sums[j] = 0;
        for (int64_t i = 0; i < COUNT; i++) sums[j] += (double)p.home[j][i] * (double)(i % 13 + 1);
    }
    /* by hand: first = i % 97 + 2, second = (i % 97 + 1) + (i % 97 + 1 + 2) */
    for (int64_t i = 0; i < COUNT; i++) {
        cr_assert_eq(p.home[0][i], (float)(i % 97 + 2), "element %lld", (long long)i);
        cr_assert_eq(p.home[1][i], (float)(2 * (i % 97) + 4), "element %lld", (long long)i);
    }
    device_close(d);
    ledger_free(&planned);
    ledger_free(&used);
}

Test(offload, pages_go_home_and_paging_changes_nothing_but_where_things_are)
{
    double a[2], b[2];
    size_t host_a, host_b;
    walk(false, a, &host_a);
    walk(true, b, &host_b);
    cr_assert_eq(memcmp(a, b, sizeof a), 0);
    cr_assert_eq(host_a, 0u);
    cr_assert(host_b >= 2u * COUNT * sizeof(float));
}
