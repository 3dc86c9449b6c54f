"""The table of designs: which there are, in which order, and what is computed for each."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.base.errors import WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.request import KernelRequest, Method
from warpsight.sweeps.axes import parse_axis
from warpsight.sweeps.designs import DesignTable, design_table, evaluate_on, simulator_designs
from warpsight.sweeps.expressions import parse_expression
from warpsight.sweeps.study import Sampling, SimulatorRuns, Study, StudyKernel

pytestmark = pytest.mark.unit

BASE = load_gpu("mdm-pascal")
BASES = {"mdm-pascal": BASE}
KERNELS = (StudyKernel("saxpy", KernelRequest("saxpy.yaml")),)


GRID = Sampling()


def study(
    *axes: str, sampling: Sampling = GRID, derived: Mapping[str, str] = MappingProxyType({}), constraints: tuple[str, ...] = ()
) -> Study:
    return Study(
        "trial",
        KERNELS,
        axes=tuple(parse_axis(text, text) for text in axes),
        sampling=sampling,
        derived=tuple((key, parse_expression(text, f"derived {key}")) for key, text in derived.items()),
        constraints=tuple(parse_expression(text, f"constraint {text}") for text in constraints),
    )


def rows(table: DesignTable) -> list[tuple[Any, ...]]:
    return list(zip(*(column.tolist() for column in table.columns.values()), strict=True))


def refusal(asked: Study) -> WarpsightError:
    with pytest.raises(WarpsightError) as caught:
        design_table(asked, BASES)
    return caught.value


def test_grid_has_every_combination_and_its_last_axis_varies_fastest() -> None:
    table = design_table(study("sm_count=15,28", "sm.policy=lrr,gto", "noc.bandwidth=525GB/s,1050GB/s"), BASES)
    assert rows(table) == [
        (15, "lrr", 525e9), (15, "lrr", 1050e9), (15, "gto", 525e9), (15, "gto", 1050e9),
        (28, "lrr", 525e9), (28, "lrr", 1050e9), (28, "gto", 525e9), (28, "gto", 1050e9),
    ]
    assert (len(table), table.drawn, table.excluded, table.refused.tolist()) == (8, 8, 0, [0] * 8)
    assert [column.dtype for column in table.columns.values()] == [np.float64, object, np.float64]


def test_study_without_axes_is_its_base_alone() -> None:
    table = design_table(study(), BASES)
    assert (len(table), table.columns, table.values(0), table.settings(0)) == (1, {}, {}, [])


@pytest.mark.property
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_grid_equals_the_product_of_its_axes(sizes: list[int]) -> None:
    keys = ["sm_count", "l1.mshrs", "l1.ways", "dram.queue", "sm.max_warps"][: len(sizes)]
    texts = [f"{key}=1:{size}:1" for key, size in zip(keys, sizes, strict=True)]
    found = rows(design_table(study(*texts), BASES))
    assert found == list(itertools.product(*(range(1, size + 1) for size in sizes)))


@pytest.mark.property
@settings(max_examples=50)
@given(st.integers(1, 300), st.integers(0, 2**40))
def test_latin_hypercube_has_one_number_in_each_stratum_of_a_continuous_axis(designs: int, seed: int) -> None:
    asked = study("core_clock=1..2 GHz", "noc.bandwidth=500..1500 GB/s", sampling=Sampling("latin-hypercube", designs, seed))
    table = design_table(asked, BASES)
    for name, least, most in (("core_clock", 1e9, 2e9), ("noc.bandwidth", 5e11, 1.5e12)):
        counts, _ = np.histogram(table.columns[name], bins=np.linspace(least, most, designs + 1))
        assert counts.tolist() == [1] * designs


@pytest.mark.property
@settings(max_examples=50)
@given(st.lists(st.integers(1, 7), min_size=3, max_size=3), st.integers(1, 300), st.integers(0, 2**40))
def test_latin_hypercube_takes_discrete_values_equally_often(sizes: list[int], designs: int, seed: int) -> None:
    keys = ["sm_count", "l1.mshrs", "l1.ways"]
    texts = [f"{key}=1:{size}:1" for key, size in zip(keys, sizes, strict=True)]
    # with a continuous axis no design can come twice, so that nothing disturbs the counts
    table = design_table(study(*texts, "core_clock=1..2GHz", sampling=Sampling("latin-hypercube", designs, seed)), BASES)
    for key, size in zip(keys, sizes, strict=True):
        counts = np.bincount(table.columns[key].astype(int), minlength=size + 1)[1:]
        assert counts.max() - counts.min() <= 1


@pytest.mark.property
@settings(max_examples=60)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.floats(0.01, 1), st.integers(0, 99), st.booleans())
def test_sample_of_discrete_axes_has_no_design_twice(sizes: list[int], share: float, seed: int, latin: bool) -> None:
    designs = max(1, int(share * math.prod(sizes)))
    keys = ["sm_count", "l1.mshrs", "l1.ways", "dram.queue"][: len(sizes)]
    texts = [f"{key}=1:{size}:1" for key, size in zip(keys, sizes, strict=True)]
    found = rows(design_table(study(*texts, sampling=Sampling("latin-hypercube" if latin else "random", designs, seed)), BASES))
    assert len(set(found)) == len(found) == designs
    assert set(found) <= set(itertools.product(*(range(1, size + 1) for size in sizes)))


def test_latin_hypercube_far_from_full_keeps_its_counts_where_designs_met() -> None:
    sampling = Sampling("latin-hypercube", 60, 1)
    table = design_table(study("sm_count=1:15:1", "l1.mshrs=1:20:1", sampling=sampling), BASES)
    assert len(set(rows(table))) == 60
    assert set(Counter(table.columns["sm_count"].tolist()).values()) == {4}
    assert set(Counter(table.columns["l1.mshrs"].tolist()).values()) == {3}


def test_random_sample_takes_each_value_with_the_same_probability() -> None:
    sampling = Sampling("random", 40_000, 5)
    table = design_table(study("sm_count=11..20", "sm.policy=lrr,gto", "core_clock=1..2GHz", sampling=sampling), BASES)
    counts = np.bincount(table.columns["sm_count"].astype(int))[11:]
    # binomial: 4,000 each, standard deviation 60
    assert counts.size == 10 and abs(counts - 4000).max() < 300
    assert abs(sum(table.columns["sm.policy"] == "gto") - 20_000) < 500
    clock = table.columns["core_clock"]
    assert clock.min() >= 1e9 and clock.max() <= 2e9
    assert abs(np.histogram(clock, bins=10, range=(1e9, 2e9))[0] - 4000).max() < 300


def test_whole_numbered_key_has_whole_numbers_in_a_continuous_range_both_ends_included() -> None:
    for kind in ("random", "latin-hypercube"):
        table = design_table(study("l2.mshrs=3..9", "core_clock=1..2GHz", sampling=Sampling(kind, 500, 2)), BASES)
        assert set(table.columns["l2.mshrs"].tolist()) == set(range(3, 10))


def test_seed_decides_the_sample() -> None:
    def of(seed: int, kind: str) -> list[Any]:
        return rows(design_table(study("sm_count=1:50:1", "core_clock=1..2GHz", sampling=Sampling(kind, 20, seed)), BASES))

    for kind in ("random", "latin-hypercube"):
        assert of(1, kind) == of(1, kind) != of(2, kind)


def test_more_combinations_than_a_64_bit_number_counts_are_drawn_without_repeats() -> None:
    keys = ["l1.size", "l2.size", "sm.shared_memory", "launch.shared"]
    table = design_table(study(*(f"{key}=1..1099511627776{'' if 'launch' in key else ' B'}" for key in keys),
                               sampling=Sampling("latin-hypercube", 1000, 1)), BASES)
    assert len(set(rows(table))) == 1000


def test_fewer_combinations_than_designs_asked_for_are_refused() -> None:
    error = refusal(study("sm_count=1:5:1", "sm.policy=lrr,gto", sampling=Sampling("random", 11)))
    assert error.what == "11 designs are requested, but the axes have 10 combinations"


def test_derived_keys_are_computed_in_order_from_axes_each_other_and_the_base() -> None:
    asked = study("l1.mshrs=32,64", "sm_count=14,28", derived={
        "l2.mshrs": "l1.mshrs * sm_count / l2.slices * 3",
        "l2.targets": "min(l2.mshrs, 200)",
        "noc.bandwidth": "dram.bandwidth * 2 if sm_count > 20 else 525*GB/s",
        "sm.policy": "'lrr' if l1.mshrs == 32 else 'gto'",
        "l1.write_allocate": "sm_count < 20",
    })
    table = design_table(asked, BASES)
    # mdm-pascal: 24 slices, 480 GB/s, gto
    assert rows(table) == [
        (32, 14, 56, 56, 525e9, "lrr", "true"), (32, 28, 112, 112, 960e9, "lrr", "false"),
        (64, 14, 112, 112, 525e9, "gto", "true"), (64, 28, 224, 200, 960e9, "gto", "false"),
    ]
    assert table.values(1) == {"l1.mshrs": 32, "sm_count": 28, "l2.mshrs": 112, "l2.targets": 112, "noc.bandwidth": 960e9,
                               "sm.policy": "lrr", "l1.write_allocate": False}


def test_settings_of_a_design_load_as_the_design() -> None:
    sampling = Sampling("random", 30, 9)
    axes = ("core_clock=1..2GHz", "dram.bandwidth=100..900 GB/s", "sm_count=10..80", "l1.write_allocate=true,false")
    asked = study(*axes, sampling=sampling, derived={"noc.bandwidth": "dram.bandwidth / 0.7"})
    table = design_table(asked, BASES)
    for design in range(30):
        gpu, values = load_gpu(BASE, table.settings(design)), table.values(design)
        assert (gpu.core_clock_hz, gpu.dram.bandwidth_bytes_per_s) == (values["core_clock"], values["dram.bandwidth"])
        assert (gpu.sm_count, gpu.l1.write_allocate) == (values["sm_count"], values["l1.write_allocate"])
        assert gpu.noc.bandwidth_bytes_per_s == values["dram.bandwidth"] / 0.7


def test_base_value_that_follows_another_key_follows_it_in_expressions_too() -> None:
    # mdm-pascal says its sector; a GPU that leaves it out has it as its line, and so do the designs around it
    follows = replace(BASE, sources={**BASE.sources, "l1.sector": "default: not sectored"})
    asked = study("l1.line=64B,128B", derived={"l1.targets": "l1.sector"})
    assert rows(design_table(asked, BASES)) == [(64, 128), (128, 128)]
    assert rows(design_table(asked, {"follows": follows})) == [(64, 64), (128, 128)]
    assert load_gpu(follows, ["l1.line=64B"]).l1.sector_bytes == 64


def test_expressions_read_each_design_s_own_gpu() -> None:
    derived, constraints = {"l1.mshrs": "dram.channels * 2"}, ("sm_count <= 5 * l2.slices",)
    asked = study("gpu=mdm-pascal,a100", "sm_count=20,200", derived=derived, constraints=constraints)
    gpus = {name: load_gpu(name) for name in asked.gpus}
    expected = [
        (name, sms, gpu.dram.channels * 2) for name, gpu in gpus.items() for sms in (20, 200) if sms <= 5 * gpu.l2.slices
    ]
    assert rows(design_table(asked, gpus)) == expected and {row[2] for row in expected} == {48, 80}
    assert len(expected) == 3


def test_launch_of_a_design_is_text_and_reads_as_a_number() -> None:
    asked = study("launch.block=128,32x8,96", "launch.arg.3=49152,i32:98304",
                  derived={"launch.grid": "launch.arg.3 / launch.block", "launch.shared": "4 * launch.block",
                           "launch.arg.4": "0.5 * launch.block"})
    assert rows(design_table(asked, BASES)) == [
        ("128", "49152", "384", 512, "64"), ("128", "i32:98304", "768", 512, "64"),
        ("32x8", "49152", "192", 1024, "128"), ("32x8", "i32:98304", "384", 1024, "128"),
        ("96", "49152", "512", 384, "48"), ("96", "i32:98304", "1024", 384, "48"),
    ]
    assert design_table(asked, BASES).settings(0) == []


@pytest.mark.property
@settings(max_examples=40)
@given(st.integers(1, 80), st.integers(1, 30), st.integers(1, 30))
def test_constraints_keep_exactly_the_designs_where_all_hold(bound: int, ways: int, factor: int) -> None:
    conditions = (f"sm_count <= {bound}", f"l1.ways != {ways} or sm_count % {factor} == 0")
    asked = study("sm_count=1:80:1", "l1.ways=1:30:1", constraints=conditions)
    kept = [(sms, w) for sms in range(1, 81) for w in range(1, 31) if sms <= bound and (w != ways or sms % factor == 0)]
    table = design_table(asked, BASES)
    assert rows(table) == kept
    assert (table.drawn, table.excluded) == (2400, 2400 - len(kept))


def test_method_can_be_an_axis_and_be_read() -> None:
    condition = "method.caches == 'exact' and method.representative == 'kmeans'"
    asked = study("method.caches=exact,reuse-distance", constraints=(condition,))
    assert rows(design_table(asked, BASES)) == [("exact",)]
    clocked = parse_expression("method.interleaving == 'clocked'", "")
    table = design_table(asked, BASES)
    assert evaluate_on(clocked, table.columns, BASES, Method(), len(table)).tolist() == [True]


def test_derived_value_out_of_bounds_refuses_that_design_alone_and_says_why() -> None:
    asked = study("sm_count=10:50:10", derived={"l1.mshrs": "sm_count - 20", "l2.ways": "(sm_count - 10) * 130 + 1"})
    table = design_table(asked, BASES)
    assert table.columns["l1.mshrs"].tolist() == [-10, 0, 10, 20, 30]
    assert [table.refusal(design) for design in range(5)] == [
        "l1.mshrs evaluates to -10, and must be at least 1", "l1.mshrs evaluates to 0, and must be at least 1", "",
        "", "l2.ways evaluates to 5201, and must be at most 4096",
    ]
    assert (table.refused != 0).tolist() == [True, True, False, False, True]


def test_refused_designs_stay_beside_their_own_reasons_where_constraints_remove_others() -> None:
    asked = study("sm_count=10:50:10", derived={"l1.mshrs": "sm_count - 20"}, constraints=("sm_count != 10",))
    table = design_table(asked, BASES)
    assert [table.refusal(design) for design in range(4)] == ["l1.mshrs evaluates to 0, and must be at least 1", "", "", ""]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (study("sm_count=15,28", derived={"l1.mshrs": "sm_count / 2"}), "evaluates to 7.5 on design 0, and takes whole numbers"),
        (study("launch.block=128,96", derived={"launch.grid": "1024 / launch.block"}), "launch.grid evaluates to 10.6"),
        (study("sm_count=15,28", derived={"l1.mshrs": "8 / (sm_count - 28)"}), "division by zero on design 1 (sm_count = 28)"),
        (study("sm_count=15,28", constraints=("1 / (sm_count - 15) > 0",)), "division by zero on design 0"),
        (study("sm_count=15,28", constraints=("sm_count > 28",)), "exclude every one of 2 designs"),
        (study("sm_count=15,28", constraints=("sm_count",)), "evaluates to a number, not to true or false"),
        (study("sm_count=15,28", derived={"sm_count": "28"}), "sm_count is an axis and also derived"),
        (study("sm_count=15,28", derived={"l1.mshrs": "sm_count > 3"}), "l1.mshrs is a number"),
        (study("sm_count=15,28", derived={"sm.policy": "'fifo'"}), 'sm.policy evaluates to "fifo"'),
        (study("sm_count=15,28", derived={"sm.polcy": "'gto'"}), 'did you mean "sm.policy"?'),
        (study("sm_count=15,28", derived={"l1.mshrs": "l2.mshrs", "l2.mshrs": "64"}), "reads l2.mshrs, which is derived later"),
        (study("sm_count=15,28", derived={"l1.mshrs": "l1.mshrs * 2"}), "derived later or depends on itself"),
        (study("sm_count=15,28", derived={"launch.shared": "launch.block"}), "reads launch.block, which is not an axis"),
        (study("sm_count=15,28", derived={"l1.mshrs": "latency.tensor"}), "reads latency.tensor, which mdm-pascal does not have"),
        (study("sm_count=15,28", "sm_count=30,40"), "sm_count is an axis twice"),
        (study("core_clock=1..2GHz"), "core_clock is a continuous range, which a grid cannot have"),
        (study("sm_count=15,28", sampling=Sampling("grid", 5)), "a grid has every combination"),
        (study("sm_count=15,28", sampling=Sampling("random")), "needs a number of designs"),
        (study(sampling=Sampling("random", 5)), "has no axes"),
        (study("core_clock=1..2GHz", sampling=Sampling("sobol", 5)), '"sobol" is not known'),
        (study("core_clock=1..2GHz", sampling=Sampling("random", 10**8 + 1)), "these are 100,000,001 designs"),
        (study("sm_count=1:50000:1", "l1.mshrs=1:50000:1"), "these are 2,500,000,000 designs"),
        (replace(study("sm_count=15,28"), overrides=("sm_count=4",)), "sm_count is set and also an axis"),
        (replace(study("sm_count=15,28"), overrides=("launch.block=4",)), "is not a key of the GPU"),
        (replace(study("sm_count=15,28"), models=()), "no models"),
        (replace(study("sm_count=15,28"), models=("mdm", "mdm")), '"mdm" is given twice'),
        (replace(study("sm_count=15,28"), kernels=()), "no kernels"),
        (replace(study("sm_count=15,28"), kernels=KERNELS * 2), 'two kernels are called "saxpy"'),
    ],
)
def test_study_that_contradicts_itself_is_refused(asked: Study, words: str) -> None:
    error = refusal(asked)
    assert words in error.what
    assert error.place and error.remedy


def test_launch_axis_is_refused_where_a_kernel_is_a_trace(tmp_path: Any) -> None:
    asked = replace(study("launch.block=128,256"), kernels=(StudyKernel("old", KernelRequest(str(tmp_path))),))
    assert "old is a trace folder, whose launch cannot change" in refusal(asked).what


def test_simulator_takes_its_designs_among_those_that_are_possible_and_where_its_condition_holds() -> None:
    asked = study("sm_count=1:40:1", derived={"l1.mshrs": "sm_count - 10"})
    table = design_table(asked, BASES)
    where = parse_expression("sm_count % 2 == 0", "")
    every = simulator_designs(SimulatorRuns(where=where), table, BASES, Method())
    assert table.columns["sm_count"][every].tolist() == list(range(12, 41, 2))
    some = simulator_designs(SimulatorRuns(4, 1, where), table, BASES, Method())
    assert some.tolist() == sorted(set(some.tolist())) and some.size == 4 and set(some.tolist()) <= set(every.tolist())
    assert simulator_designs(SimulatorRuns(4, 1, where), table, BASES, Method()).tolist() == some.tolist()
    assert simulator_designs(SimulatorRuns(), table, BASES, Method()).size == 30


def test_a_million_designs_of_eight_axes_take_less_than_400_megabytes() -> None:
    asked = study(
        "sm_count=10..55", "noc.bandwidth=500:950:50 GB/s", "dram.bandwidth=100:1000:100 GB/s", "l1.mshrs=32:320:32",
        "core_clock=1:1.9:0.1 GHz", "l2.ways=4:16:4", "sm.policy=lrr,gto", "l1.ways=6,8",
        sampling=Sampling("latin-hypercube", 10**6, 1),
        derived={"l2.mshrs": "l1.mshrs * 2 if sm.policy == 'gto' else l1.mshrs"},
        constraints=("noc.bandwidth > dram.bandwidth / 2",),
    )
    tracemalloc.start()
    table = design_table(asked, BASES)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.drawn == 10**6 and len(table) + table.excluded == 10**6
    assert most < 400 * 10**6
