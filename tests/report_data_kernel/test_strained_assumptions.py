"""Does a kernel that is not what a model takes it to be violate that assumption, with the right figure, and no other kernel?"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.analysis.assumption_checks import CHECKS
from warpsight.analysis.assumptions import assumptions, checks_of
from warpsight.analysis.report_data.resources import alone, needs_of, speed_of_light
from warpsight.analysis.what_if import what_if
from warpsight.caches.exact.simulate import CacheSimulation
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.models.base import get_model, model_names
from warpsight.pipeline.evaluate import predict_profiled, profile_trace
from warpsight.pipeline.request import Method
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit


def found(trace: KernelTrace, model: str = "mdm", gpu: GpuSpec | None = None, *, grid: bool = False) -> dict[str, Any]:
    """The checks of a model on a kernel by key."""
    gpu = gpu or load_gpu("mdm-pascal")
    case = profile_trace(trace, gpu)
    prediction = predict_profiled(case, gpu, [model])[0]
    designs = what_if(case, gpu, model) if grid else None
    needs = needs_of(case, gpu)
    document = assumptions(case, gpu, prediction, speed_of_light(needs, gpu, prediction), alone(needs, case, gpu), designs)
    return {row["key"]: row for row in document["checks"]} | {row["key"]: None for row in document["untouched"]}


@pytest.mark.parametrize("model", model_names())
def test_every_model_names_checks_that_there_are_and_has_those_of_all(model: str) -> None:
    named = get_model(model).about.checks
    keys = [check.key for check in checks_of(model)]
    assert keys[: len(named)] == list(named)
    assert {"peak", "divergence", "order", "cache-edge", "estimated", "sampled"} <= set(keys)


def test_every_check_is_somebody_s_and_says_what_it_measures_and_why_its_bound_is_where_it_is() -> None:
    used = {key for model in model_names() for key in get_model(model).about.checks}
    for key in CHECKS:
        check = CHECKS.get(key)
        assert check.always or key in used
        assert all((check.assumption.endswith("."), check.measure, check.why))
        assert check.unit in ("share", "ratio")


# A change of a GPU, and whether the caches are simulated again for it. The kernel adds numbers of 32 bits, without square root and
# atomic. Warm, all that it accesses is in the L2, whose sets then decide nothing, unless they hold less than that.
COLD_OR_WARM = {"latency.sfu=77 cycles": 0, "l2.atomic_width=4 B": 0, "latency.fp32=77 cycles": 1, "l1.size=12 KiB": 1}
IN_L2 = {"l2.size=6 MiB": 0, "l2.ways=16": 0, "l2.index=xor": 0, "dram.queue=7": 0, "dram.row=1 KiB": 0, "l2.replacement=random": 0}
CHANGES = [
    ("mdm-pascal", "cold", COLD_OR_WARM | dict.fromkeys(("l2.size=6 MiB", "dram.row=1 KiB"), 1)),
    ("mdm-pascal", "warm", COLD_OR_WARM | IN_L2 | {"l2.size=48 KiB": 1}),
    ("a100", "auto", {"l2.size=80 MiB": 0, "l2.ways=32": 0, "dram.queue=7": 0, "sm.access_queue=1": 1}),
]


@pytest.mark.parametrize(("gpu", "before", "changes"), CHANGES)
def test_designs_that_differ_in_what_decides_nothing_for_a_kernel_share_a_cache_simulation(
    traced: Any, monkeypatch: pytest.MonkeyPatch, gpu: str, before: str, changes: dict[str, int]
) -> None:
    simulated, run = [0], CacheSimulation._simulated

    def counted(simulation: CacheSimulation, *before: Any) -> Any:
        simulated[0] += 1
        return run(simulation, *before)

    monkeypatch.setattr(CacheSimulation, "_simulated", counted)
    trace, own, method = replace(traced("stream")), load_gpu(gpu), Method(caches_before=before)
    profile_trace(trace, own, method)
    for change, times in changes.items():
        changed, simulated[0] = load_gpu(own, [change]), 0
        found = profile_trace(trace, changed, method).misses
        assert bool(simulated[0]) == bool(times), change
        alone = profile_trace(replace(trace), changed, method).misses  # of which nothing is known
        assert all(np.array_equal(getattr(found, each.name), getattr(alone, each.name)) for each in fields(alone)), change


def test_uniform_stream_violates_nothing_that_is_about_its_warps(traced: Any) -> None:
    rows = found(traced("stream"))
    assert rows["alike-warps"]["value"] == rows["equal-blocks"]["value"] == 0
    assert rows["divergence"]["value"] == 1
    assert rows["barriers"] is rows["bank-conflicts"] is rows["atomics"] is rows["sampled"] is None
    assert not any(rows[key]["violated"] for key in ("alike-warps", "mean-warp", "slowest-warp", "equal-blocks", "divergence"))


def test_warps_of_two_lengths_violate_alike_warps_by_the_spread_of_their_counts(traced: Any) -> None:
    trace = traced("uneven")
    # counted warp by warp, independently of paths' weights
    size = np.diff(trace.block_start)
    length = [
        int(sum(size[trace.paths.block[k]] * trace.paths.repeat[k] for k in range(begin, end)))
        for begin, end in zip(trace.paths.offset[:-1], trace.paths.offset[1:], strict=True)
    ]
    counts = np.array([length[path] for chunk in trace.chunks for path in chunk.path], dtype=np.float64)
    rows = found(trace)
    assert rows["alike-warps"]["value"] == pytest.approx(counts.std() / counts.mean())
    assert rows["alike-warps"]["violated"]
    assert rows["mean-warp"]["violated"]


def test_column_access_of_shared_memory_violate_the_banks_with_its_passes(traced: Any) -> None:
    row = found(traced("uneven"))["bank-conflicts"]
    # one store of a column (32 passes), one load of a column (32 passes)
    assert "32.0 passes" in row["detail"]
    assert found(traced("uneven"), "warpsight").get("bank-conflicts") is None, "it counts them itself"


def test_lanes_that_wait_for_an_eighth_of_them_violate_divergence(traced: Any) -> None:
    trace = traced("uneven")
    row = found(trace)["divergence"]
    assert row["value"] == pytest.approx(trace.header.thread_instructions / trace.header.warp_instructions / 32)
    assert row["violated"]
    assert row["value"] < row["bound"]


def test_barriers_are_counted_over_a_warp_s_instructions(traced: Any) -> None:
    trace = traced("uneven")
    warps = trace.header.blocks * trace.header.warps_per_block
    row = found(trace)["barriers"]
    assert row["value"] == pytest.approx(1 * 7 / (trace.header.warp_instructions / warps))


def test_atomics_on_one_address_violate_a_model_that_spreads_them(traced: Any) -> None:
    row = found(traced("uneven"))["atomics"]
    assert row["value"] > 0
    assert "further cycles" in row["detail"]


def test_model_without_bandwidth_is_beyond_the_peak_of_a_stream(traced: Any) -> None:
    gpu = load_gpu("mdm-pascal", overrides=["dram.bandwidth=20GB/s"])
    rows = found(traced("stream"), "mt", gpu)
    case = profile_trace(traced("stream"), gpu)
    speed = speed_of_light(needs_of(case, gpu), gpu, predict_profiled(case, gpu, ["mt"])[0])
    assert rows["peak"]["value"] == pytest.approx(next(row["percent"] for row in speed if row["name"] == "dram") / 100)
    assert rows["peak"]["violated"]
    assert rows["dram-load"]["violated"]
    assert not found(traced("stream"), "warpsight", gpu)["peak"]["violated"]


def test_launch_of_one_block_more_than_its_places_violate_whole_waves() -> None:
    gpu = load_gpu("mdm-pascal", overrides=["sm.max_blocks=1"])
    source = "extern \"C\" __global__ void one(float *a) { a[blockIdx.x * 32 + threadIdx.x] = 1.0f; }"
    trace = warpsight.trace(source, grid=gpu.sm_count + 1, block=32, args=["f32[928]:zeros"])
    row = found(trace, "mdm", gpu)["last-wave"]
    assert row["value"] == pytest.approx(1 - 29 / 56)
    assert row["violated"]
    full = warpsight.trace(source, grid=2 * gpu.sm_count, block=32, args=["f32[1792]:zeros"])
    assert found(full, "mdm", gpu)["last-wave"]["value"] == 0


def test_estimated_number_that_binds_is_named_with_how_much_it_moves(traced: Any) -> None:
    gpu = load_gpu("mdm-pascal", overrides=["dram.bandwidth=20GB/s"])
    doubtful = replace(gpu, sources=dict(gpu.sources) | {"dram.bandwidth": "estimated"})
    assert not found(traced("stream"), "bottleneck", gpu)["estimated"]["violated"]
    row = found(traced("stream"), "bottleneck", doubtful)["estimated"]
    # bound by DRAM: a tenth more bandwidth takes 1 / 1.1 of the cycles
    assert row["value"] == pytest.approx((1 - 1 / 1.1) / 0.1, rel=1e-3)
    assert "dram.bandwidth" in row["detail"]
    assert row["violated"]


def test_data_that_almost_fit_into_the_l2_are_at_its_edge() -> None:
    source = """
    extern "C" __global__ void again(const float *in, float *out) {
        float x = 0.0f;
        for (int k = 0; k < 6; k++) x += in[(threadIdx.x + blockIdx.x * 128 + k * 7168) % 43008 * 32 % 43008];
        out[blockIdx.x * 128 + threadIdx.x] = x;
    }"""
    gpu = load_gpu("mdm-pascal", overrides=["l2.size=192KiB", "l1.size=6KiB", "dram.bandwidth=60GB/s"])
    trace = warpsight.trace(source, grid=336, block=128, args=["f32[43008]:uniform", "f32[43008]:zeros"])
    row = found(trace, "mdm", gpu, grid=True)["cache-edge"]
    changed = [
        abs(warpsight.predict(trace, gpu, "mdm", [word]).cycles / warpsight.predict(trace, gpu, "mdm").cycles - 1)
        for word in ("l2.size=96KiB", "l2.size=384KiB", "l1.size=3KiB", "l1.size=12KiB")
    ]
    assert row["value"] == pytest.approx(max(changed))


def test_order_is_checked_with_the_other_one(traced: Any) -> None:
    trace = traced("gather")
    row = found(trace)["order"]
    other = warpsight.predict(trace, "mdm-pascal", "mdm", interleaving="round-robin").cycles
    assert row["value"] == pytest.approx(abs(other / warpsight.predict(trace, "mdm-pascal", "mdm").cycles - 1))


def test_sampled_trace_says_how_well_its_blocks_stand_for_all() -> None:
    source = "extern \"C\" __global__ void some(float *a, int n) { float x = 1; for (int k = 0; k < blockIdx.x % 4; k++) " \
             "x = x * 2.0f + a[k]; a[blockIdx.x * 32 + threadIdx.x] = x; }"  # fmt: skip
    trace = warpsight.trace(source, grid=400, block=32, args=["f32[12800]:zeros", "i32:3"], sample=40, seed=3)
    row = found(trace)["sampled"]
    assert 0 < row["value"] < 0.2
    assert row["detail"] == "40 of 400 blocks are recorded"


def test_cache_hits_violate_a_model_that_has_no_caches(traced: Any) -> None:
    rows = found(traced("gather"), "mwp-cwp")
    misses = profile_trace(traced("gather"), load_gpu("mdm-pascal")).misses
    dram = int(misses.l2_read_misses.sum() + misses.l2_read_merges.sum())
    assert rows["caches-hit"]["value"] == pytest.approx(1 - dram / int(misses.l1_reads.sum()))
    assert rows["caches-hit"]["violated"]
