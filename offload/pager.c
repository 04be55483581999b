#include "offload/pager.h"

#include <string.h>

enum { LANE_UP = 1, LANE_DOWN = 2, LANE_COMPUTE = 0 };

void pager_bind(pager *p, arena *a, device *dev, bool paged, int arrays, int64_t count, const ledger_kind *kinds, const char *const *names)
{
    memset(p, 0, sizeof *p);
    p->dev = dev;
    p->paged = paged;
    p->arrays = arrays;
    p->count = count;
    for (int i = 0; i < arrays; i++) p->home[i] = arena_tensor(a, paged ? TIER_HOST : TIER_DEVICE, kinds[i], "optimizer", names[i], 1, count, DTYPE_F32).data;
    if (!paged) return;
    int64_t page = count < PAGER_PAGE ? count : PAGER_PAGE;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < arrays; i++)
            p->landing[turn][i] = arena_tensor(a, TIER_DEVICE, LEDGER_STAGING, "optimizer", "landing pages", 1, page, DTYPE_F32).data;
}

int64_t pager_pages(const pager *p)
{
    return (p->count + PAGER_PAGE - 1) / PAGER_PAGE;
}

static int64_t page_count(const pager *p, int64_t page)
{
    int64_t left = p->count - page * PAGER_PAGE;
    return left < PAGER_PAGE ? left : PAGER_PAGE;
}

static void page_up(pager *p, int64_t page)
{
    for (int i = 0; i < p->arrays; i++)
        p->dev->table->copy(p->dev, p->landing[page % 2][i], p->home[i] + page * PAGER_PAGE, (size_t)page_count(p, page) * sizeof(float), LANE_UP);
}

void pager_fetch(pager *p, int64_t page, float *at[PAGER_ARRAYS], int64_t *first, int64_t *count)
{
    *first = page * PAGER_PAGE;
    *count = page_count(p, page);
    if (p->paged) {
        if (page == 0) page_up(p, 0);
        p->dev->table->wait(p->dev, LANE_COMPUTE, LANE_UP);
        /* The next page lands where the one before this was: that one must have gone home. */
        p->dev->table->wait(p->dev, LANE_UP, LANE_DOWN);
        if (page + 1 < pager_pages(p)) page_up(p, page + 1);
    }
    for (int i = 0; i < p->arrays; i++) at[i] = p->paged ? p->landing[page % 2][i] : p->home[i] + *first;
}

void pager_store(pager *p, int64_t page)
{
    if (!p->paged) return;
    p->dev->table->wait(p->dev, LANE_DOWN, LANE_COMPUTE);
    for (int i = 0; i < p->arrays; i++)
        p->dev->table->copy(p->dev, p->home[i] + page * PAGER_PAGE, p->landing[page % 2][i], (size_t)page_count(p, page) * sizeof(float), LANE_DOWN);
}
