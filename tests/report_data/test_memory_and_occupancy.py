"""Are the memory chart's traffic and the occupancy's curves those of the rooflines, the speed of light and CUDA's rules?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import warpsight
from warpsight.analysis.report_data.kernel import Parts, kernel_report_data
from warpsight.base.errors import UsageError
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.occupancy import occupancy
from warpsight.reports.formats import plain

pytestmark = pytest.mark.unit

WARPS = 64 * 4
# Each warp stores a column, 32 lanes on one bank, loads it by rows, and adds to a counter.
TURNED = """
extern "C" __global__ void turned(const float *in, float *out, int *count) {
    __shared__ float tile[32][32];
    int i = blockIdx.x * 32 + threadIdx.x;
    tile[threadIdx.x][0] = in[i];
    __syncthreads();
    out[i] = tile[0][threadIdx.x];
    if (threadIdx.x == 0) atomicAdd(count, 1);
}
"""


@pytest.fixture(scope="module")
def turned() -> dict[str, Any]:
    """Report data of `turned` on 40 blocks of a warp."""
    trace = warpsight.trace(TURNED, grid=40, block=32, args=["f32[1280]:uniform", "f32[1280]:zeros", "i32[1]:zeros"], level="ptx")
    parts = Parts(what_if="none")
    made: dict[str, Any] = plain(kernel_report_data(trace, load_gpu("mdm-pascal"), "warpsight", beside=["mdm"], parts=parts))
    return made


def link(document: dict[str, Any], begin: str, end: str, access: str) -> dict[str, Any]:
    """The only link of that kind."""
    (found,) = (each for each in document["memory"]["links"] if (each["from"], each["to"], each["access"]) == (begin, end, access))
    return dict(found)


def box(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The box of that name."""
    return next(each for each in document["memory"]["boxes"] if each["name"] == name)


def total(rows: Iterable[dict[str, Any]], key: str) -> float:
    """The sum of a column."""
    return float(sum(row[key] for row in rows))


def test_loads_and_stores_of_a_stride_are_counted_by_request_and_sector(report_data: dict[str, Any]) -> None:
    load, store = link(report_data, "l1", "kernel", "load"), link(report_data, "kernel", "l1", "store")
    assert (load["instructions"], load["requests"], load["bytes"]) == (WARPS, 32 * WARPS, 32 * 32 * WARPS)
    assert (store["instructions"], store["requests"], store["bytes"]) == (WARPS, WARPS, 4 * 32 * WARPS)
    assert not [each for each in report_data["memory"]["links"] if "shared" in (each["from"], each["to"])]


def test_conflicts_and_atomics_have_links_of_their_own(turned: dict[str, Any]) -> None:
    store, load = link(turned, "kernel", "shared", "store"), link(turned, "shared", "kernel", "load")
    assert (store["instructions"], store["passes"], store["conflict_passes"]) == (40, 32 * 40, 31 * 40)
    assert (load["instructions"], load["passes"], load["conflict_passes"]) == (40, 40, 0)
    assert box(turned, "shared")["conflict_share"] == pytest.approx(31 / 33)
    assert link(turned, "kernel", "l1", "atomic")["instructions"] == 40


@pytest.mark.parametrize("name", ["report_data", "turned"])
def test_bytes_are_those_of_the_rooflines_and_shares_of_peak_those_of_the_speed_of_light(
    name: str, request: pytest.FixtureRequest
) -> None:
    document = request.getfixturevalue(name)
    links, levels = document["memory"]["links"], {each["name"]: each["bytes"] for each in document["rooflines"][0]["levels"]}
    used = {row["name"]: row["percent"] for row in document["speed_of_light"]}
    near = [each for each in links if "kernel" in (each["from"], each["to"])]
    noc = [each for each in links if {each["from"], each["to"]} == {"l1", "l2"}]
    dram = [each for each in links if "dram" in (each["from"], each["to"])]
    # atomics bypass the L1
    assert total((each for each in near if "bytes" in each and each["access"] != "atomic"), "bytes") == pytest.approx(levels["L1"])
    assert total(noc, "bytes") == pytest.approx(levels["L2"])
    assert total(dram, "bytes") == pytest.approx(levels.get("DRAM", 0.0))
    assert total(near, "percent") == pytest.approx(used["l1"])
    assert box(document, "l1")["percent"] + box(document, "shared")["percent"] == pytest.approx(used["l1"])
    assert max(each["percent"] for each in noc) == pytest.approx(used["noc"])
    assert total(dram, "percent") == pytest.approx(used["dram"]) == pytest.approx(box(document, "dram")["percent"])
    assert box(document, "l2")["percent"] == used["l2"]


def test_hit_rates_of_the_boxes_are_those_of_the_only_load(report_data: dict[str, Any]) -> None:
    (load,) = (row for row in report_data["code"]["line"]["rows"] if row["text"].startswith("ld.global"))
    assert box(report_data, "l1")["hit_rate"] == load["l1_hit_rate"]
    assert box(report_data, "l2")["hit_rate"] == load["l2_hit_rate"]


def test_curves_are_the_occupancy_of_every_value_and_limits_those_of_the_launch(turned: dict[str, Any]) -> None:
    found, gpu = turned["occupancy"], load_gpu("mdm-pascal")
    launch = turned["predictions"][0]["provenance"]["launch"]
    own = {"threads": 32, "registers": launch["registers_per_thread"], "shared_bytes": 4096}
    assert min(found["limits"].values()) == found["limits"][found["limiter"]] == found["blocks_per_sm"]
    for curve in found["curves"]:
        assert curve["own"] == own[curve["name"]]
        starts = [start for start, _ in curve["steps"]]
        assert starts == sorted(set(starts))
        for value in {*starts, *(start - 1 for start in starts[1:]), curve["own"], curve["most"], curve["most"] // 3}:
            warps = [warps for start, warps in curve["steps"] if start <= value][-1]
            try:
                expected = occupancy(gpu, *(own | {curve["name"]: value}).values()).warps_per_sm
            except UsageError:
                expected = 0
            assert warps == expected, (curve["name"], value)
        assert [warps for start, warps in curve["steps"] if start <= curve["own"]][-1] == found["warps_per_sm"]
