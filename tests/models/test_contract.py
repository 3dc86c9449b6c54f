"""Do all registered models keep the common promises?"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from made_up import counts_like, gpus, profiles, without_traffic

from warpsight.gpu.design import Design
from warpsight.gpu.spec import DramSpec, GpuSpec, NocSpec
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import PARTS, Model, components_of, evaluate, get_model, model_names
from warpsight.result.prediction import COMPONENTS

pytestmark = pytest.mark.contract

every_model = pytest.mark.parametrize("name", model_names())
# Promises that a paper's own equations do not keep, and which say so in what the model says of itself (`About.fails`).
MONOTONIC_EXCEPT = {"mwp-cwp": "a better GPU may come out slower"}
MONOTONIC = [name for name in model_names() if name not in MONOTONIC_EXCEPT]
tried = settings(max_examples=60, deadline=None)


def each(names: Iterable[str] = model_names()) -> Iterator[str]:
    """The models in turn, for one example: it takes longer to draw than to predict. A failure names the model."""
    for name in names:
        note(f"model {name}")
        yield name


def _numbers(name: str, profile: IntervalProfile, gpu: GpuSpec) -> dict[str, float]:
    answer = get_model(name).predict(profile, gpu)
    stack = {f"cpi_stack.{part}": value for part, value in answer.cpi_stack.items()}
    plain = {key: getattr(answer, key) for key in ("cycles", "seconds", "ipc_sm_warp", "ipc_gpu_warp", "cpi")}
    return plain | stack


@every_model
def test_model_registered_is_a_model_that_says_where_it_is_from(name: str) -> None:
    model = get_model(name)
    assert isinstance(model, Model)
    assert model.name == name
    assert model.title
    assert model.source
    assert model.needs <= set(PARTS)


@every_model
def test_model_tells_its_equations_assumptions_failures_and_citation(name: str) -> None:
    about = get_model(name).about
    assert all((about.equations, about.assumptions, about.fails, about.citation))
    assert set(about.stack) <= set(components_of(get_model(name)))


@every_model
def test_every_component_that_a_model_can_give_has_its_equation_and_no_other(name: str) -> None:
    about = get_model(name).about
    assert set(about.by_component) == set(about.stack or COMPONENTS)
    assert all(text.strip() for text in about.by_component.values())


@tried
@given(profiles(), gpus)
def test_stack_has_no_component_that_the_model_does_not_name(profile: IntervalProfile, gpu: GpuSpec) -> None:
    for name in each():
        named = get_model(name).about.stack or COMPONENTS
        stack = get_model(name).predict(profile, gpu).cpi_stack
        assert [part for part in COMPONENTS if part not in named and stack[part] != 0] == []


@tried
@given(profiles(), gpus)
def test_prediction_twice_is_the_same_and_leaves_its_inputs_alone(profile: IntervalProfile, gpu: GpuSpec) -> None:
    before = copy.deepcopy((profile, gpu))
    for name in each():
        first, second = get_model(name).predict(profile, gpu), get_model(name).predict(profile, gpu)
        assert first == second
        assert gpu == before[1]
        for key, value in profile.__dict__.items():
            old = getattr(before[0], key)
            assert np.array_equal(value, old) if isinstance(value, np.ndarray) else value == old


@tried
@given(profiles(), gpus)
def test_stack_has_every_component_none_negative_and_sums_to_the_cpi(profile: IntervalProfile, gpu: GpuSpec) -> None:
    for name in each():
        model = get_model(name)
        answer = model.predict(profile, gpu)
        assert tuple(answer.cpi_stack) == tuple(
            name for name, each in components_of(model).items() if not each.part_of or answer.cpi_stack.get(name)
        )
        assert all(value >= 0 and math.isfinite(value) for value in answer.cpi_stack.values())
        assert abs(sum(answer.cpi_stack.values()) - answer.cpi) <= 1e-9 * max(1.0, answer.cpi)


@tried
@given(profiles(), gpus)
def test_metrics_of_a_prediction_agree_with_each_other(profile: IntervalProfile, gpu: GpuSpec) -> None:
    for name in each():
        answer = get_model(name).predict(profile, gpu)
        assert answer.cpi * answer.ipc_sm_warp == pytest.approx(1)
        assert answer.ipc_gpu_warp == pytest.approx(answer.ipc_sm_warp * gpu.sm_count)
        assert answer.ipc_gpu_thread == pytest.approx(32 * answer.ipc_gpu_warp)
        assert answer.cycles * answer.ipc_gpu_warp == pytest.approx(profile.total_warp_instructions)
        assert answer.seconds * gpu.core_clock_hz == pytest.approx(answer.cycles)


@tried
@given(profiles(), gpus)
def test_ipc_never_exceeds_what_the_schedulers_issue(profile: IntervalProfile, gpu: GpuSpec) -> None:
    for name in each():
        answer = get_model(name).predict(profile, gpu)
        assert answer.ipc_sm_warp <= gpu.sm.schedulers * gpu.sm.issue_width * (1 + 1e-12)


@pytest.mark.parametrize("name", MONOTONIC_EXCEPT)
def test_model_that_is_not_monotonic_says_so(name: str) -> None:
    assert any(MONOTONIC_EXCEPT[name] in failure for failure in get_model(name).about.fails)


@tried
@given(profiles(), gpus, st.floats(1, 20))
def test_more_bandwidth_is_never_slower(profile: IntervalProfile, gpu: GpuSpec, factor: float) -> None:
    noc = dataclasses.replace(gpu, noc=NocSpec(gpu.noc.bandwidth_bytes_per_s * factor, gpu.noc.queue))
    dram = dataclasses.replace(gpu, dram=DramSpec(gpu.dram.bandwidth_bytes_per_s * factor, 24, 220))
    for name in each(MONOTONIC):
        before = get_model(name).predict(profile, gpu).cycles
        for wider in (noc, dram):
            assert get_model(name).predict(profile, wider).cycles <= before * (1 + 1e-9)


@tried
@given(profiles(), gpus)
def test_kernel_without_memory_instructions_has_no_memory_stalls(profile: IntervalProfile, gpu: GpuSpec) -> None:
    zero = np.zeros(len(profile.instructions))
    compute = dataclasses.replace(without_traffic(profile), cause=np.ones(len(zero), dtype=np.int8), memory_instructions=zero)
    compute = dataclasses.replace(compute, counts=counts_like(compute))
    for name in each():
        stack = get_model(name).predict(compute, gpu).cpi_stack
        assert [stack[part] for part in ("mem_data", "mshr", "noc", "dram")] == [0, 0, 0, 0]


@tried
@given(profiles(), st.lists(gpus, min_size=1, max_size=5))
def test_many_designs_at_once_equal_one_at_a_time(profile: IntervalProfile, several: list[GpuSpec]) -> None:
    for name in each():
        together = evaluate(get_model(name), profile, Design.of(several))
        for row, gpu in enumerate(several):
            for key, value in _numbers(name, profile, gpu).items():
                assert together[key][row] == pytest.approx(value, rel=1e-12, abs=1e-15), key


@tried
@given(profiles(), gpus)
def test_twice_the_schedulers_without_misses_is_never_slower(profile: IntervalProfile, gpu: GpuSpec) -> None:
    calm = without_traffic(profile)
    twice = dataclasses.replace(gpu, sm=dataclasses.replace(gpu.sm, schedulers=2 * gpu.sm.schedulers))
    for name in each(MONOTONIC):
        assert get_model(name).predict(calm, twice).cycles <= get_model(name).predict(calm, gpu).cycles * (1 + 1e-9)
