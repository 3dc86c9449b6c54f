"""Does each cell of a map hold what a look-up of its designs gives?"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_tables import chosen, grid_of, results

from warpsight.base.errors import UsageError
from warpsight.sweeps.answers.maps import design_map
from warpsight.sweeps.answers.selection import select

KEYS = grid_of(sm_count=[15.0, 28.0, 80.0], dram__bandwidth=[240e9, 480e9], sm__policy=["lrr", "gto"])


@pytest.mark.property
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=40),
       st.sampled_from(["mean", "best"]))
def test_cells_of_any_designs_equal_a_look_up_by_their_values(designs: list, others: str) -> None:
    speeds = [each[2] / designs[0][2] for each in designs]
    document = design_map(chosen({"x": [float(d[0]) for d in designs], "y": [float(d[1]) for d in designs]},
                                 [1 / each[2] for each in designs]), "x", "y", others=others)  # fmt: skip
    cells = defaultdict(list)
    for number, (x, y, _) in enumerate(designs):
        cells[x, y].append((-speeds[number], number))
    xs, ys = sorted({d[0] for d in designs}), sorted({d[1] for d in designs})
    assert (document["x"]["values"], document["y"]["values"]) == (xs, ys)
    for row, y in enumerate(ys):
        for column, x in enumerate(xs):
            found, count = document["values"][row][column], document["counts"][row][column]
            there = cells.get((x, y), [])
            assert count == len(there)
            if not there:
                assert (found, document["shown"][row][column]) == (None, None)
            elif others == "mean":
                assert found == pytest.approx(-np.mean([speed for speed, _ in there]))
            else:
                assert found == pytest.approx(-min(there)[0])
                # of equally good designs the lowest number; times of 1/3 and the like are equal to the last digit
                assert document["shown"][row][column] == min(there)[1]


@pytest.mark.unit
def test_fixed_axis_leaves_one_design_in_each_cell() -> None:
    seconds = [float(k + 1) for k in range(12)]
    document = design_map(chosen(KEYS, seconds), "sm_count", "dram.bandwidth", fixed={"sm.policy": "gto"})
    assert document["x"] == {"key": "sm_count", "values": [15.0, 28.0, 80.0]}
    assert document["y"] == {"key": "dram.bandwidth", "values": [240e9, 480e9]}
    assert document["shown"] == [[1, 5, 9], [3, 7, 11]]
    assert document["values"] == [pytest.approx([1 / 2, 1 / 6, 1 / 10]), pytest.approx([1 / 4, 1 / 8, 1 / 12])]


@pytest.mark.unit
def test_column_and_word_of_the_best_design_are_shown_for_the_kernel_named() -> None:
    seconds = [2.0, 1.0] * 6  # gto is better everywhere
    columns = {"cpi_stack.dram": {"k": [float(k) for k in range(12)], "l": [0.0] * 12},
               "bound_by": {"k": ["dram", "noc"] * 6, "l": ["base"] * 12}}
    selection = select(results(KEYS, {"k": seconds, "l": [1.0] * 12}, columns=columns))
    asked = {"kernel": "k", "others": "best"}
    stack = design_map(selection, "sm_count", "dram.bandwidth", value="cpi_stack.dram", **asked)
    assert stack["values"] == [[1.0, 5.0, 9.0], [3.0, 7.0, 11.0]]
    assert design_map(selection, "sm_count", "dram.bandwidth", value="bound_by", **asked)["values"] == [["noc"] * 3] * 2
    words = design_map(selection, "sm.policy", "sm_count", value="bound_by", **asked)
    assert (words["x"]["values"], words["values"]) == (["lrr", "gto"], [["dram", "noc"]] * 3)


@pytest.mark.unit
def test_map_of_one_kernel_shows_its_own_speed_and_a_failed_design_leaves_its_cell_empty() -> None:
    keys = grid_of(a=[1.0, 2.0], b=[1.0, 2.0])
    each = results(keys, {"k": [4.0, 2.0, 1.0, 1.0], "l": [1.0] * 4}, failed={(3, "l"): "no"})
    document = design_map(select(each), "a", "b", kernel="k")
    assert document["values"] == [[1.0, 4.0], [2.0, None]]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, "2 designs share a cell: they differ in sm.policy"),
        ({"y": "sm_count"}, "sm_count is named twice"),
        ({"fixed": {"sm_count": 15.0}}, "sm_count is named twice"),
        ({"fixed": {"sm.policy": "gtoo"}}, "no design has sm.policy at gtoo"),
        ({"x": "sm.count"}, 'unknown key "sm.count"; did you mean "sm_count"'),
        ({"others": "median"}, '"median" is not a known value of others'),
        ({"others": "mean", "value": "bound_by"}, "bound_by has no mean"),
        ({"others": "best", "value": "cpy"}, 'unknown value "cpy"; did you mean "cpi"'),
        ({"others": "best", "value": "cpi"}, "cpi differs between kernels"),
        ({"others": "best", "kernel": "m"}, 'unknown kernel "m"'),
    ],
)
def test_map_that_cannot_be_meant_is_refused(asked: dict, told: str) -> None:
    selection = select(results(KEYS, {"k": [1.0] * 12, "l": [1.0] * 12}))
    with pytest.raises(UsageError, match=told):
        design_map(selection, **({"x": "sm_count", "y": "dram.bandwidth"} | asked))
