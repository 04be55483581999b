/* Flat FP32 arrays (master weights, optimizer states) that live on the host and visit the device page by page, double buffered.
 * Not paged, they live on the device and a page is a view. The pager moves pages; who steps them is train's business. */
#ifndef OFFLOAD_PAGER_H
#define OFFLOAD_PAGER_H

#include "core/device.h"
#include "core/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PAGER_ARRAYS = 3, PAGER_PAGE = 1 << 18 /* elements: 1 MiB an array */ };

typedef struct pager {
    device *dev;
    bool paged;
    int arrays;                      /* in use */
    int64_t count;                   /* elements of each */
    float *home[PAGER_ARRAYS];       /* where they live */
    float *landing[2][PAGER_ARRAYS]; /* device buffers of a page, by turns */
} pager;

/* Takes memory for `arrays` arrays of `count` elements, dry or real; names[i] for the ledger. */
void pager_bind(pager *p, arena *a, device *dev, bool paged, int arrays, int64_t count, const ledger_kind *kinds, const char *const *names);
int64_t pager_pages(const pager *p);
/* Elements [*first, *first + *count) of page i, on the device at at[]: fetched if paged, the next page's fetch started. */
void pager_fetch(pager *p, int64_t page, float *at[PAGER_ARRAYS], int64_t *first, int64_t *count);
/* Writes the page back home. Pages are fetched and stored in order: 0, 0, 1, 1, ... */
void pager_store(pager *p, int64_t page);

#ifdef __cplusplus
}
#endif
#endif
