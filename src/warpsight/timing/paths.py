"""How a warp goes along its path: the next instruction, and what its memory instructions touch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.addressing.integers import signed
from warpsight.caches.compiled import inlined
from warpsight.timing import layout as at
from warpsight.timing.layout import Ints

Events = npt.NDArray[np.uint8]
Sectors = npt.NDArray[np.uint32]


@inlined
def enter(p: Ints, s: Ints, row: int) -> bool:
    """Stand at the first instruction of the path entry that the warp has come to; False if none is left."""
    while s[row + at.ENTRY] < s[row + at.END]:
        entry = p[at.PATH] + s[row + at.ENTRY] * at.PATH_WIDTH
        block = p[at.BLOCK] + s[entry]
        s[row + at.LIVE_LANES] = s[entry + 1]
        s[row + at.REPEAT] = s[entry + 2]
        s[row + at.PC], s[row + at.BLOCK_END] = s[block], s[block + 1]
        if s[row + at.REPEAT] > 0 and s[block] < s[block + 1]:
            return True
        s[row + at.ENTRY] += 1
    return False


@inlined
def step(p: Ints, s: Ints, row: int) -> bool:
    """Go on to the next instruction; False if there is none."""
    s[row + at.PC] += 1
    if s[row + at.PC] < s[row + at.BLOCK_END]:
        return True
    s[row + at.REPEAT] -= 1
    if s[row + at.REPEAT] > 0:
        s[row + at.PC] = s[p[at.BLOCK] + s[p[at.PATH] + s[row + at.ENTRY] * at.PATH_WIDTH]]
        return True
    s[row + at.ENTRY] += 1
    return bool(enter(p, s, row))


@inlined
def take_event(p: Ints, s: Ints, events: Events, row: int, pc: int) -> int:
    """Read the warp's next event, of instruction `pc`: sectors | degree << 8 | most lanes that share an address << 16.

    -1 where the trace contradicts its path.
    """
    code = p[at.CODE] + pc * at.CODE_WIDTH
    place = s[row + at.EVENT]
    s[row + at.EVENT] = place + s[code + at.EVENT_BYTES]
    if s[row + at.EVENT] > s[row + at.EVENT_END]:
        return -1
    found = 0
    if s[code + at.HAS_SECTORS] != 0:
        found = signed(events[place])
        place += 1
    s[row + at.TAKEN] += found
    if s[row + at.TAKEN] > s[row + at.SECTOR_END]:
        return -1
    if s[code + at.HAS_DEGREE] != 0:
        found |= signed(events[place]) << 8
        place += 1
    if s[code + at.ACCESS] == at.IS_ATOMIC:
        found |= signed(events[place]) << 16
    return found
