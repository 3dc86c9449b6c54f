"""Do warps at a barrier that counts threads wait for these alone, in model and simulator? Cycles by hand, on an H100 PCIe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.traces.events import EventReader
from warpsight.traces.exporters.accelsim.writer import export_accelsim
from warpsight.traces.importers.accelsim.importer import import_accelsim
from warpsight.traces.schema import BARRIER_RECORD, NAMED_BARRIER, NO_OBJECT, KernelTrace

pytestmark = pytest.mark.unit

EACH = 4  # cycles of a multiply-add that depends on the one before
ROUNDS = 6, 18
SHARED = 29  # latency of shared memory
HANDED_ON = 50  # at most, for an arrival, the wait behind it, the loop, and a store to shared memory

# Two warp groups, each of which computes in turn while the other may not (`inside`), and then by itself (`outside`): what
# FlashAttention-3 does with its products and its softmax. The group that arrives at a barrier does not wait there. Only accesses to
# memory keep the assembler from moving the work over a barrier.
PING_PONG = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 rounds)
{{
    .reg .b32 %t, %w, %r, %n, %own, %other; .reg .b64 %q; .reg .pred %p, %second; .shared .b32 turn[2];
    mov.u32 %t, %tid.x; shr.u32 %w, %t, 7; setp.ne.u32 %second, %w, 0; ld.param.u32 %r, [rounds]; mov.u32 %n, %t;
    add.u32 %own, %w, 1; sub.u32 %other, 3, %own;
    @!%second bra next;
    bar.arrive 1, 256;
next: .pragma "nounroll";
    bar.sync %own, 256;
    ld.volatile.shared.u32 %n, [turn];
    {inside}
    st.volatile.shared.u32 [turn], %n;
    bar.arrive %other, 256;
    ld.volatile.shared.u32 %n, [turn+4];
    {outside}
    sub.u32 %r, %r, 1; setp.ne.u32 %p, %r, 0; @%p bra next;
    @%second bra end;
    bar.sync 1, 256;
end: ld.param.u64 %q, [out]; st.global.u32 [%q], %n;
    ret;
}}
"""


def chain(count: int) -> str:
    return "\n".join(["mad.lo.u32 %n, %n, %n, %t;"] * count)


def a_round(inside: int, outside: int, level: str) -> np.ndarray:
    """Cycles of a round, by the model and by the simulator."""
    gpu: dict[str, Any] = {"gpu": "h100-pcie", "overrides": ["dispatch.grid=0 cycles"], "caches_before": "cold"}
    text, out = PING_PONG.format(inside=chain(inside), outside=chain(outside)), np.zeros(1, np.uint32)
    traces = (warpsight.trace(text, "k", grid=1, block=256, args=[out, n], gpu="h100-pcie", level=level) for n in ROUNDS)
    few, many = (np.array([run(trace, **gpu).cycles for run in (warpsight.predict, warpsight.simulate)]) for trace in traces)
    return np.asarray((many - few) / (ROUNDS[1] - ROUNDS[0]))


@pytest.mark.parametrize(
    ("inside", "outside", "level", "expected"),
    [
        (200, 20, "ptx", 2 * (SHARED + 200 * EACH)),  # each waits until the other has been inside
        (200, 20, "sass", 2 * (SHARED + 200 * EACH)),
        (100, 400, "ptx", 2 * SHARED + (100 + 400) * EACH),  # the other has long been inside
    ],
)
def test_two_groups_that_hand_on_a_turn_alternate(inside: int, outside: int, level: str, expected: int) -> None:
    found = a_round(inside, outside, level)
    assert (found > expected).all() and (found < expected + 2 * HANDED_ON).all()


def records(trace: KernelTrace) -> list[tuple[int, tuple[int, ...]]]:
    """Warps, and what they do at barriers, in order; without executions under a guard that no lane passes."""
    (chunk,) = trace.chunks
    found = []
    events = EventReader(trace).read(chunk)
    for warp, pc, byte in zip(events.warp.tolist(), events.pc.tolist(), events.byte.tolist(), strict=True):
        if trace.instructions[pc].at_barrier:
            bytes_ = chunk.events[byte : byte + BARRIER_RECORD.itemsize].tobytes()
            found += [(warp, np.frombuffer(bytes_, BARRIER_RECORD).tolist()[0])]
    return [each for each in found if each[1][0] != NO_OBJECT]


THREE_WARPS = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u32 number)
{
    .reg .b32 %t, %n; .reg .pred %p;
    mov.u32 %t, %tid.x; ld.param.u32 %n, [number]; setp.lt.u32 %p, %t, 32;
    bar.sync 0;
    @%p bra first;
    bar.sync %n, 64;
    bar.arrive 7, 96;
    bra end;
first: bar.sync 7, 96;
end: ret;
}
"""


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_an_event_names_the_barrier_and_the_threads_that_it_counts(level: str) -> None:
    """The last warp has 16 threads, and counts as one of 32; a barrier of the whole block has no event."""
    trace = warpsight.trace(THREE_WARPS, "k", grid=1, block=80, args=[3], gpu="h100-pcie", level=level)
    third, seventh = ((NAMED_BARRIER + number, 32, 0, threads, 0) for number, threads in ((3, 64), (7, 96)))
    assert sorted(records(trace)) == [(0, seventh), (1, third), (1, seventh), (2, third), (2, seventh)]
    assert sum(i.waits_for_part for i in trace.instructions) == 2


def test_an_export_for_accel_sim_has_each_barrier_on_a_line_of_its_own(tmp_path: Path) -> None:
    """And every instruction around it: the format has no place for the record."""
    trace = warpsight.trace(THREE_WARPS, "k", grid=1, block=80, args=[3], gpu="h100-pcie", level="sass")
    export_accelsim(trace, tmp_path / "out")
    again = import_accelsim(tmp_path / "out")[0].trace()
    assert again.header.warp_instructions == trace.header.warp_instructions
    barriers = [i.opcode for i in again.instructions if i.opcode.startswith("BAR.")]
    assert sorted(barriers) == sorted(i.opcode for i in trace.instructions if i.opcode.startswith("BAR."))
