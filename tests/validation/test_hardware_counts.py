"""Are the counts that are compared with real GPUs read rightly, and does the machine code that is executed here have the same?"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

import pytest

import warpsight

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT.parent / "shared" / "traces"
sys.path.insert(0, str(ROOT / "validation"))

from hardware_counts import CASES, Counts, of_hardware, of_trace  # noqa: E402  found by the line above

needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="the traces of real GPUs are not beside the checkout")

LINES = """
thread block = 0,0,0
warp = 0
insts = 5
0000 ffffffff 1 R1 MOV 0 0 0
00a0 ffffffff 1 R4 LDG.E 1 R4 4 1 0x7fb0fc430e04 4 0
00b0 0000000f 1 R3 LDG.E 1 R2 4 2 0x1000 64 -32 4 0
00d0 00000003 0 STG.E.U8 2 R4 R255 1 0 0x40 0x9f
00f0 00000000 0 STG.E 2 R6 R9 4 1
"""


def test_addresses_are_read_in_all_three_forms(tmp_path: Path) -> None:
    """A stride from within a sector, differences that come back to one, a list; an access by no lane is none."""
    path = tmp_path / "kernel.xz"
    path.write_bytes(lzma.compress(LINES.encode()))
    counts = of_hardware(path)
    assert counts.warp == {"MOV": 1, "LDG": 2, "STG": 2}
    assert counts.threads == {"MOV": 32, "LDG": 36, "STG": 2}
    assert counts.accesses == {"global load": 2, "global store": 1}
    assert counts.sectors == {"global load": 5 + 3, "global store": 2}


@needs_traces
@pytest.mark.parametrize(
    ("name", "instructions", "lanes", "sectors"),
    [
        ("vectorAdd", 26_601, 801_056, 18_750), ("bfs, Kernel, last step", 15_165, 59_579, 2_390),
        ("b+tree", 21_832, 546_076, 103_144),
    ],
)
def test_the_traces_have_the_counts_of_another_reader(name: str, instructions: int, lanes: int, sectors: int) -> None:
    """Those that stand beside the traces."""
    counts = of_hardware(TRACES / next(case.trace for case in CASES if case.name == name))
    assert (counts.warp.total(), counts.threads.total(), counts.sectors.total()) == (instructions, lanes, sectors)


@needs_traces
def test_machine_code_of_a_tree_search_accesses_what_the_gpu_accessed() -> None:
    """Loads, stores and sectors of device memory, comparisons and branches, from inputs that are read from the trace."""
    case = next(case for case in CASES if case.name == "b+tree")
    trace = warpsight.trace(
        case.text, kernel=case.kernel, grid=case.grid, block=case.block, args=case.given(TRACES), gpu=case.gpu, level="sass"
    )
    here, there = of_trace(trace), of_hardware(TRACES / case.trace)

    def compared(counts: Counts) -> dict[str, int]:
        kinds = ("global load", "global store", "local store")
        return {
            **{base: counts.warp[base] for base in ("LDG", "STG", "STL", "ISETP", "BRA", "EXIT")},
            **{kind: counts.accesses[kind] for kind in kinds}, **{f"sectors of {kind}": counts.sectors[kind] for kind in kinds},
        }  # fmt: skip

    assert compared(here) == compared(there)
    assert here.warp["LDL"] - there.warp["LDL"] == 15  # parts of a warp that the GPU joined where ours run apart
    assert there.warp["BSYNC"] - here.warp["BSYNC"] == 624  # each part that arrives executes it there
