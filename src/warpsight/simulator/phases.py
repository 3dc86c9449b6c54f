"""mbarriers: a phase of one is over when all its arrivals and bytes have come; what an instruction does there is in its event.

An event ends with a `traces.schema.BARRIER_RECORD`.
"""

from __future__ import annotations

from warpsight.base.compiled import inlined
from warpsight.simulator.state import State
from warpsight.simulator.structures import Phase

RECORD_BYTES = 12


@inlined
def _field(state: State, record: int, first: int, size: int) -> int:
    value = 0
    for k in range(size):
        value |= state.events[record + first + k] << 8 * k  # as int64
    return value


@inlined
def find(state: State, place: int, record: int) -> int:
    """The number, among the SM's, of the mbarrier that the event of a warp of the block at `place` names there; -1: none."""
    number = state.objects[_field(state, record, 0, 2)]
    return number + place * state.machine.phases if number >= 0 else -1


@inlined
def amount(state: State, record: int) -> int:
    """Arrivals, or the parity that a test is for."""
    return _field(state, record, 2, 2)


@inlined
def data(state: State, record: int) -> int:
    """Bytes to wait for, or below 0 those that have come."""
    value = _field(state, record, 4, 4)
    return value - ((value >> 31) << 32)


@inlined
def blocks(state: State, record: int) -> int:
    """The ranks, as a mask, of the blocks of the cluster at whose mbarrier it acts; 0: at that of its own block."""
    return _field(state, record, 10, 2)


@inlined
def reaches(state: State, record: int) -> int:
    """Of a copy the ranks, as a mask, of the blocks that its data reach, if it is a multicast; else 0."""
    return _field(state, record, 8, 2)


@inlined
def begin(phase: Phase) -> None:
    """The mbarrier of a new block."""
    phase.pending, phase.parity = -1, 0
    phase.data = phase.latest = phase.over = phase.total = phase.noc_wait = phase.dram_wait = 0


@inlined
def end(phase: Phase, when: int) -> None:
    """The phase is over; the next one begins. Bytes that it has still to wait for, or that came too early, are not forgotten."""
    phase.parity ^= 1
    phase.over = max(phase.latest, when)
    phase.pending, phase.latest = -1, 0


@inlined
def _is_over(phase: Phase, when: int) -> bool:
    phase.latest = max(phase.latest, when)
    if phase.pending != 0 or phase.data != 0:
        return False
    end(phase, when)
    return True


@inlined
def arrive(state: State, phase: Phase, record: int, moved: int, when: int) -> bool:
    """The arrivals that an event has are there at `when`, with `moved` bytes to wait for. Returns whether the phase is over.

    What only brings bytes does not say how many arrivals a phase expects.
    """
    expected = _field(state, record, 8, 2)
    if phase.pending < 0 and expected > 0:
        phase.pending = expected
    phase.pending -= amount(state, record)
    phase.data += moved
    phase.total = 0
    return _is_over(phase, when)


@inlined
def complete(phase: Phase, moved: int, when: int, total: int, noc: int, dram: int) -> bool:
    """A copy has brought its bytes (`moved` below 0) at `when`, `total` cycles after its issue, of them in queues."""
    phase.data += moved
    phase.total, phase.noc_wait, phase.dram_wait = total, noc, dram
    return _is_over(phase, when)
