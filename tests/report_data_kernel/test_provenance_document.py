"""Does the provenance say every key of the GPU with its source, and tell traces apart by what they say alone?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.analysis.advice.advise import advise_trace
from warpsight.analysis.report_data.kernel import Parts, advised_report_data, kernel_report_data
from warpsight.analysis.report_data.provenance import provenance, trace_hash
from warpsight.gpu.describe import spec_hash
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import profile_trace
from warpsight.traces.schema import InMemory, TraceChunk
from warpsight.traces.store import open_trace, save_trace

pytestmark = pytest.mark.unit


def test_every_key_of_the_gpu_is_there_with_its_source_and_the_estimated_ones_are_marked(traced: Any) -> None:
    gpu = load_gpu("h100-sxm")
    rows = provenance(profile_trace(traced("stream"), gpu), gpu)["gpu"]
    assert [row["key"] for row in rows] == list(gpu.by_key)
    for row in rows:
        assert row["estimated"] == ("estimated" in gpu.sources.get(row["key"], ""))
        assert row["meaning"]
    assert any(row["estimated"] for row in rows)


def test_hashes_are_those_of_the_trace_s_header_and_of_the_description(traced: Any) -> None:
    gpu, trace = load_gpu("mdm-pascal"), traced("stream")
    found = provenance(profile_trace(trace, gpu), gpu, ["warpsight", "report", "my kernel.yaml"])
    assert found["hashes"]["kernel"] == trace.header.kernel_hash
    assert found["hashes"]["inputs"] == trace.header.input_hash
    assert found["hashes"]["GPU"] == spec_hash(gpu)
    assert found["command"] == "warpsight report 'my kernel.yaml'"


def joined(chunks: list[TraceChunk]) -> TraceChunk:
    """All of them as one."""
    def offsets(name: str) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(getattr(chunk, name)) for chunk in chunks]))])

    whole = {name: np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("path", "events", "sectors")}
    return TraceChunk(first_warp=0, event_offset=offsets("event_offset"), sector_offset=offsets("sector_offset"), **whole)


def test_trace_kept_on_disk_or_cut_otherwise_has_the_same_hash_and_another_run_another(traced: Any, tmp_path: Path) -> None:
    gpu, trace = load_gpu("mdm-pascal"), traced("gather")
    own = trace_hash(profile_trace(trace, gpu))
    save_trace(trace, tmp_path / "kept.trace")
    assert trace_hash(profile_trace(open_trace(str(tmp_path / "kept.trace")), gpu)) == own
    chunks = list(trace.chunks)
    assert len(chunks) > 1
    assert trace_hash(replace(profile_trace(trace, gpu), trace=replace(trace, chunks=InMemory([joined(chunks)])))) == own
    other = warpsight.trace(
        "extern \"C\" __global__ void stream(float *a) { a[threadIdx.x] = 1.0f; }", grid=1, block=32, args=["f32[32]:zeros"]
    )
    assert trace_hash(profile_trace(other, gpu)) != own


def test_advice_of_report_data_is_that_of_advise_and_the_rest_that_of_the_report_alone(traced: Any) -> None:
    gpu, trace, parts = load_gpu("mdm-pascal"), traced("gather"), Parts(what_if="none")
    whole = advised_report_data(trace, gpu, "mdm", beside=["mt"], parts=parts)
    alone = kernel_report_data(trace, gpu, "mdm", beside=["mt"], parts=parts)
    assert {key: part for key, part in whole.items() if key != "advice"} == alone
    told = advise_trace(trace, gpu, "mdm").to_json()
    assert whole["advice"] == {key: value for key, value in told.items() if key not in ("tool", "prediction")}
    assert "what_if" not in whole
