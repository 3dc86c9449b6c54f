"""A launch that finds the L2 as the same launch has left it: what is still there is not fetched again, what is dirty is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run
from micro import DRAM_LATENCY, gpu
from trace_by_hand import Warp, build_trace

from warpsight.caches.exact.simulate import simulate_caches
from warpsight.simulator.simulate import simulate_launch
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

LOADS, STORES = ["load.global.4 r0 <- r0"], ["store.global.4 <- r0 r0"]
L2_LINES = (1 << 20) // 128
CHASE = """.version 7.8
.target sm_75
.address_size 64
.visible .entry chase(.param .u64 x) {
    .reg .b32 %r<5>; .reg .b64 %rd<3>; .reg .pred %p;
    ld.param.u64 %rd1, [x]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r1, %r1, 8192, %r2; mov.u32 %r3, 32;
loop:
    mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r4, [%rd2]; add.u32 %r1, %r1, %r4; add.u32 %r1, %r1, 256;
    sub.u32 %r3, %r3, 1; setp.ne.u32 %p, %r3, 0; @%p bra loop;
    ret;
}
"""


def touching(code: list[str], lines: int) -> KernelTrace:
    """One warp of one lane that accesses so many lines; a load waits for the one before."""
    return build_trace(code, [Warp(((0, 1, lines),), [[128 * line] for line in range(lines)])])


@pytest.mark.parametrize(
    ("code", "lines", "reads", "writes"),
    [
        (LOADS, 64, 0, 0),  # all are still there
        (LOADS, 2 * L2_LINES, 2 * L2_LINES, 0),  # least recently used: none is
        (STORES, 64, 0, 0),  # dirty lines that stay
        (STORES, 2 * L2_LINES, 2 * L2_LINES, 2 * L2_LINES),  # each takes the place of a dirty one, also of the launch before
    ],
)
def test_memory_accesses_of_a_repeated_launch(code: list[str], lines: int, reads: int, writes: int) -> None:
    trace = touching(code, lines)
    for totals in (simulate_caches(trace, gpu(), 1, warm=True).totals(), simulate_launch(trace, gpu(), 1, warm=True).totals()):
        assert (totals["dram_reads"], totals["dram_writes"]) == (reads, writes)
        assert totals["l1_misses"] == (lines if code is LOADS else 0), "the L1 is empty"


def test_each_load_of_a_chain_saves_the_latency_of_memory() -> None:
    trace = touching(LOADS, 64)
    cold, warm = (simulate_launch(trace, gpu(), 1, warm=warm).cycles for warm in (False, True))
    assert cold - warm == 64 * DRAM_LATENCY


def test_command_line_says_how_the_launch_found_the_caches(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source, folder = tmp_path / "chase.ptx", str(tmp_path / "t")
    source.write_text(CHASE)
    run(capsys, "trace", source, "--grid", "8", "--block", "32", "--arg", "u32[65536]:zeros", "-o", folder)
    cycles = {}
    for command in ("predict", "simulate"):
        for before in ("cold", "warm"):
            outcome = run(capsys, command, folder, "--gpu", "a100", "--caches-before", before, "--json")
            document = json.loads(outcome.out)
            assert document["provenance"]["method"]["caches_before"] == before
            cycles[command, before] = document["cycles"]
        assert cycles[command, "warm"] < 0.7 * cycles[command, "cold"]
    refused = run(capsys, "predict", folder, "--gpu", "a100", "--caches-before", "warm", "--caches", "reuse-distance")
    assert refused.code == 2 and "begins with empty caches" in refused.err
