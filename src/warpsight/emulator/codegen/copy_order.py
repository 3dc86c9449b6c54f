"""Racecheck's order by mbarrier objects of a block: between warps, and of the bulk copies that complete on them.

A warp that has seen the end of a phase knows what those knew that had arrived on the object, as behind a barrier.

A bulk copy accesses shared memory on its own, from its issue until the phase of its mbarrier object is over, or until its group has
been waited for. So it does not happen before anything that its warp does next. The n-th phase of an object that somebody has waited
for ends the copies that were issued in it; a warp that has waited knows so, and hands it on at barriers, fences and arrivals. Which
of them is not looked at, as with other flags.

Operations on tensor memory are asynchronous in the same way. The products and copies that a warp has issued until it commits them
are a group of it, and so are its loads, and its stores, until `tcgen05.wait`. A commit hands its object the number of the group,
from which who waits for the object learns it. In a cluster a commit may signal objects of other blocks, which are not told apart:
there all know at once. Operations of one warp of one kind (products and copies, or loads and stores) follow each other in order.

The words, behind those of a block's lanes: of OBJECTS mbarrier objects the offset and 1 (0: free), how many phases were waited
for, and the parity of the last one and 1; of each of KINDS of groups, those that each warp has committed; of each warp, and of
what was handed on, the phases of each object and the groups of each kind and warp that are known to be over; of each object the
clocks of all warps that those knew who arrived on it; of each object the groups of each warp's products that were committed to
it; of each warp, up to which clock of it somebody has executed a fence of the asynchronous proxy.

The clock in the stamp of an access by a copy is the number of an object, or OBJECTS and the number of a warp for its groups, above
GENERATION_BITS, and below them the phase or the group, counted from 1. Above both, from RANK_BITS on, it has 1 and the rank of the
block that has the object, if that is another one than the block whose memory the copy accesses (`.cta_group::2`).
"""

from __future__ import annotations

from warpsight.base.compiled import jit
from warpsight.emulator.codegen.warp_order import BLOCKS, CLOCK, KNOWS, RANK, TENSOR, WORDS, lanes_at, part

OBJECTS, GENERATION_BITS, RANK_BITS = 64, 19, 27
KINDS = 4  # of groups: bulk copies; products and copies of tensor memory, its loads, its stores
COPIES, PRODUCTS, LOADS, STORES = range(KINDS)
_FIELDS = 3
_OFFSET, _PHASES, _PARITY = range(_FIELDS)
_GENERATIONS = (1 << GENERATION_BITS) - 1


@jit()
def cells_at(warps):  # type: ignore[no-untyped-def]
    """Where the cells of shared memory begin, behind all this."""
    return fenced_at(warps) + warps


@jit()
def fenced_at(warps):  # type: ignore[no-untyped-def]
    """Where the clocks begin up to which fences of the asynchronous proxy reach, of each warp."""
    return _arrived(warps, 2 * OBJECTS)


@jit()
def _groups(warps):  # type: ignore[no-untyped-def]
    return lanes_at(warps, warps) + _FIELDS * OBJECTS


@jit()
def _known(warps, warp):  # type: ignore[no-untyped-def]
    """Where what a warp knows begins; number `warps` is what was handed on."""
    return _groups(warps) + KINDS * warps + (OBJECTS + KINDS * warps) * warp


@jit()
def _arrived(warps, number):  # type: ignore[no-untyped-def]
    """Where the clocks begin that those knew who arrived on an object; from OBJECTS on the groups that were committed to one."""
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
def clock_of_group(block, warps, warp, kind):  # type: ignore[no-untyped-def]
    """The clock of an operation in the next group of a warp."""
    number = kind * warps + warp
    return OBJECTS + number << GENERATION_BITS | min(block[_groups(warps) + number] + 1, _GENERATIONS)


@jit()
def in_one_order(clock, warps, warp, kind):  # type: ignore[no-untyped-def]
    """Does an operation of `kind` follow one with a clock, of its own warp, without being told to wait?"""
    number = (clock & (1 << RANK_BITS) - 1) >> GENERATION_BITS
    before = (number - OBJECTS) // warps
    if kind == COPIES or number < OBJECTS or before == COPIES or (number - OBJECTS) % warps != warp:
        return False
    return (before == PRODUCTS) == (kind == PRODUCTS)


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
    products, committed = _known(warps, warp) + OBJECTS + PRODUCTS * warps, _arrived(warps, OBJECTS + number)
    for other in range(warps):
        block[knows + other] = max(block[knows + other], block[arrived + other])
        block[products + other] = max(block[products + other], block[committed + other])


@jit()
def commit(block, warps, warp, kind):  # type: ignore[no-untyped-def]
    """The warp ends a group."""
    block[_groups(warps) + kind * warps + warp] += 1


@jit()
def wait_for_groups(block, warps, warp, kind, left):  # type: ignore[no-untyped-def]
    """The warp has waited until at most so many of its groups are not done."""
    number = kind * warps + warp
    at = _known(warps, warp) + OBJECTS + number
    block[at] = max(block[at], block[_groups(warps) + number] - left)


@jit()
def commit_products(block, warps, warp, offset):  # type: ignore[no-untyped-def]
    """The warp ends a group of products, which an object stands for from now on; of a cluster all know it at once."""
    commit(block, warps, warp, PRODUCTS)
    done = block[_groups(warps) + PRODUCTS * warps + warp]
    if block[BLOCKS] > 1:
        block[_known(warps, warps) + OBJECTS + PRODUCTS * warps + warp] = done
        return
    number = _object(block, 0, warps, offset)
    if number >= 0:
        block[_arrived(warps, OBJECTS + number) + warp] = done


@jit()
def fence_proxies(block, warps, warp):  # type: ignore[no-untyped-def]
    """What the warp did, and what it knows that others did, can be seen by asynchronous operations."""
    knows, fenced, clock = part(KNOWS, warps) + warp * warps, fenced_at(warps), part(CLOCK, warps) + warp
    for other in range(warps):
        block[fenced + other] = max(block[fenced + other], block[clock] if other == warp else block[knows + other])
    block[clock] += 1


@jit()
def hand_on(block, warps, to, source):  # type: ignore[no-untyped-def]
    """Whoever has number `to` learns what `source` knows; number `warps` is what was handed on."""
    target, origin = _known(warps, to), _known(warps, source)
    for k in range(OBJECTS + (KINDS * warps if block[TENSOR] else warps)):
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
