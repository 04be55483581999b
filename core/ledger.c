#include "core/ledger.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if ARENA_RED_ZONE
#include <sanitizer/asan_interface.h>
#endif

static const char *const kind_names[LEDGER_KINDS] = {"base", "adapter", "gradient", "optimizer", "activation", "scratch", "staging"};
static const char *const tier_names[TIER_COUNT] = {"device", "pinned", "host", "disk"};

const char *ledger_kind_name(ledger_kind kind)
{
    return kind_names[kind];
}

const char *ledger_tier_name(tier where)
{
    return tier_names[where];
}

const char *bytes_text(char out[BYTES_TEXT], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    if (!isfinite(bytes)) return memcpy(out, "-", 2);
    for (; fabs(bytes) >= 1023.95 && unit < 4; unit++) bytes /= 1024; /* 1023.95 would be written 1024.0 */
    snprintf(out, BYTES_TEXT, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return out;
}

void ledger_free(ledger *book)
{
    free(book->rows);
    memset(book, 0, sizeof *book);
}

/* The row for (owner, name, kind, tier), made if new; NULL without memory. */
static ledger_row *ledger_find(ledger *book, tier where, ledger_kind kind, const char *owner, const char *name)
{
    for (size_t i = book->count; i-- > 0;) {
        ledger_row *row = &book->rows[i];
        if (row->kind == kind && row->where == where && strcmp(row->name, name) == 0 && strcmp(row->owner, owner) == 0) return row;
    }
    if (book->count == book->capacity) {
        size_t capacity = book->capacity ? 2 * book->capacity : 64;
        ledger_row *rows = realloc(book->rows, capacity * sizeof *rows);
        if (!rows) return NULL;
        book->rows = rows;
        book->capacity = capacity;
    }
    ledger_row *row = &book->rows[book->count++];
    memset(row, 0, sizeof *row);
    snprintf(row->owner, sizeof row->owner, "%s", owner);
    snprintf(row->name, sizeof row->name, "%s", name);
    row->kind = kind;
    row->where = where;
    return row;
}

static void forbid(void *at, size_t bytes)
{
#if ARENA_RED_ZONE
    __asan_poison_memory_region(at, bytes);
#else
    (void)at;
    (void)bytes;
#endif
}

void arena_allow(void *at, size_t bytes)
{
#if ARENA_RED_ZONE
    __asan_unpoison_memory_region(at, bytes);
#else
    (void)at;
    (void)bytes;
#endif
}

void *arena_take(arena *a, tier where, ledger_kind kind, const char *owner, const char *name, size_t bytes)
{
    size_t before = a->used[where], zone = before ? ARENA_RED_ZONE : 0;
    if (bytes > SIZE_MAX - ARENA_ALIGN - ARENA_RED_ZONE - before) {
        a->failed = true;
        return NULL;
    }
    size_t rounded = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN, at = before + zone;
    ledger_row *row = ledger_find(a->book, where, kind, owner, name);
    if (!row || (a->base[where] && (at > a->size[where] || rounded > a->size[where] - at))) {
        a->failed = true;
        return NULL;
    }
    row->bytes += rounded;
    a->used[where] = at + rounded;
    if (a->used[where] > a->book->peak[where]) a->book->peak[where] = a->used[where];
    if (!a->base[where]) return NULL;
    unsigned char *taken = a->base[where] + at;
    forbid(taken - zone, zone);
    arena_allow(taken, bytes);
    forbid(taken + bytes, rounded - bytes);
    return taken;
}

tensor arena_tensor(arena *a, tier where, ledger_kind kind, const char *owner, const char *name, int64_t rows, int64_t cols, dtype type)
{
    size_t count = 0, bytes = 0;
    tensor t = tensor_of(NULL, rows, cols, type);
    t.where = where;
    if (rows < 0 || cols < 0 || __builtin_mul_overflow((size_t)rows, (size_t)cols, &count) || __builtin_mul_overflow(count, dtype_bytes(type), &bytes)) {
        a->failed = true;
        return t;
    }
    t.data = arena_take(a, where, kind, owner, name, bytes);
    return t;
}

size_t arena_mark(const arena *a, tier where)
{
    return a->used[where];
}

void arena_release(arena *a, tier where, size_t mark)
{
    if (a->base[where]) arena_allow(a->base[where] + mark, a->used[where] - mark);
    a->used[where] = mark;
}

qlft_status arena_status(const arena *a)
{
    if (!a->failed) return QLFT_OK;
    for (int i = 0; i < TIER_COUNT; i++)
        if (a->base[i])
            return status_fail(QLFT_EFIT, "the real bind asks for more than was planned on tier %s: this is a bug of qlft, please report it",
                               ledger_tier_name((tier)i));
    return status_fail(QLFT_EFIT, "the sizes asked for are larger than any memory; lower --seq, --batch or --r");
}
