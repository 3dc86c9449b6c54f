/* Code for the host as the compiler of CUDA Tile puts it into a cubin: the driver calls it at each launch of the kernel `k`, whose
 * parameters are an address and a number. It writes two words behind them.
 */
#include <stdint.h>
#include <string.h>

static int make(const void *driver, const void *state, const void *unknown, char *parameters)
{
    (void)driver, (void)state, (void)unknown;
    uint32_t number, made[2];
    memcpy(&number, parameters + 8, sizeof number);
    made[0] = 3 * number;
    made[1] = ~number;
    memcpy(parameters + 12, made, sizeof made);
    return number == 13; /* a failure */
}

struct row { const char *name; const void *others[4]; int (*make)(const void *, const void *, const void *, char *); const void *more[2]; };
static const struct row rows[] = {
    {.name = "another", .make = make}, {.name = "k", .make = make},
};

#ifndef VERSION
#define VERSION 2
#endif
const struct { uint32_t version, zero; const void *four[3]; uint64_t row_bytes; const struct row *rows; uint64_t count; } __CUDA_TILEIR_CALLBACKS = {
    VERSION, 0, {0}, sizeof *rows, rows, 2,
};
