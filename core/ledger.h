/* Memory. Every buffer of a run is taken from one arena per tier, in code that runs twice: dry (no base, only counts) and
 * real. Planned and used are therefore the same number, and a test asserts it.
 *
 * Temporaries are marked, taken and released like a stack, so that they share space; peak[] is the high-water mark. */
#ifndef CORE_LEDGER_H
#define CORE_LEDGER_H

#include "core/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ledger_kind {
    LEDGER_BASE,
    LEDGER_ADAPTER,
    LEDGER_GRADIENT,
    LEDGER_OPTIMIZER,
    LEDGER_ACTIVATION,
    LEDGER_SCRATCH,
    LEDGER_STAGING,
    LEDGER_KINDS
} ledger_kind;

const char *ledger_kind_name(ledger_kind kind); /* "base", "adapter", ... */
const char *ledger_tier_name(tier where);       /* "device", "pinned", "host", "disk" */

typedef struct ledger_row {
    char owner[48], name[48]; /* who asked and for what; rows with equal owner, name, kind and tier are added up */
    ledger_kind kind;
    tier where;
    size_t bytes;
} ledger_row;

typedef struct ledger {
    ledger_row *rows;
    size_t count, capacity;
    size_t peak[TIER_COUNT]; /* high-water mark of each tier, bytes */
} ledger;

void ledger_free(ledger *book);

/* Bytes for people, as in every table and message: "812.3 MiB"; "-" if not finite. Gives `out`. */
enum { BYTES_TEXT = 32 };
const char *bytes_text(char out[BYTES_TEXT], double bytes);

enum { ARENA_ALIGN = 64 };

/* AddressSanitizer sees one large allocation, so each take has a forbidden zone before it and what it is rounded up by is forbidden too. The zones count in
 * both binds; without the sanitizer there are none. */
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_RED_ZONE 64
#else
#define ARENA_RED_ZONE 0
#endif

typedef struct arena {
    ledger *book;
    unsigned char *base[TIER_COUNT]; /* NULL while dry */
    size_t used[TIER_COUNT], size[TIER_COUNT];
    bool failed; /* a row could not be recorded or a real take did not fit: asked for with arena_status */
} arena;

/* Takes `bytes` (rounded up to ARENA_ALIGN), zero-filled by the reservation at first use only; NULL while dry.
 * owner/name are copied. Never fails visibly: arena_status tells after a bind. */
void *arena_take(arena *a, tier where, ledger_kind kind, const char *owner, const char *name, size_t bytes);
tensor arena_tensor(arena *a, tier where, ledger_kind kind, const char *owner, const char *name, int64_t rows, int64_t cols, dtype type);
size_t arena_mark(const arena *a, tier where);
void arena_release(arena *a, tier where, size_t mark);
/* Allows [at, at + bytes): a released take that is used once more may have the zones of later takes in it. */
void arena_allow(void *at, size_t bytes);
qlft_status arena_status(const arena *a);

#ifdef __cplusplus
}
#endif
#endif
