"""Do the lanes, sectors and lines of a report agree with addresses that are worked out by hand?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsight.analysis.report_data.loads import (
    CHANGED,
    NO_KERNEL,
    Access,
    histograms,
    lanes_of,
    loads,
    sectors_of,
    typical_and_worst,
)
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import profile_trace
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import trace_kernel

pytestmark = pytest.mark.unit

SOURCE = """
extern "C" __global__ void patterns(const float* in, const int* table, float* out, unsigned* bins) {
  __shared__ float tile[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float contiguous = in[i], strided = in[8 * i], random = in[table[i]];
  tile[2 * threadIdx.x] = contiguous;
  if (threadIdx.x < 16) atomicAdd(&bins[0], 1u);
  out[i] = strided + random + tile[2 * threadIdx.x];
}
"""
BLOCKS = 6


@pytest.fixture(scope="module")
def request_(tmp_path_factory: pytest.TempPathFactory) -> KernelRequest:
    """Blocks of one warp. In the first four blocks the table has one element, in the others one a line."""
    folder = tmp_path_factory.mktemp("patterns")
    path = folder / "patterns.cu"
    path.write_text(SOURCE)
    thread = np.arange(32 * BLOCKS)
    np.save(folder / "table.npy", np.where(thread < 128, 7, 32 * (thread % 32)).astype(np.int32))
    arguments = ("f32[2048]:uniform", f"@{folder / 'table.npy'}", f"f32[{32 * BLOCKS}]:zeros", "u32[4]:zeros")
    return KernelRequest(str(path), grid=BLOCKS, block=32, args=arguments)


@pytest.fixture(scope="module")
def found(request_: KernelRequest) -> dict[str, Any]:
    gpu = load_gpu("mdm-pascal")
    return loads(profile_trace(trace_kernel(request_), gpu), gpu, request_)


def _entries(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Loads by what their lanes do, the rest by kind."""
    device = [entry for entry in found["loads"] if entry["space"] == "global"]
    loads_alone = [entry for entry in device if entry["access"] == "load"]
    names = {"random": next(entry for entry in loads_alone if len(entry["sectors"]) == 2)}
    names["strided"] = next(entry for entry in loads_alone if entry["sectors"] == [[32, BLOCKS]])
    names |= {entry["access"]: entry for entry in device if entry["access"] != "load"}
    return names


def test_strided_lanes_touch_a_sector_each(found: dict[str, Any]) -> None:
    entry = _entries(found)["strided"]
    assert entry["sectors"] == [[32, BLOCKS]]
    (pattern,) = entry["patterns"]
    assert (pattern["kind"], pattern["executions"], pattern["lines"]) == ("typical", BLOCKS, 8)
    assert pattern["sectors"] == list(range(32))
    assert pattern["lanes"] == [32 * lane for lane in range(32)]
    assert pattern["bytes_asked"] == 128
    assert pattern["warp"] == BLOCKS // 2


def test_contiguous_lanes_share_four_sectors_of_one_line(found: dict[str, Any]) -> None:
    entry = _entries(found)["store"]
    (pattern,) = entry["patterns"]
    assert pattern["sectors"] == [0, 1, 2, 3]
    assert pattern["lanes"] == [4 * lane for lane in range(32)]
    assert (pattern["lines"], pattern["bytes_asked"]) == (1, 128)


def test_typical_access_is_the_most_frequent_and_the_worst_has_most_sectors(found: dict[str, Any]) -> None:
    entry = _entries(found)["random"]
    assert entry["sectors"] == [[1, 4], [32, 2]]
    typical, worst = entry["patterns"]
    assert (typical["kind"], typical["executions"], typical["lines"], typical["bytes_asked"]) == ("typical", 4, 1, 4)
    assert typical["lanes"] == [28] * 32  # element 7 of its line
    assert (worst["kind"], worst["executions"], worst["lines"], worst["bytes_asked"]) == ("worst", 2, 32, 128)
    assert worst["lanes"] == [128 * lane for lane in range(32)]
    assert worst["warp"] == 4


def test_lanes_that_leave_the_branch_are_not_active(found: dict[str, Any]) -> None:
    entry = _entries(found)["atomic"]
    (pattern,) = entry["patterns"]
    lanes = pattern["lanes"]
    assert lanes[16:] == [None] * 16
    assert len(set(lanes[:16])) == 1
    assert pattern["bytes_asked"] == 4


def test_shared_memory_has_passes_and_no_sectors(found: dict[str, Any]) -> None:
    entries = [entry for entry in found["loads"] if entry["space"] == "shared"]
    assert len(entries) >= 1
    for entry in entries:  # every second word: two lanes to each bank
        assert entry["passes"] == [[2, BLOCKS]]
        assert entry["sectors"] == []
        assert entry["executions"] == BLOCKS
        assert "patterns" not in entry


def test_levels_account_for_every_request(found: dict[str, Any]) -> None:
    for entry in found["loads"]:
        if entry["access"] == "load" and entry["space"] == "global":
            total = sum(entry["levels"]["L1"].values())
            assert total == entry["reuse"]["requests"]
            assert total >= entry["executions"]


def test_without_the_kernel_only_32_sectors_tell_their_lanes(request_: KernelRequest) -> None:
    gpu = load_gpu("mdm-pascal")
    found = loads(profile_trace(trace_kernel(request_), gpu), gpu)
    assert found["loads_about"]["lanes_unknown"] == NO_KERNEL
    entries = _entries(found)
    assert entries["strided"]["patterns"][0]["lanes"] == [32 * lane for lane in range(32)]
    assert entries["store"]["patterns"][0]["lanes"] is None
    assert entries["store"]["patterns"][0]["sectors"] == [0, 1, 2, 3]


def test_kernel_with_another_input_is_not_taken_for_the_traced_one(request_: KernelRequest) -> None:
    trace = trace_kernel(request_)
    access = Access(0, 0, 0, (1,), 32)
    assert request_.args is not None
    other = replace(request_, args=("f32[2048]:zeros", *request_.args[1:]))
    assert lanes_of(trace, load_gpu("mdm-pascal"), other, [access]) == ([None], CHANGED)


def test_sampled_launch_finds_the_lanes_of_its_own_blocks(request_: KernelRequest) -> None:
    sampled = replace(request_, sample=3)
    gpu = load_gpu("mdm-pascal")
    found = loads(profile_trace(trace_kernel(sampled), gpu), gpu, sampled)
    assert found["loads_about"]["lanes_unknown"] == ""
    (store,) = (entry for entry in found["loads"] if entry["space"] == "global" and entry["access"] == "store")
    assert store["executions"] == 3
    assert store["patterns"][0]["lanes"] == [4 * lane for lane in range(32)]


def test_histograms_count_each_execution_with_an_active_lane(request_: KernelRequest) -> None:
    trace = trace_kernel(request_)
    sectors, passes = histograms(trace)
    for instruction in trace.instructions:
        assert sectors[instruction.pc].sum() == (BLOCKS if instruction.has_sectors else 0)
        assert passes[instruction.pc].sum() == (BLOCKS if instruction.has_degree and not instruction.has_sectors else 0)


def test_first_of_equally_frequent_numbers_of_sectors_is_typical() -> None:
    table = np.zeros((2, 256), np.int64)
    table[0, [4, 8, 32]] = [5, 5, 1]
    chosen = typical_and_worst(table)
    assert chosen["typical"].tolist() == [4, 0]
    assert chosen["worst"].tolist() == [32, 0]


def test_sectors_of_lanes_come_in_the_order_of_lanes_without_those_that_are_not_active() -> None:
    lanes = (100, None, 32, 96, 0, *[None] * 27)
    assert sectors_of(lanes) == (3, 1, 0)


def test_lanes_are_the_same_in_every_run(request_: KernelRequest, found: dict[str, Any], tmp_path: Path) -> None:
    gpu = load_gpu("mdm-pascal")
    assert loads(profile_trace(trace_kernel(request_), gpu), gpu, request_) == found


def test_machine_code_has_the_patterns_of_ptx(request_: KernelRequest) -> None:
    gpu = load_gpu("a100")
    drawn = []
    for level in ("ptx", "sass"):
        request = replace(request_, level=level, arch="sm_80")
        data = loads(profile_trace(trace_kernel(request, gpu=gpu), gpu), gpu, request)
        assert data["loads_about"]["lanes_unknown"] == ""
        # the assembler lets one lane make the atomics of all
        entries = [entry for entry in data["loads"] if entry["space"] == "global" and entry["access"] != "atomic"]
        shown = ("kind", "executions", "sectors", "lines", "lanes", "bytes_asked")
        drawn.append(sorted(str([entry["access"], [[p[name] for name in shown] for p in entry["patterns"]]]) for entry in entries))
    assert len(drawn[0]) == 5
    assert drawn[0] == drawn[1]
