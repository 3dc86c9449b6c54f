"""Which set of a cache a line belongs to.

`modulo`: the lowest bits (or, for a number of sets that is no power of two, the remainder) of the line number. `xor`: those bits
XORed with the next higher ones, which spreads power-of-two strides (Gonzalez, Valero, Topham, Parcerisa, "Eliminating cache
conflict misses through XOR-based placement functions", ICS 1997). `fermi`: bits 0 to 4 of the line number XORed with bits 6, 7, 8,
10 and 12, and above them bit 5 (Nugteren et al., HPCA 2014, section 5.1: bits 7-11, 13, 14, 15, 17, 19 and 12 of the byte address
with lines of 128 B); it has six bits, so that of more than 64 sets no others are used. `xor` and `fermi` need a number of sets that
is a power of two.
"""

from __future__ import annotations

from warpsight.addressing.compiled import inlined
from warpsight.addressing.integers import quotient

MODULO, XOR, FERMI = 0, 1, 2
RULES = {"modulo": MODULO, "xor": XOR, "fermi": FERMI}
FERMI_SETS = 64


@inlined
def set_index(line: int, sets: int, rule: int) -> int:
    """The set of line number `line` (within its slice) in a cache of `sets` sets; `rule` is `MODULO`, `XOR` or `FERMI`."""
    if rule == FERMI:
        folded = (line >> 6) & 7 | (line >> 7) & 8 | (line >> 8) & 16
        return ((line & 63) ^ folded) & (sets - 1)
    upper = quotient(line, sets)
    index = line - upper * sets
    if rule == XOR:
        index ^= upper - quotient(upper, sets) * sets
    return index
