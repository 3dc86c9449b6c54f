"""Does the summary of a prediction name the causes, lines, changes and doubts that explain, advise and the checks find?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warpsight
from warpsight.analysis.advice.advise import LEAST_SHOWN, advise_trace
from warpsight.analysis.advice.rule import CACHES, PROGRAMMER
from warpsight.analysis.explanation import explain_profiled
from warpsight.analysis.summary import kernel_place, summary
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import predict_profiled, profile_trace
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

GPU = load_gpu("mdm-pascal")
Traced = Callable[[str], KernelTrace]


def summarized(trace: KernelTrace, *overrides: str) -> tuple[dict[str, Any], Prediction]:
    """The summary and its prediction."""
    gpu = load_gpu(GPU, overrides)
    profiled = profile_trace(trace, gpu)
    (prediction,) = predict_profiled(profiled, gpu, ["warpsight"])
    return summary(profiled, gpu, prediction), prediction


def test_causes_are_the_largest_components_with_the_lines_that_explain_charges(traced: Traced) -> None:
    found, prediction = summarized(traced("gather"))
    explained = explain_profiled(profile_trace(traced("gather"), GPU), GPU, "warpsight", found["view"])
    parts = {row.line: row.cpi_stack for row in explained.rows}
    stack = prediction.cpi_stack
    assert [cause["component"] for cause in found["why"]] == sorted(stack, key=lambda name: -stack[name])[: len(found["why"])]
    assert any(cause["lines"] for cause in found["why"])
    for cause in found["why"]:
        assert cause["share"] == pytest.approx(stack[cause["component"]] / prediction.cpi)
        for line in cause["lines"]:
            assert line["share"] == pytest.approx(parts[line["line"]][cause["component"]] / prediction.cpi)
    assert found["hottest"]["share"] == max(row.share for row in explained.rows)


def test_fewer_blocks_than_sms_is_why_sms_are_idle_and_more_blocks_is_what_to_do(traced: Traced) -> None:
    found, prediction = summarized(traced("stream"), "sm_count=600")
    (idle,) = (cause for cause in found["why"] if cause["component"] == "idle")
    assert idle["text"] == "344 of 600 SMs have no block"
    (balance,) = (change for change in found["advice"] if change["rule"] == "balance")
    assert balance["title"].startswith("the same work in 600 blocks instead of 256")
    assert balance["speedup"] == pytest.approx(prediction.cycles / balance["cycles"])
    assert balance["gain"] >= LEAST_SHOWN


def test_last_wave_and_unequal_blocks_are_other_reasons(traced: Traced) -> None:
    found, _ = summarized(traced("stream"), "sm_count=200")
    (idle,) = (cause for cause in found["why"] if cause["component"] == "idle")
    assert idle["text"] == "the busiest SM runs 2 blocks, the mean is 1.28"


CONFLICTS = """
extern "C" __global__ void conflicts(float *out) {
    __shared__ float rows[32 * 32];
    int lane = threadIdx.x % 32;
    float x = lane;
    for (int k = 0; k < 64; k++) {
        rows[lane * 32 + k % 32] = x;
        __syncwarp();
        x += rows[lane * 32 + (k + 1) % 32];
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
"""


@pytest.fixture(scope="module")
def conflicts(tmp_path_factory: pytest.TempPathFactory) -> KernelTrace:
    """A kernel whose accesses to shared memory all go to one bank."""
    source = tmp_path_factory.mktemp("summary") / "conflicts.cu"
    source.write_text(CONFLICTS)
    return warpsight.trace(source, grid=56, block=64, args=["f32[3584]:zeros"])


def test_bank_conflicts_are_a_cause_of_their_own_with_degree_lines_and_remedy(conflicts: KernelTrace) -> None:
    found, _ = summarized(conflicts)
    assert found["why"][0]["text"] == "shared memory: 32-way bank conflicts"
    assert {line["line"] for line in found["why"][0]["lines"]} == {7, 9}
    (change,) = (change for change in found["advice"] if change["rule"] == "bank_conflicts")
    assert change["speedup"] > 1.05


def test_rows_that_take_longer_than_transfers_are_why_accesses_queue_at_dram(traced: Traced) -> None:
    rows = ("dram.row=2 KiB", "dram.row_interval=1000 ns")
    for more, text in (((), "queueing at DRAM"), (rows, "queueing at DRAM: opening rows takes longer than the transfers")):
        found, prediction = summarized(traced("gather"), *more, "dram.bandwidth=60 GB/s")
        assert next(cause for cause in found["why"] if cause["component"] == "dram")["text"] == text
        faster = summarized(traced("gather"), *more, "dram.bandwidth=120 GB/s")[1]
        assert (faster.cycles == prediction.cycles) == bool(more), "more bandwidth helps the transfers alone"


def test_place_of_a_kernel_is_where_it_is_declared(conflicts: KernelTrace) -> None:
    place = kernel_place(conflicts)
    assert place is not None
    assert Path(place["file"]).name == "conflicts.cu"
    assert CONFLICTS.splitlines()[place["line"] - 1].startswith('extern "C" __global__ void conflicts(')


@pytest.mark.parametrize("name", ["stream", "gather", "uneven"])
def test_changes_are_those_of_advise_and_the_others_are_named(name: str, traced: Traced) -> None:
    found, _ = summarized(traced(name))
    everything = {change.what_if.title: change for change in advise_trace(traced(name), GPU, "warpsight").changes}
    for change in found["advice"]:
        same = everything[change["title"]]
        assert (same.gain, same.prediction.cycles) == (change["gain"], change["cycles"])
        assert same.what_if.owner == PROGRAMMER
        assert same.what_if.again != CACHES
    shown = {change["title"] for change in found["advice"]} | {change["title"] for change in found["not_tried"]}
    large = {title for title, change in everything.items() if change.gain >= LEAST_SHOWN and change.what_if.owner == PROGRAMMER}
    assert large <= shown


def test_predicting_again_is_no_part_of_a_summary(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    profiled = profile_trace(traced("gather"), GPU)
    (prediction,) = predict_profiled(profiled, GPU, ["warpsight"])

    def simulated(*_: object, **__: object) -> None:
        raise AssertionError("the caches were simulated again")

    monkeypatch.setattr("warpsight.pipeline.evaluate.miss_profile", simulated)
    assert any("coalesced" in change["title"] for change in summary(profiled, GPU, prediction)["not_tried"])


def test_assumption_is_violated_where_its_check_says_so(traced: Traced) -> None:
    assert [check["key"] for check in summarized(traced("stream"))[0]["violated"]] == []
    keys = [check["key"] for check in summarized(traced("uneven"))[0]["violated"]]
    assert "alike-warps" in keys
    assert not {"order", "cache-edge", "estimated"} & set(keys)


def test_simulator_is_compared_by_time_and_by_the_component_that_differs_most(traced: Traced) -> None:
    profiled = profile_trace(traced("stream"), GPU)
    (mdm,) = predict_profiled(profiled, GPU, ["mdm"])
    simulated = warpsight.simulate(traced("stream"), gpu=GPU)
    found = summary(profiled, GPU, mdm, simulated=simulated)["simulator"]
    assert found["difference"] == pytest.approx(simulated.cycles / mdm.cycles - 1)
    shares = {name: (mdm.cpi_stack[name] / mdm.cpi, part / simulated.cpi) for name, part in simulated.cpi_stack.items()}
    most = max(shares, key=lambda name: abs(shares[name][0] - shares[name][1]))
    differs = found["differs"]
    assert (differs is None) == (abs(shares[most][0] - shares[most][1]) < 0.15)
    assert differs is None or (differs["component"], differs["share"], differs["simulator_share"]) == (most, *shares[most])
