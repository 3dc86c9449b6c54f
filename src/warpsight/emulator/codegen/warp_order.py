"""Racecheck's order of the warps of a block and of a cluster, by barriers, and of the lanes of a warp, by what they meet at.

Each warp keeps a clock, and knows up to which clock it is behind each other warp of its block: a vector clock, as in FastTrack
(Flanagan and Freund, PLDI 2009), with warps for threads. All warps of a cluster arrive at each of its barriers, so there is nothing
that one would learn from another: a warp that has waited is behind what all of them did before they arrived in that round.

The words of a block (int64), of the blocks of a cluster one after the other, by rank. In the header: which of its warps have read
strongly, as bits; how many words a block has, its rank, the blocks of the cluster (0 or 1: there is none), and the block's
number, -1 before it starts; whether tensor memory was used, and the kind of the operation that is looked at (`copy_order.py`).
Then of each of its `warps` warps its clock, the clock when all of its lanes last met, the barrier at which it waits, the lanes
that wait there, the clock of its last fence, the rounds of the cluster's barrier for which it has waited, and how often it came
to each barrier; what those know that arrived at each barrier, in even and odd rounds; what each warp knows of each; when each two
lanes last met. Parts begin at so many times `warps`, behind the header; the cells of shared memory come last.
"""

from __future__ import annotations

from warpsight.base.compiled import jit
from warpsight.emulator.codegen import layout as lay

BLOCK_HEADER = 8
ACQUIRED, WORDS, RANK, BLOCKS, NUMBER, TENSOR, KIND_NOW = range(7)
CLOCK, MET, _WAITS, _WAITING, FENCED, _ROUNDS, _GENERATION = range(7)
_BARRIERS = lay.RECORD_ROWS
_ARRIVED = _GENERATION + _BARRIERS
KNOWS = _ARRIVED + 2 * _BARRIERS
_ALL = 0xFFFFFFFF
_RANKS = (1 << 32 - lay.RANK_SHIFT) - 1


@jit()
def part(number, warps):  # type: ignore[no-untyped-def]
    """Where a part of a block's words begins."""
    return BLOCK_HEADER + number * warps


@jit()
def lanes_at(warps, warp):  # type: ignore[no-untyped-def]
    """Where the words of a warp's lanes begin."""
    return BLOCK_HEADER + (KNOWS + warps) * warps + 1024 * warp


@jit()
def start(block, warps, number):  # type: ignore[no-untyped-def]
    """A block starts where another has ended: nobody waits, nothing was read. Clocks go on, so that no cell has to be cleared."""
    block[ACQUIRED], block[NUMBER] = 0, number
    for k in range(part(_WAITS, warps), part(_WAITING, warps)):
        block[k] = 0
    for k in range(part(_ROUNDS, warps), part(_ARRIVED, warps)):
        block[k] = 0
    for k in range(part(CLOCK, warps), part(MET, warps)):
        block[k] += 1


@jit()
def meet(block, warps, warp, mask):  # type: ignore[no-untyped-def]
    """Lanes of a mask have met: what each did before happens before what the others do."""
    clock = block[part(CLOCK, warps) + warp]
    block[part(CLOCK, warps) + warp] = clock + 1
    if mask == _ALL:
        block[part(MET, warps) + warp] = clock
        return
    lanes = lanes_at(warps, warp)
    for lane in range(32):
        if mask >> lane & 1:
            for other in range(32):
                if mask >> other & 1:
                    block[lanes + 32 * lane + other] = clock


@jit()
def resume(block, warps, warp, mask):  # type: ignore[no-untyped-def]
    """The warp goes on behind a barrier: it knows now what all knew that arrived there. False if it did not wait at one."""
    slot, lanes = block[part(_WAITS, warps) + warp], block[part(_WAITING, warps) + warp]
    if slot == 0 or not lanes & mask:
        return False
    if block[ACQUIRED]:  # what one warp has seen is seen by all behind the barrier
        block[ACQUIRED] |= 1 << warp
    knows, arrived = part(KNOWS, warps) + warp * warps, part(_ARRIVED, warps) + (slot - 1) * warps
    for other in range(warps):
        block[knows + other] = max(block[knows + other], block[arrived + other])
    block[part(_WAITS, warps) + warp] = 0
    meet(block, warps, warp, lanes)
    return True


@jit()
def arrive(block, warps, warp, number, mask, waits):  # type: ignore[no-untyped-def]
    """The warp arrives at a barrier. Rounds alternate, so that who has not gone on yet learns nothing of the next round."""
    at = part(_GENERATION, warps) + _BARRIERS * warp + number
    again = waits and block[part(_WAITS, warps) + warp] == 2 * number + 1 + ((block[at] - 1) & 1)
    if again:  # other lanes of the warp came before
        slot = block[part(_WAITS, warps) + warp] - 1
        block[part(_WAITING, warps) + warp] |= mask
    else:
        slot = 2 * number + (block[at] & 1)
        block[at] += 1
        if waits:
            block[part(_WAITS, warps) + warp], block[part(_WAITING, warps) + warp] = slot + 1, mask
    arrived, knows, clock = part(_ARRIVED, warps) + slot * warps, part(KNOWS, warps) + warp * warps, part(CLOCK, warps) + warp
    for other in range(warps):
        block[arrived + other] = max(block[arrived + other], block[knows + other])
    block[arrived + warp] = max(block[arrived + warp], block[clock])
    block[clock] += 1


# -- Clusters.

@jit()
def wait_for_cluster(block, warps, warp, mask):  # type: ignore[no-untyped-def]
    """The warp waits until all warps of the cluster have arrived at its barrier, as it has."""
    rounds = block[part(_GENERATION, warps) + _BARRIERS * warp + lay.CLUSTER_ROW]
    slot = 2 * lay.CLUSTER_ROW + ((rounds - 1) & 1)
    waiting = part(_WAITING, warps) + warp
    block[waiting] = (block[waiting] if block[part(_WAITS, warps) + warp] == slot + 1 else 0) | mask
    block[part(_WAITS, warps) + warp] = slot + 1
    block[part(_ROUNDS, warps) + warp] = rounds


@jit()
def is_in_cluster(block, number):  # type: ignore[no-untyped-def]
    """Does block `number` of the launch run in the cluster?"""
    found = False
    for rank in range(block[BLOCKS]):
        found |= block[(rank - block[RANK]) * block[WORDS] + NUMBER] == number
    return found


@jit()
def words_of_address(block, address):  # type: ignore[no-untyped-def]
    """How far behind this block's words those of the block are that has an address in shared memory, whose ranks count from it."""
    away = address >> lay.RANK_SHIFT & _RANKS
    return ((block[RANK] + away & _RANKS) - block[RANK]) * block[WORDS] if away else 0


@jit()
def met_in_cluster(block, warps, warp, number, clock):  # type: ignore[no-untyped-def]
    """Had warp `number` of the launch passed `clock` when it arrived at the barrier of the cluster that this warp has passed?"""
    rounds = block[part(_ROUNDS, warps) + warp]
    for rank in range(block[BLOCKS] if rounds else 0):
        first = (rank - block[RANK]) * block[WORDS]
        if block[first + NUMBER] == number // warps:
            slot = 2 * lay.CLUSTER_ROW + ((rounds - 1) & 1)
            return block[first + part(_ARRIVED, warps) + slot * warps + number % warps] >= clock
    return False
