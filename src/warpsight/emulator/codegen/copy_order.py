"""Racecheck's order by mbarrier objects of a block: between warps, and of the bulk copies that complete on them.

A warp that has seen the end of a phase knows what those knew that had arrived on the object, as behind a barrier.

A bulk copy accesses shared memory on its own, from its issue until the phase of its mbarrier object is over, or until its group has
been waited for. So it does not happen before anything that its warp does next. The n-th phase of an object that somebody has waited
for ends the copies that were issued in it; a warp that has waited knows so, and hands it on at barriers, fences and arrivals. Which
of them is not looked at, as with other flags.

The words, behind those of a block's lanes: of OBJECTS mbarrier objects the offset and 1 (0: free), how many phases were waited for,
and the parity of the last one and 1; of each warp the groups that it has committed; of each warp, and of what was handed on, the
phases of each object and the groups of each warp that are known to be over; of each object the clocks of all warps that those knew
who arrived on it.

The clock in the stamp of an access by a copy is the number of an object, or OBJECTS and the number of a warp for its groups, above
GENERATION_BITS, and below them the phase or the group, counted from 1. Above both, from RANK_BITS on, it has 1 and the rank of the
block that has the object, if that is another one than the block whose memory the copy accesses (`.cta_group::2`).
"""

from __future__ import annotations

from warpsight.base.compiled import jit
from warpsight.emulator.codegen.warp_order import CLOCK, KNOWS, RANK, WORDS, lanes_at, part

OBJECTS, GENERATION_BITS, RANK_BITS = 64, 20, 27
_FIELDS = 3
_OFFSET, _PHASES, _PARITY = range(_FIELDS)
_GENERATIONS = (1 << GENERATION_BITS) - 1


@jit()
def cells_at(warps):  # type: ignore[no-untyped-def]
    """Where the cells of shared memory begin, behind all this."""
    return _arrived(warps, OBJECTS)


@jit()
def _groups(warps):  # type: ignore[no-untyped-def]
    return lanes_at(warps, warps) + _FIELDS * OBJECTS


@jit()
def _known(warps, warp):  # type: ignore[no-untyped-def]
    """Where what a warp knows begins; number `warps` is what was handed on."""
    return _groups(warps) + warps + (OBJECTS + warps) * warp


@jit()
def _arrived(warps, number):  # type: ignore[no-untyped-def]
    """Where the clocks begin that those knew who arrived on an object."""
    return _known(warps, warps + 1) + warps * number


@jit()
def start_copies(block, warps):  # type: ignore[no-untyped-def]
    """A block starts: there are no copies."""
    for k in range(lanes_at(warps, warps), cells_at(warps)):
        block[k] = 0


@jit()
def _object(block, first, warps, offset):  # type: ignore[no-untyped-def]
    """The number of the object at an offset, in the words of a block that begin at `first`; -1 if there are too many."""
    for k in range(OBJECTS):
        number = ((offset >> 3) + k) % OBJECTS
        at = first + lanes_at(warps, warps) + _FIELDS * number
        if block[at + _OFFSET] == 0:
            block[at + _OFFSET] = offset + 1
        if block[at + _OFFSET] == offset + 1:
            return number
    return -1


@jit()
def clock_of_object(block, first, warps, offset):  # type: ignore[no-untyped-def]
    """The clock of a copy that completes on an object, -1 if there is none for it."""
    number = _object(block, first, warps, offset)
    if number < 0:
        return number
    phases = block[first + lanes_at(warps, warps) + _FIELDS * number + _PHASES]
    return number << GENERATION_BITS | min(phases + 1, _GENERATIONS)


@jit()
def clock_elsewhere(block, home, clock):  # type: ignore[no-untyped-def]
    """The clock of a copy that accesses another block than that of its object, whose words begin at `home`."""
    return clock | (block[RANK] + home // block[WORDS] + 1) << RANK_BITS


@jit()
def clock_of_group(block, warps, warp):  # type: ignore[no-untyped-def]
    """The clock of a copy in the next group of a warp."""
    return OBJECTS + warp << GENERATION_BITS | min(block[_groups(warps) + warp] + 1, _GENERATIONS)


@jit()
def initialise(block, warps, offset):  # type: ignore[no-untyped-def]
    """An object is made, or made anew: its next phase is one that nobody has waited for, whatever its parity."""
    number = _object(block, 0, warps, offset)
    if number >= 0:
        block[lanes_at(warps, warps) + _FIELDS * number + _PARITY] = 0


@jit()
def arrive_on(block, warps, warp, offset):  # type: ignore[no-untyped-def]
    """The warp arrives on an object."""
    number, knows, clock = _object(block, 0, warps, offset), part(KNOWS, warps) + warp * warps, part(CLOCK, warps) + warp
    hand_on(block, warps, warps, warp)
    if number < 0:
        return
    at = _arrived(warps, number)
    for other in range(warps):
        block[at + other] = max(block[at + other], block[clock] if other == warp else block[knows + other])
    block[clock] += 1


@jit()
def wait(block, warps, warp, offset, parity):  # type: ignore[no-untyped-def]
    """The warp has seen that the phase of this parity is over."""
    hand_on(block, warps, warp, warps)
    number = _object(block, 0, warps, offset)
    if number < 0:
        return
    at = lanes_at(warps, warps) + _FIELDS * number
    if block[at + _PARITY] != parity + 1:
        block[at + _PHASES] += 1
        block[at + _PARITY] = parity + 1
    block[_known(warps, warp) + number] = block[at + _PHASES]
    knows, arrived = part(KNOWS, warps) + warp * warps, _arrived(warps, number)
    for other in range(warps):
        block[knows + other] = max(block[knows + other], block[arrived + other])


@jit()
def commit(block, warps, warp):  # type: ignore[no-untyped-def]
    """The warp ends a group."""
    block[_groups(warps) + warp] += 1


@jit()
def wait_for_groups(block, warps, warp, left):  # type: ignore[no-untyped-def]
    """The warp has waited until at most so many of its groups are not done."""
    at = _known(warps, warp) + OBJECTS + warp
    block[at] = max(block[at], block[_groups(warps) + warp] - left)


@jit()
def hand_on(block, warps, to, source):  # type: ignore[no-untyped-def]
    """Whoever has number `to` learns what `source` knows; number `warps` is what was handed on."""
    target, origin = _known(warps, to), _known(warps, source)
    for k in range(OBJECTS + warps):
        block[target + k] = max(block[target + k], block[origin + k])


@jit()
def is_done(block, first, warps, warp, clock):  # type: ignore[no-untyped-def]
    """Does the warp know that a copy is done that accesses the block whose words begin at `first`? Of another block than its own
    what was handed on there counts.
    """
    if clock >> RANK_BITS:
        first = ((clock >> RANK_BITS) - 1 - block[RANK]) * block[WORDS]
        clock &= (1 << RANK_BITS) - 1
    known = first + _known(warps, warps) if first else _known(warps, warp)
    generation = clock & _GENERATIONS
    return generation == _GENERATIONS or block[known + (clock >> GENERATION_BITS)] >= generation
