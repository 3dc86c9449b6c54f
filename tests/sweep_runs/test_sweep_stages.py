"""Do the keys that are said to enter a step later, or never, really leave the step before as it is?"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from sweep_cases import KERNELS

from warpsight.gpu import steps as stages
from warpsight.gpu.design import Design
from warpsight.gpu.document import value_text
from warpsight.gpu.key import MODEL, PROFILE, RESIDENCY, SIMULATOR
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import KEYS, GpuSpec
from warpsight.gpu.steps import BY_OWN, ordered
from warpsight.pipeline.evaluate import ProfiledTrace, profile_trace
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.rows import designs_of
from warpsight.pipeline.tracing import trace_kernel
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit
BASE = load_gpu("mdm-pascal", ["power.clock=1.4GHz"])  # for which a power limit may be given


@pytest.fixture(scope="module")
def trace() -> KernelTrace:
    return trace_kernel(KernelRequest(path=str(KERNELS / "gather.yaml")))


def changed(key: str) -> GpuSpec:
    """The base with another value of the key."""
    if key == "sm.coalescing":
        return load_gpu(BASE, ["sm.coalescing=cc1.3"])
    if key == "compute_capability":
        return load_gpu(BASE, ["compute_capability=7.5"])
    if key not in KEYS:
        return load_gpu(BASE, [f"{key}={'1GHz' if key == 'crisp.target_clock' else '300cycles'}"])
    now = BASE.by_key[key]
    assert isinstance(now, (int, float))
    value = {"sm.max_threads_per_block": 512, "sm.max_shared_memory_per_block": 4096, "sm.fetch_width": 1, "dram.banks": 8,
             "dram.efficiency": 0.5, "power.floor_voltage": 0.5}
    return load_gpu(BASE, [f"{key}={value_text(key, value.get(key, now * 2 or 300))}"])


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))


@pytest.fixture(scope="module")
def base(trace: KernelTrace) -> ProfiledTrace:
    return profile_trace(trace, BASE)


@pytest.mark.parametrize("key", [key for key in KEYS if KEYS[key].step in (MODEL, SIMULATOR)])
def test_key_of_the_models_or_the_simulator_alone_leaves_the_profile(key: str, trace: KernelTrace, base: ProfiledTrace) -> None:
    gpu = changed(key)
    found = profile_trace(trace, gpu)
    assert same(found.misses, base.misses)
    assert same(replace(found.profile, demands=None), replace(base.profile, demands=None))
    assert found.profile.demands == base.profile.demands
    assert stages.profile_view(gpu) == stages.profile_view(BASE)


@pytest.mark.parametrize("key", [key for key in BASE.by_key if KEYS[key].step in (RESIDENCY, PROFILE)])
def test_key_that_comes_after_the_caches_leaves_the_misses_at_equal_residency(
    key: str, trace: KernelTrace, base: ProfiledTrace
) -> None:
    gpu = changed(key)
    assert same(profile_trace(trace, gpu, resident=base.occupancy).misses, base.misses)
    assert stages.cache_view(gpu) == stages.cache_view(BASE)
    assert stages.profile_view(gpu) != stages.profile_view(BASE)


@pytest.mark.parametrize("key", ["l1.size", "l2.size", "sm_count", "dram.channels", "latency.int"])
def test_key_of_which_nothing_is_said_is_another_cache_simulation(key: str) -> None:
    assert stages.cache_view(changed(key)) != stages.cache_view(BASE)


def test_order_of_accesses_is_seen_in_place_of_the_designs_own_timing() -> None:
    design = load_gpu(BASE, ["noc.bandwidth=525GB/s"])
    assert stages.cache_view(design) == stages.cache_view(ordered(design)) == stages.cache_view(BASE)
    assert stages.cache_view(design, BY_OWN) != stages.cache_view(BASE, BY_OWN)


@pytest.mark.parametrize("key", [key for key in KEYS if KEYS[key].step == MODEL])
def test_models_number_as_a_column_is_the_number_of_the_described_gpu(key: str) -> None:
    gpu = changed(key)
    column = np.array([float(BASE.by_key[key]), float(gpu.by_key[key])])
    found, expected = designs_of(BASE, {key: column}, 2), Design.of([BASE, gpu])
    numbers = [each.attribute for each in KEYS.values() if each.numeric and each.name in BASE.by_key]
    assert all(np.array_equal(getattr(found, name), getattr(expected, name)) for name in (*numbers, "greedy", "noc_queue"))
