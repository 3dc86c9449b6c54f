"""Does synccheck find misused barriers, member masks, shuffles and mbarrier objects at both levels, and nothing in right code?"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from emulator_launch import KERNELS, launch

from warpsight.base.errors import LaunchFault
from warpsight.base.findings import SYNCCHECK, Finding
from warpsight.emulator.run.launch import execute, prepare_kernel
from warpsight.kernels.launch import KernelSource, RunOptions
from warpsight.kernels.launch_check import make_launch
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import Architecture

pytestmark = pytest.mark.unit
I32 = np.int32
CHECKS = frozenset({SYNCCHECK})
FILE = "synchronization.cu"


@functools.cache
def source() -> KernelSource:
    """The kernels, some of which need the architecture that they are compiled for."""
    return load_source(KERNELS / FILE, arch="sm_80")


def findings(kernel: str, block: int, *args: int, native: bool = False) -> tuple[list[Finding], list[int]]:
    """What is found, and what the kernel has written by then."""
    found: list[Finding] = []
    kernels, out = source(), np.zeros(256, I32)
    prepared = prepare_kernel(kernels, kernel, architecture=Architecture(80) if native else None, checks=CHECKS)
    options = RunOptions(check=CHECKS, found=found.append)
    given = make_launch(kernels, kernel, 1, block, [out, *args])
    execute(prepared, given, None, options=options, inspect=lambda memory: memory.write_back())
    assert all(f.tool == SYNCCHECK and f.kernel == kernel and f.remedy for f in found)
    return found, out.tolist()


def line_of(kernel: str, text: str) -> int:
    """The first line of a kernel that contains `text`."""
    lines = (KERNELS / FILE).read_text().split("\n")
    start = next(k for k, line in enumerate(lines) if f" {kernel}(" in line)
    return next(k for k in range(start, len(lines)) if text in lines[k]) + 1


def line(finding: Finding) -> int:
    assert finding.site is not None
    return finding.site.line


RIGHT: list[tuple[Any, ...]] = [
    ("misses_barrier", 64, 64), ("two_barriers", 64, 32), ("warps_apart", 64, 2), ("ends_early", 64, 40), ("ends_within", 64, 2),
    ("ends_within", 64, 1), ("goes_around", 64, 2, 2), ("goes_around", 64, 0, 2), ("guarded", 128, 4), ("counts_differ", 64, 0),
    ("loop_of_barriers", 128, 64), ("not_in_mask", 32, 15), ("masks_differ", 32, 0), ("reads_absent", 32, 32),
    ("partial_warp", 16, 16), ("exchange_apart", 32, 0), ("exchange_apart", 32, 32), ("tiles", 64), ("mbarriers", 64, 0),
]  # fmt: skip


@pytest.mark.parametrize("native", [False, True], ids=["ptx", "sass"])
@pytest.mark.parametrize("case", RIGHT, ids=lambda case: "-".join(map(str, case)))
def test_right_code_has_no_finding_and_the_results_that_it_has_unchecked(case: tuple[Any, ...], native: bool) -> None:
    kernel, block, *args = case
    found, out = findings(kernel, block, *args, native=native)
    assert found == []
    unchecked = np.zeros(256, I32)
    launch(source(), kernel, 1, block, [unchecked, *args])
    assert out == unchecked.tolist()


@pytest.mark.parametrize("native", [False, True], ids=["ptx", "sass"])
def test_barrier_that_lanes_of_a_warp_pass_by_is_divergent_and_those_that_ended_before_are_not(native: bool) -> None:
    (finding,), _ = findings("misses_barrier", 64, 48, native=native)
    assert (finding.kind, line(finding), finding.count) == ("divergent-barrier", line_of("misses_barrier", "__syncthreads"), 16)
    assert "lanes 16-31 of its warp pass by" in finding.message
    assert finding.site is not None
    assert finding.site.thread == (32, 0, 0)


@pytest.mark.parametrize("native", [False, True], ids=["ptx", "sass"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_warp_that_goes_around_a_barrier_and_ends_is_found(rounds: int, native: bool) -> None:
    (finding,), _ = findings("goes_around", 64, 1, rounds, native=native)
    assert (finding.kind, line(finding)) == ("divergent-barrier", line_of("goes_around", "__syncthreads"))
    assert finding.count == 32 * rounds
    assert "warp 1 passes by" in finding.message
    assert finding.site is not None
    assert finding.site.thread == (0, 0, 0)


@pytest.mark.parametrize("native", [False, True], ids=["ptx", "sass"])
def test_warp_that_goes_around_a_barrier_under_a_guard_is_found(native: bool) -> None:
    (finding,), _ = findings("guarded", 128, 2, native=native)
    assert (finding.kind, line(finding)) == ("divergent-barrier", line_of("guarded", "__syncthreads"))
    assert "warp 2 passes by" in finding.message


def test_lanes_of_a_warp_at_two_barriers_are_found_and_go_on_as_on_a_gpu() -> None:
    (finding,), out = findings("two_barriers", 64, 8)
    first = line_of("two_barriers", "__syncthreads")
    assert (finding.kind, line(finding), finding.count) == ("divergent-barrier", first + 3, 48)
    assert finding.other is not None
    assert (finding.other.line, finding.other.thread) == (first, (0, 0, 0))
    assert out[:64] == [3, *[3] * 7, *[4] * 24, *[3] * 8, *[4] * 24]


@pytest.mark.parametrize("native", [False, True], ids=["ptx", "sass"])
def test_warps_of_a_block_at_two_barriers_are_found(native: bool) -> None:
    (finding,), _ = findings("warps_apart", 64, 1, native=native)
    first = line_of("warps_apart", "__syncthreads")
    assert (finding.kind, line(finding)) == ("divergent-barrier", first + 3)
    assert finding.other is not None
    assert finding.other.line == first


@pytest.mark.parametrize("native", [False, True], ids=["ptx", "sass"])
def test_barrier_with_two_counts_is_found_before_its_deadlock(native: bool) -> None:
    found: list[Finding] = []
    kernels = source()
    prepared = prepare_kernel(kernels, "counts_differ", architecture=Architecture(80) if native else None, checks=CHECKS)
    given = make_launch(kernels, "counts_differ", 1, 64, [np.zeros(64, I32), 1])
    with pytest.raises(LaunchFault, match="deadlock: every running thread of block"):
        execute(prepared, given, None, options=RunOptions(check=CHECKS, found=found.append))
    assert [f.kind for f in found] == ["barrier-counts", "deadlock"]
    assert "(96)" in found[0].message
    assert (line(found[0]), line(found[1])) == (line_of("counts_differ", '%0;"'), line_of("counts_differ", "1, 64"))


@pytest.mark.parametrize("native", [False, True], ids=["ptx", "sass"])
def test_lanes_of_a_mask_that_wait_elsewhere_are_missing(native: bool) -> None:
    found: list[Finding] = []
    kernels = source()
    prepared = prepare_kernel(kernels, "waits_for_ever", architecture=Architecture(80) if native else None, checks=CHECKS)
    given = make_launch(kernels, "waits_for_ever", 1, 32, [np.zeros(64, I32), 4])
    with pytest.raises(LaunchFault, match="deadlock: every running thread of block"):
        execute(prepared, given, None, options=RunOptions(check=CHECKS, found=found.append))
    assert [f.kind for f in found] == ["missing-lanes"]
    assert "lanes 0-3 for lanes of its warp" in found[0].message
    assert native or line(found[0]) == line_of("waits_for_ever", "__syncwarp")


def test_lane_outside_of_its_own_mask_is_found() -> None:
    (finding,), _ = findings("not_in_mask", 32, 16)
    assert (finding.kind, finding.count) == ("lane-not-in-mask", 1)
    assert "lane 16, is not in its own member mask 0x0000ffff" in finding.message
    assert line(finding) == line_of("not_in_mask", "wrong")
    assert findings("not_in_mask", 32, 16, native=True)[0] == []  # the assembler has left it out: no lane has gone another way


@pytest.mark.parametrize("native", [False, True], ids=["ptx", "sass"])
def test_masks_that_name_lanes_with_other_masks_are_found(native: bool) -> None:
    found, out = findings("masks_differ", 32, 1, native=native)
    assert {(f.kind, f.count) for f in found} == {("masks-differ", 16)}  # the half whose lanes name different masks
    assert out[:4] == [1, 0, 3, 2]


@pytest.mark.parametrize("native", [False, True], ids=["ptx", "sass"])
@pytest.mark.parametrize(("kernel", "block", "lanes", "count"), [("reads_absent", 32, 12, 8), ("partial_warp", 16, 32, 16)])
def test_shuffle_that_reads_lanes_that_are_not_there_is_a_warning(
    kernel: str, block: int, lanes: int, count: int, native: bool
) -> None:
    (finding,), _ = findings(kernel, block, lanes, native=native)
    assert (finding.kind, finding.severity, finding.count) == ("shuffle-of-inactive-lane", "warning", count)


def test_lanes_that_shuffle_in_two_places_are_missing_to_each_other() -> None:
    found, _ = findings("exchange_apart", 32, 4)
    missing = [f for f in found if f.kind == "missing-lanes"]
    shuffles = line_of("exchange_apart", "__shfl_sync")
    assert {(line(f), f.count) for f in missing} == {(shuffles, 4), (shuffles + 2, 28)}


MBARRIERS = [
    (1, {"mbarrier-uninitialised"}, "error"), (2, {"mbarrier-count"}, "error"), (3, {"mbarrier-live"}, "warning"),
    (4, {"mbarrier-uninitialised"}, "error"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "kinds", "severity"), MBARRIERS)
def test_misused_mbarrier_objects_are_found_and_the_launch_goes_on(what: int, kinds: set[str], severity: str) -> None:
    found, _ = findings("mbarriers", 64, what)
    assert {f.kind for f in found} == kinds
    assert {f.severity for f in found} == {severity}
    assert {(f.space, f.address, f.bytes) for f in found} == {("shared", 0, 8)}


def test_arrival_at_an_object_that_was_never_initialised_is_found_in_machine_code() -> None:
    found, _ = findings("mbarriers", 64, 1, native=True)
    assert {f.kind for f in found} == {"mbarrier-uninitialised"}
