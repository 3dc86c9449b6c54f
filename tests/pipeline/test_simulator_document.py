"""Does a simulation answer in the form of a prediction, and what does its document add?"""

from __future__ import annotations

import dataclasses
import json
from itertools import pairwise
from pathlib import Path

import pytest
from trace_by_hand import Warp, build_trace

from warpsight.base.errors import SpecError
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.simulation import simulate_trace, timeline_events, write_timeline
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

CODE = ["load.global.4 r1 <- r0\nint r2 <- r1", "barrier\nint r3 <- r2"]


def kernel(warps: int = 8) -> KernelTrace:
    """Each warp loads 32 lines of its own, twice, waits at a barrier, and is done."""
    path = ((0, 32, 2), (1, 32, 1))
    made = [Warp(path, [[128 * (32 * w + k) + 4 * j for k in range(32)] for j in range(2)]) for w in range(warps)]
    trace = build_trace(CODE, made, 4)
    executed = 6 * warps
    header = dataclasses.replace(trace.header, warp_instructions=executed, thread_instructions=32 * executed)
    return dataclasses.replace(trace, header=header)


def test_document_has_a_prediction_s_keys_and_a_stack_that_sums() -> None:
    document = simulate_trace(kernel(), load_gpu("mdm-pascal")).prediction.to_json()
    assert document["model"] == "simulator"
    assert sum(document["cpi_stack"].values()) == pytest.approx(document["cpi"], abs=1e-9)
    assert document["ipc_sm_warp"] * 28 * document["cycles"] == pytest.approx(document["warp_instructions"])
    assert document["seconds"] == pytest.approx(document["cycles"] / 1.4e9)
    assert document["class"] == "memory-divergent"
    json.dumps(document)


def test_document_says_where_misses_and_time_went() -> None:
    found = simulate_trace(kernel(), load_gpu("mdm-pascal"))
    model = found.prediction.provenance["model"]
    assert model["counts"]["l1_reads"] == 8 * 64
    assert model["l1_read_hit_rate"] == pytest.approx(model["counts"]["l1_hits"] / (8 * 64))
    assert sum(model["l1_miss_latency"].values()) >= 341 - 25
    cycles = [sample["cycle"] for sample in model["over_time"]]
    assert cycles == sorted(cycles)
    assert max(sample["occupancy"] for sample in model["over_time"]) == pytest.approx(8 / (64 * 28))


def test_sample_of_a_launch_stands_for_all_of_it() -> None:
    trace = kernel()
    header = dataclasses.replace(trace.header, grid=(20, 1, 1), sampled_blocks=2, sampled_instructions=8 * 6, warp_instructions=480)
    sampled = simulate_trace(dataclasses.replace(trace, header=header), load_gpu("mdm-pascal")).prediction
    assert sampled.cycles == 10 * simulate_trace(trace, load_gpu("mdm-pascal")).prediction.cycles
    assert any("2 of 20 blocks" in note for note in sampled.provenance["notes"])


def test_caches_smaller_than_their_registers_are_noted() -> None:
    notes = simulate_trace(kernel(), load_gpu("8800gt")).prediction.provenance["notes"]
    assert any("an L1 of 1 line limits the misses in flight" in note for note in notes)
    assert not simulate_trace(kernel(), load_gpu("mdm-pascal")).prediction.provenance["notes"]


def test_row_that_is_no_multiple_of_a_line_is_refused() -> None:
    with pytest.raises(SpecError, match=r"dram\.row: a row of 100 B"):
        simulate_trace(kernel(), load_gpu("mdm-pascal", overrides=["dram.row=100B"]))


def test_timeline_has_every_issue_of_its_sm_and_no_overlap(tmp_path: Path) -> None:
    trace = kernel()
    timeline = simulate_trace(trace, load_gpu("mdm-pascal"), watch_sm=1).simulation.timeline
    assert timeline is not None
    events = timeline_events(trace, timeline)
    issues = [e for e in events if "pc" in e.get("args", {})]
    assert len(issues) == 4 * 6  # the second block
    assert {e["args"]["warp"] for e in issues} == {4, 5, 6, 7}
    for slot in range(4):
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and e["tid"] == slot)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert any(e["name"] == "waits: memory" for e in events)
    write_timeline(str(tmp_path / "t.json"), trace, timeline)
    assert json.loads((tmp_path / "t.json").read_text())["otherData"]["truncated"] is False
