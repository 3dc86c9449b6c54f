"""Do equal values give an equal prediction however they were written, and is no key without effect?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trace_by_hand import Warp, build_trace

from warpsight.base.errors import SpecError
from warpsight.base.units import SHARE
from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.describe import dump_yaml, spec_hash
from warpsight.gpu.design import Design
from warpsight.gpu.document import value_text
from warpsight.gpu.key import FLAG, MODEL, PROGRAM, SIMULATOR, WORD, Key
from warpsight.gpu.keys import every_parameter, key_of
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import KEYS, GpuSpec, changed
from warpsight.gpu.steps import BY_OWN, BY_REFERENCE, cache_view, model_only, profile_view
from warpsight.intervals.build import latency_table
from warpsight.models.base import get_model, model_names
from warpsight.pipeline.evaluate import predict_trace, profile_trace
from warpsight.pipeline.request import Method
from warpsight.traces.schema import KernelTrace

BASE = "mdm-pascal"
# Keys, and values that fit together in any combination.
VALUES: dict[str, list[str]] = {
    "core_clock": ["900 MHz", "2 GHz"], "noc.bandwidth": ["90 GB/s", "2.1 TB/s"], "dram.bandwidth": ["60 GB/s", "960 GB/s"],
    "dram.latency": ["20 cycles", "900 cycles"], "l1.latency": ["10 cycles", "60 cycles"],
    "l2.latency": ["80 cycles", "400 cycles"],
    "l1.mshrs": ["2", "256"], "l2.mshrs": ["4", "256"], "sm_count": ["7", "61"], "l1.size": ["6 KiB", "96 KiB"],
    "latency.fp32": ["4 cycles", "19 cycles"], "sm.policy": ["lrr", "gto"], "crisp.target_clock": ["700 MHz", "800 MHz"],
}
chosen = st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4, unique=True).flatmap(
    lambda keys: st.fixed_dictionaries({key: st.sampled_from(VALUES[key]) for key in keys})
)


@pytest.fixture(scope="module")
def trace() -> KernelTrace:
    """Two loads of shared and of scattered lines, a use, a store and shared memory, by eight warps in four blocks."""
    code = """load.global.4 r1 <- r0
        load.global.4 r2 <- r0
        fp32 r3 <- r1 r2
        load.shared.4 r4 <- r3
        store.global.4 <- r4 r0"""
    warps = []
    for warp in range(8):
        accesses: list[list[int] | int] = []
        for turn in range(3):
            near = [4 * lane + 128 * (warp % 2 + turn) for lane in range(32)]
            far = [512 * lane + 65536 * (warp // 2 + turn) for lane in range(32)]
            accesses += [near, far, 2, [4 * lane + 128 * warp + (1 << 20) for lane in range(32)]]
        warps.append(Warp(((0, 32, 3),), accesses))
    made = build_trace([code], warps, warps_per_block=2)
    return replace(made, header=replace(made.header, warp_instructions=8 * 15, thread_instructions=8 * 15 * 32))


def cycles_of(trace: KernelTrace, gpu: GpuSpec, method: Method) -> list[float]:
    return [answer.cycles for answer in predict_trace(trace, gpu, ["warpsight", "mdm", "crisp"], method)]


@pytest.mark.property
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(chosen, st.sampled_from([BY_REFERENCE, BY_OWN]), st.randoms(use_true_random=False))
def test_equal_values_give_an_equal_prediction_however_they_were_written(
    trace: KernelTrace, tmp_path: Path, values: dict[str, str], order: str, random: Any
) -> None:
    method = Method(order=order)
    texts = [f"{key}={value}" for key, value in values.items()]
    by_override = load_gpu(BASE, texts)
    random.shuffle(texts)
    in_steps = load_gpu(load_gpu(BASE, texts[:1]), texts[1:])
    lines = [f"like: {BASE}", *(f"{key}: {value}" for key, value in values.items()), "sources: estimated"]
    (tmp_path / "like.yaml").write_text("\n".join(lines))
    (tmp_path / "shown.yaml").write_text(dump_yaml(by_override))
    own = {key: value for key, value in by_override.by_key.items() if key in values and "[" not in key_of(key).path}
    own = {key: value for key, value in own.items() if key in KEYS}
    rest = {"parameters": by_override.parameters, "latency_cycles": by_override.latency_cycles}
    in_python = replace(changed(load_gpu(BASE), own), **rest)
    expected = cycles_of(trace, by_override, method)
    for gpu in (in_steps, load_gpu(tmp_path / "like.yaml"), load_gpu(tmp_path / "shown.yaml"), in_python, load_gpu(in_python)):
        assert spec_hash(gpu) == spec_hash(by_override)
        assert cycles_of(trace, gpu, method) == expected


POWER = ["power.clock=1.4GHz"]  # what a power limit needs beside it


def other(key: str) -> str:
    """Another value of a key of the base, which fits with the rest."""
    known, now = key_of(key), load_gpu(BASE).by_key.get(key)
    special = {"sm.max_shared_memory_per_block": "4 KiB", "sm.max_threads_per_block": "512", "l1.sector": "32 B",
               "l2.sector": "32 B", "l1.line": "256 B", "l2.line": "256 B", "l1.size": "24 KiB",
               "l2.size": "1536 KiB", "l1.ways": "3", "l2.ways": "4", "l2.atomic_width": "16 B",
               "l2.slices": "12", "dram.channels": "12", "dram.banks": "8", "sm.fetch_width": "1"}  # fmt: skip
    if key in special:
        return special[key]
    if known.kind == FLAG:
        return str(not now).lower()
    if known.kind == WORD:
        return next((choice for choice in known.choices if choice != now), known.choices[0])
    assert not isinstance(now, str)
    if known.kind == SHARE:
        return "0.5"
    return value_text(key, (now or 0) * 2 or 300)


@pytest.mark.unit
@pytest.mark.parametrize("key", [key for key in load_gpu(BASE).by_key if len(KEYS[key].choices) != 1])
def test_key_enters_the_step_that_the_table_says_and_no_other_before(key: str) -> None:
    """A step's view decides what is shared: a key that no view has is read by the models or by the simulator."""
    base = load_gpu(BASE, ["compute_capability=8.6"] if key == "l1.carve_out" else POWER if key.startswith("power.") else [])
    design = load_gpu(base, [f"{key}={other(key)}"])
    assert spec_hash(design) != spec_hash(base)
    step = KEYS[key].step
    assert (cache_view(design) != cache_view(base)) == (step == "caches")
    assert (profile_view(design) != profile_view(base)) == (step not in (MODEL, SIMULATOR, PROGRAM))
    assert (cache_view(design, BY_OWN) != cache_view(base, BY_OWN)) == (step == "caches" or KEYS[key].orders)
    assert (key in model_only([key])) == (step == MODEL)
    assert (key in model_only([key], BY_OWN)) == (step == MODEL and not KEYS[key].orders)


@pytest.mark.unit
def test_no_number_that_models_alone_read_is_without_effect(trace: KernelTrace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is read by the equations of some model, and so is each parameter that a model declares."""
    read: set[str] = set()
    parameter = Design.parameter

    def noted(self: Design, key: Key) -> Any:
        read.add(key.name)
        return parameter(self, key)

    monkeypatch.setattr(Design, "parameter", noted)
    profile = profile_trace(trace, load_gpu(BASE)).profile
    for name in model_names():
        get_model(name).predict(profile, load_gpu(BASE, ["power.limit=300W", *POWER]))
    assert {*(key.name for key in KEYS.values() if key.step == MODEL), *every_parameter()} <= read


@pytest.mark.unit
@pytest.mark.parametrize("key", ["dram.latency", "l2.latency"])
def test_wait_for_a_line_in_flight_is_a_share_of_its_latency(key: str, trace: KernelTrace) -> None:
    """Under the reference order the measured waits are scaled; without a change they are as measured."""
    base = load_gpu(BASE)
    misses = profile_trace(trace, base).misses
    assert misses.merged_wait_cycles.sum() > 0
    assert (misses.l2_latency_cycles, misses.dram_latency_cycles) == (base.l2.latency_cycles, base.dram.latency_cycles)
    waits = [_merged_wait(trace, misses, load_gpu(BASE, [f"{key}={cycles} cycles"])) for cycles in (100, 200, 400)]
    assert waits[0] < waits[1] < waits[2]
    assert waits[2] - waits[1] == pytest.approx(2 * (waits[1] - waits[0]))
    assert _merged_wait(trace, misses, base) == pytest.approx(float(misses.merged_wait_cycles.sum()))


def _merged_wait(trace: KernelTrace, misses: MissProfile, gpu: GpuSpec) -> float:
    """What all loads together wait for lines in flight: their latencies less those without merged requests."""
    none = replace(misses, merged_wait_cycles=0 * misses.merged_wait_cycles)
    ones = np.ones(len(trace.instructions), dtype=np.int64)
    whole, without = (latency_table(trace.instructions, each, gpu, ones).levels.sum() for each in (misses, none))
    return float(whole - without)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("crisp.target_clok=1GHz", 'did you mean "crisp.target_clock"'), ("crispy.target_clock=1GHz", "crisp.target_clock"),
        ("mwp-cwp.issue=4 cycles", "mwp-cwp.issue_cycles"), ("crisp.target_clock=1", "has no unit"),
        ("mwp-cwp.issue_cycles=0 cycles", "must be at least 1 cycle"),
    ],
)
def test_parameter_that_no_model_declares_or_takes_is_refused_with_a_suggestion(text: str, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_gpu(BASE, [text])
    assert told in str(caught.value)


@pytest.mark.unit
def test_parameters_stand_in_a_section_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"like: {BASE}\nmwp-cwp: {{memory_latency: 300 cycles}}\ncrisp.target_clock: 1 GHz\nsources: estimated\n")
    gpu = load_gpu(path)
    assert gpu.parameters == {"mwp-cwp.memory_latency": 300, "crisp.target_clock": 1e9}
    (tmp_path / "again.yaml").write_text(dump_yaml(gpu))
    assert load_gpu(tmp_path / "again.yaml").parameters == gpu.parameters
