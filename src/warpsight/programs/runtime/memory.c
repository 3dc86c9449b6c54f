/* Device memory: allocation, release, and the table of live allocations that the emulator checks every access against. */
#define _GNU_SOURCE
#include "runtime.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROW_BYTES 24u
#define KEEP_BYTES 0x10000u /* what is freed gives whole pages back to the system from this size on, less is cleared */

struct row { uint64_t low, high, writable; };

static struct allocation *beside;
static uint64_t count, room;
static uint64_t lowest; /* no gap below this row is worth a look */

static struct row *rows(void) { return (struct row *)the_table; }
static uint64_t heap_start(void) { return ARENA_BASE + MODULE_ZONE; }
static uint64_t heap_end(void) { return ARENA_BASE + (uint64_t)the_device.values[D_MEMORY]; }
static uint64_t align(uint64_t value) { return (value + ALIGNMENT - 1) & ~(ALIGNMENT - 1); }

uint64_t table_count(void) { return count; }

void memory_reset(void)
{
    count = lowest = 0;
    pools_reset();
}

bool in_arena(const void *pointer)
{
    return (uint64_t)pointer >= ARENA_BASE && the_table && (uint64_t)pointer < heap_end();
}

/* The first row that ends after `address`. */
static uint64_t search(uint64_t address)
{
    uint64_t low = 0, high = count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (rows()[middle].high <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static error_t_ insert(uint64_t at, uint64_t low, uint64_t high, bool writable, struct allocation what)
{
    if ((count + 1) * ROW_BYTES > TABLE_BYTES)
        return MEMORY_ALLOCATION;
    if (count == room) {
        uint64_t more = room ? 2 * room : 256;
        struct allocation *grown = realloc(beside, more * sizeof *beside);
        if (!grown)
            return MEMORY_ALLOCATION;
        beside = grown;
        room = more;
    }
    memmove(rows() + at + 1, rows() + at, (count - at) * ROW_BYTES);
    memmove(beside + at + 1, beside + at, (count - at) * sizeof *beside);
    rows()[at] = (struct row){low, high, writable};
    beside[at] = what;
    count++;
    return SUCCESS;
}

/* First fit, in order of addresses, so that the same program gets the same addresses each time. */
error_t_ allocate(size_t bytes, enum kind kind, unsigned flags, uint64_t *address)
{
    if (bytes > heap_end() - heap_start())
        return MEMORY_ALLOCATION;
    uint64_t at = search(heap_start()), need = align(bytes ? bytes : 1), start = heap_start();
    if (lowest > at && lowest <= count) {
        at = lowest;
        start = align(rows()[at - 1].high);
    }
    bool tight = true;
    for (; at < count && rows()[at].low - start < need; at++) {
        if (rows()[at].low - start >= ALIGNMENT)
            tight = false;
        if (tight)
            lowest = at + 1;
        start = align(rows()[at].high);
    }
    if (start + need > heap_end())
        return MEMORY_ALLOCATION;
    *address = start;
    if (checking)
        tell_allocated(start, bytes, kind);
    return insert(at, start, start + bytes, true, (struct allocation){kind, flags, NULL, 0, checking ? call_site() : NULL, NULL});
}

error_t_ insert_module_data(uint64_t address, size_t bytes, bool writable)
{
    lowest = 0;
    return insert(search(address), address, address + bytes, writable, (struct allocation){KIND_MODULE, 0, NULL, 0, NULL, NULL});
}

/* Zeros, so that memory that a program never wrote is the same in each run; whole pages go back to the system. */
static void clear(uint64_t address, uint64_t bytes)
{
    if (bytes >= KEEP_BYTES) {
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = (address + page - 1) / page * page;
        uint64_t last = (address + bytes) / page * page;
        if (madvise((void *)first, last - first, MADV_REMOVE) == 0) {
            memset((void *)address, 0, first - address);
            memset((void *)last, 0, address + bytes - last);
            return;
        }
    }
    memset((void *)address, 0, bytes);
}

error_t_ release(uint64_t address)
{
    uint64_t at = search(address);
    if (at == count || rows()[at].low != address || beside[at].kind == KIND_MODULE)
        return INVALID_VALUE;
    clear(address, align(rows()[at].high - address));
    if (beside[at].pool)
        give_back_to_pool(beside[at].pool, rows()[at].high - rows()[at].low);
    free(beside[at].site);
    count--;
    memmove(rows() + at, rows() + at + 1, (count - at) * ROW_BYTES);
    memmove(beside + at, beside + at + 1, (count - at) * sizeof *beside);
    if (at < lowest)
        lowest = at;
    return SUCCESS;
}

struct allocation *find_allocation(uint64_t address, uint64_t *low, uint64_t *high)
{
    if (!the_table)
        return NULL;
    uint64_t at = search(address);
    if (at == count || rows()[at].low > address)
        return NULL;
    *low = rows()[at].low;
    *high = rows()[at].high;
    return &beside[at];
}

bool range_is_live(uint64_t address, uint64_t bytes)
{
    uint64_t low, high;
    return find_allocation(address, &low, &high) && high - address >= bytes;
}
