"""Is every point of the what-if grid what `predict --set` says of that design, and is the grid what it says it is?"""

from __future__ import annotations

import json
import random
from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.what_if import SliderAxis, evaluate_space, point, slider_axes, space_of, unpacked, what_if
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.models.base import components_of, get_model
from warpsight.pipeline.evaluate import ProfiledTrace, predict_trace, profile_trace
from warpsight.pipeline.request import DEFAULT_METHOD, Method
from warpsight.result.prediction import bound_by

pytestmark = pytest.mark.contract

# Accesses ordered by the design's own timing: the caches see its clock, bandwidths and MSHRs, and all sliders take simulations.
OWN_ORDER = Method(order="own")
CASES = [
    ("mdm", "gather", (), "quick", DEFAULT_METHOD),
    ("mdm", "gather", (), "full", DEFAULT_METHOD),
    ("warpsight", "uneven", (), "quick", DEFAULT_METHOD),
    ("warpsight", "uneven", (), "full", DEFAULT_METHOD),
    ("crisp", "gather", ("crisp.target_clock=1GHz",), "full", DEFAULT_METHOD),
    ("mwp-cwp", "gather", ("sm.policy=lrr",), "quick", DEFAULT_METHOD),
    ("mdm", "gather", (), "quick", OWN_ORDER),
]


def places_of(grid: dict[str, Any], number: int) -> dict[str, int]:
    """The places of a point, as the documentation says them: geometry by geometry, the last axis fastest."""
    free = [axis for axis in grid["axes"] if not axis["simulated"]]
    places = {}
    for axis in reversed(free):
        number, places[axis["key"]] = divmod(number, len(axis["values"]))
    simulated = [axis["key"] for axis in grid["axes"] if axis["simulated"]]
    return places | dict(zip(simulated, grid["geometries"][number], strict=True))


def profiled(
    name: str, traced: Any, overrides: tuple[str, ...] = (), method: Method = DEFAULT_METHOD
) -> tuple[ProfiledTrace, GpuSpec]:
    gpu = load_gpu("mdm-pascal", overrides=overrides)
    return profile_trace(traced(name), gpu, method), gpu


@pytest.mark.parametrize(("model", "kernel", "overrides", "mode", "method"), CASES)
def test_random_points_equal_a_prediction_with_their_keys_set(
    model: str, kernel: str, overrides: tuple[str, ...], mode: str, method: Method, traced: Any
) -> None:
    case, gpu = profiled(kernel, traced, overrides, method)
    grid = what_if(case, gpu, model, mode)
    assert grid is not None
    columns = unpacked(grid)
    assert {len(values) for values in columns.values()} == {grid["points"]}
    for number in [grid["own"], *random.Random(7).sample(range(grid["points"]), 12)]:
        places = places_of(grid, number)
        words = [f"{axis['key']}={axis['settings'][places[axis['key']]]}" for axis in grid["axes"]]
        changed = [word for axis, word in zip(grid["axes"], words, strict=True) if places[axis["key"]] != axis["own"]]
        design = load_gpu(gpu, overrides=changed)
        told = grid["bounds"][columns["bound_by"][number]]
        try:
            answer = predict_trace(case.trace, design, [model], method)[0]
        except WarpsightError as error:
            assert not columns["cycles"][number] > 0
            assert error.what in told
            continue
        cpi = columns["cycles"][number] * design.sm_count / grid["warp_instructions"]
        assert columns["cycles"][number] == pytest.approx(answer.cycles, rel=1e-9)
        seconds = columns["seconds"][number] if "seconds" in columns else columns["cycles"][number] / design.core_clock_hz
        assert seconds == pytest.approx(answer.seconds, rel=1e-9)
        for name in answer.cpi_stack:
            share = columns[f"share.{name}"][number] if f"share.{name}" in columns else 0.0
            assert share * cpi == pytest.approx(answer.cpi_stack[name], abs=1e-9 * answer.cpi)
        assert told == answer.bound_by


def test_what_binds_is_the_one_rule_on_every_point(traced: Any) -> None:
    case, gpu = profiled("gather", traced)
    grid = what_if(case, gpu, "warpsight")
    assert grid is not None
    axes, _ = slider_axes(gpu)
    simulated = [len(axis["values"]) for axis in grid["axes"] if axis["simulated"]]
    space = space_of(axes, len(grid["geometries"]), grid["points"])
    assert ([len(axis.values) for axis in space.simulated], len(space)) == (simulated, grid["points"])
    components = components_of(get_model("warpsight"))
    rows, told = evaluate_space(space, case, gpu, "warpsight"), unpacked(grid)["bound_by"]
    for number in range(len(space)):
        rule = bound_by({name: rows[f"cpi_stack.{name}"][number] for name in components}, components)
        assert grid["bounds"][told[number]] == rule


@pytest.mark.parametrize("model", ["mdm", "warpsight", "bottleneck"])
@pytest.mark.parametrize("mode", ["quick", "full"])
def test_document_takes_at_most_400_kilobytes(model: str, mode: str, traced: Any) -> None:
    grid = what_if(*profiled("gather", traced), model, mode)
    assert len(json.dumps(grid, separators=(",", ":"))) <= 400_000


def test_grid_has_the_gpu_itself_and_values_around_it_on_every_slider(traced: Any) -> None:
    case, gpu = profiled("gather", traced)
    grid = what_if(case, gpu, "mdm")
    assert grid is not None
    keys = ["sm_count", "core_clock", "noc.bandwidth", "dram.bandwidth", "l1.mshrs", "l1.size", "l2.size"]
    assert sorted(axis["key"] for axis in grid["axes"]) == sorted(keys)
    own = {axis["key"]: axis["values"][axis["own"]] for axis in grid["axes"]}
    assert own == {"sm_count": 28, "core_clock": 1.4e9, "noc.bandwidth": 1.05e12, "dram.bandwidth": 4.8e11, "l1.mshrs": 128,
                   "l1.size": 48 * 1024, "l2.size": 3 * 1024**2}  # fmt: skip
    for axis in grid["axes"]:
        assert axis["values"] == sorted(axis["values"])
        assert axis["values"][0] < own[axis["key"]] < axis["values"][-1]
    assert unpacked(grid)["cycles"][grid["own"]] == pytest.approx(predict_trace(case.trace, gpu, ["mdm"])[0].cycles, rel=1e-12)


def test_quick_grid_has_every_single_change_and_full_every_combination(traced: Any) -> None:
    case, gpu = profiled("gather", traced)
    quick, full = (what_if(case, gpu, "mdm", mode) for mode in ("quick", "full"))
    assert quick is not None
    assert full is not None
    for grid in (quick, full):
        simulated = [axis for axis in grid["axes"] if axis["simulated"]]
        assert [axis["key"] for axis in simulated] == ["sm_count", "l1.size", "l2.size"]
        own = [axis["own"] for axis in simulated]
        for k, axis in enumerate(simulated):
            for place in range(len(axis["values"])):
                assert [*own[:k], place, *own[k + 1 :]] in grid["geometries"]
    assert len(quick["geometries"]) <= 16
    every = [list(places) for places in product(*(range(len(axis["values"])) for axis in full["axes"] if axis["simulated"]))]
    assert sorted(full["geometries"]) == every


def test_one_change_at_a_time_is_the_prediction_with_that_change(traced: Any) -> None:
    case, gpu = profiled("gather", traced)
    grid = what_if(case, gpu, "mdm")
    assert grid is not None
    own = predict_trace(case.trace, gpu, ["mdm"])[0]
    for row in grid["one_at_a_time"]:
        answer = predict_trace(case.trace, load_gpu(gpu, overrides=[f"{row['key']}={row['setting']}"]), ["mdm"])[0]
        assert row["cycles"] == pytest.approx(answer.cycles, rel=1e-9)
        assert row["speedup"] == pytest.approx(own.seconds / answer.seconds, rel=1e-9)
        assert row["bound_by"] == answer.bound_by


def test_value_that_a_description_cannot_have_is_left_out_and_told(traced: Any) -> None:
    case, gpu = profiled("gather", traced, ("l1.mshrs=1", "sm_count=1"))
    grid = what_if(case, gpu, "mdm")
    assert grid is not None
    assert {"setting": "l1.mshrs=0.5", "why": "is not a whole number"} in grid["not_possible"]
    assert {"setting": "sm_count=0.5", "why": "is not a whole number"} in grid["not_possible"]
    assert next(axis for axis in grid["axes"] if axis["key"] == "l1.mshrs")["values"] == [1, 2, 4]


def test_keys_that_the_order_of_accesses_follows_take_simulations(traced: Any) -> None:
    case, gpu = profiled("gather", traced, (), OWN_ORDER)
    grid = what_if(case, gpu, "mdm")
    assert grid is not None
    assert all(axis["simulated"] for axis in grid["axes"])
    assert grid["points"] == len(grid["geometries"]) <= 16


def test_grid_can_be_left_out_and_an_unknown_size_is_refused(traced: Any) -> None:
    case, gpu = profiled("gather", traced)
    assert what_if(case, gpu, "mdm", "none") is None
    with pytest.raises(UsageError, match="quick, full, none"):
        what_if(case, gpu, "mdm", "fulll")


@st.composite
def made_up_axes(draw: st.DrawFn) -> list[SliderAxis]:
    axes = []
    for number in range(draw(st.integers(0, 5))):
        length = draw(st.integers(1, 5))
        ranks = draw(st.permutations(range(length)))
        axes.append(SliderAxis(f"k{number}", "", tuple(map(float, range(length))), tuple(ranks), draw(st.booleans())))
    return axes


@settings(max_examples=200, deadline=None)
@given(made_up_axes(), st.integers(1, 40), st.integers(1, 3000))
def test_any_space_keeps_to_its_bounds_holds_the_gpu_itself_and_numbers_each_design_once(
    axes: list[SliderAxis], simulations: int, most: int
) -> None:
    space = space_of(axes, simulations, most)
    assert len(space.geometries) <= simulations
    assert len(space) <= most
    assert point(space, {}) == (point(space, {}) or 0)
    columns = space.columns()
    rows = list(zip(*columns.values(), strict=True)) if columns else [()]
    assert len(set(rows)) == len(rows) == len(space)
    assert len(space) == len(space.geometries) * prod(len(axis.values) for axis in space.free)
    for number in range(min(len(space), 50)):
        places = {axis.key: axis.values.index(columns[axis.key][number]) for axis in (*space.free, *space.simulated)}
        assert point(space, places) == number
