"""Does a barrier take a block's warps one after the other, and as long as measured? Cycles by hand, in model and simulator."""

from __future__ import annotations

import numpy as np
import pytest

import warpsight
from warpsight.gpu.loader import load_gpu

pytestmark = pytest.mark.unit

BARRIERS, ROUNDS = 64, (2, 6)
INTERVAL, LATENCY = 2, 13

HEAD = ".version 8.6\n.target sm_80\n.address_size 64\n"
KERNEL = """.visible .entry {name}(.param .u64 out, .param .u32 rounds)
{{
    .reg .b32 %r, %n, %t; .reg .b64 %q; .reg .pred %p; .shared .b32 word[1];
    ld.param.u32 %r, [rounds]; mov.u32 %n, 0; mov.u32 %t, %tid.x;
    setp.ge.u32 %p, %t, {those}; @%p ret;
next: .pragma "nounroll";
    {barriers}
    sub.u32 %r, %r, 1; setp.ne.u32 %p, %r, 0; @%p bra next;
    ld.param.u64 %q, [out]; st.global.u32 [%q], %n;
    {copy}
    ret;
}}
"""
COPY = "cp.async.ca.shared.global [word], [%q], 4;"  # walks the block as a whole, with its barriers
WHOLE = [(32, 14.6), (256, 28), (512, 45), (1024, 77)]  # threads, cycles as measured
PARTS = [(256, 128), (512, 64), (1024, 512)]  # threads, and how many the barrier is for


def name_of(threads: int, those: int, walked: bool) -> str:
    return f"k_{threads}_{those}" + "_walked" * walked


def kernel_text(threads: int, those: int, walked: bool) -> str:
    barriers = [f"bar.sync 1, {those};" if those else "bar.sync 0;"] * BARRIERS
    name = name_of(threads, those, walked)
    return KERNEL.format(name=name, barriers="\n".join(barriers), those=those or threads, copy=COPY if walked else "")


# All kernels are assembled at once: the disassembler takes long to start.
TEXT = HEAD + "".join(
    [kernel_text(threads, 0, walked) for threads, _ in WHOLE for walked in (False, True)]
    + [kernel_text(*part, False) for part in PARTS]
)


def a_barrier(gpu: str, threads: int, *changes: str, walked: bool = False, those: int = 0) -> list[float]:
    """Cycles of one barrier of many, by the model and by the simulator; `changes` of the description.

    `those`: how many threads it is for; 0: for all. The other ones end at once.
    """
    out, name = np.zeros(1, np.uint32), name_of(threads, those, walked)
    traces = [warpsight.trace(TEXT, name, grid=1, block=threads, args=[out, n], gpu=gpu, level="sass") for n in ROUNDS]
    assert all("BAR.SYNC" in " ".join(i.opcode for i in trace.instructions) for trace in traces)
    return [
        (many - few) / (ROUNDS[1] - ROUNDS[0]) / BARRIERS
        for few, many in ([run(trace, gpu=gpu, overrides=changes).cycles for trace in traces]
                          for run in (warpsight.predict, warpsight.simulate))
    ]  # fmt: skip


@pytest.mark.parametrize("walked", [False, True])
@pytest.mark.parametrize(("threads", "measured"), WHOLE)
def test_a_barrier_takes_two_cycles_a_warp_and_thirteen_more(threads: int, measured: float, walked: bool) -> None:
    """All warps go on together, arrive one after the other, and go on again. `measured` on a B300 (QuickRunCUDA)."""
    by_hand = INTERVAL * threads / 32 + LATENCY
    assert by_hand == pytest.approx(measured, abs=1)
    for found in a_barrier("b200", threads, walked=walked):
        assert by_hand <= found <= by_hand + 1  # counting and branching of a round are a part of a cycle for each barrier


@pytest.mark.parametrize(("threads", "those"), PARTS)
def test_a_barrier_of_a_part_takes_as_long_for_the_warps_of_the_part(threads: int, those: int) -> None:
    """The same unit takes their arrivals."""
    by_hand = INTERVAL * those / 32 + LATENCY
    for found in a_barrier("b200", threads, those=those):
        assert by_hand <= found <= by_hand + 1


def test_without_the_keys_a_barrier_takes_no_time_but_the_issue_of_its_warps() -> None:
    """As in the papers' simulators: 32 warps issue on four schedulers, and the assembler leaves 8 cycles to the next one."""
    untimed = "sm.barrier_interval=0cycles", "sm.barrier_latency=0cycles"
    model, simulator = a_barrier("b200", 1024, *untimed)
    assert 8 <= model <= 9 and 8 <= simulator <= 9


def test_which_gpus_have_timed_barriers() -> None:
    """Those of compute capability 7.0 and later, of which a source has the rate."""
    for name in ("v100", "titan-v", "t4", "a100", "rtx3080", "rtx4070", "h100-sxm", "b200", "rtx5090"):
        sm = load_gpu(name).sm
        assert (sm.barrier_interval_cycles, sm.barrier_latency_cycles) == (INTERVAL, LATENCY), name
    for name in ("gpumech", "mdm-pascal", "gtx280", "gtx1080"):
        sm = load_gpu(name).sm
        assert (sm.barrier_interval_cycles, sm.barrier_latency_cycles) == (0, 0), name
