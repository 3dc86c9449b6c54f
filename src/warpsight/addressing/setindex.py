"""Which set of a cache a line belongs to.

`modulo`: the lowest bits (or, for a number of sets that is no power of two, the remainder) of the line number. `xor`: those bits
XORed with the next higher ones, which spreads power-of-two strides (Gonzalez, Valero, Topham, Parcerisa, "Eliminating cache
conflict misses through XOR-based placement functions", ICS 1997). `xor` needs a number of sets that is a power of two.
"""

from __future__ import annotations

from warpsight.addressing.compiled import inlined
from warpsight.addressing.integers import quotient

MODULO, XOR = 0, 1
RULES = {"modulo": MODULO, "xor": XOR}


@inlined
def set_index(line: int, sets: int, rule: int) -> int:
    """The set of line number `line` (within its slice) in a cache of `sets` sets; `rule` is `MODULO` or `XOR`."""
    upper = quotient(line, sets)
    index = line - upper * sets
    if rule == XOR:
        index ^= upper - quotient(upper, sets) * sets
    return index
