"""Does the performance of a design say what its definition says, and is every design that has none counted?"""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from study_tables import results, tables, term

from warpsight.base.errors import FormatError, UsageError
from warpsight.sweeps.answers.best import best
from warpsight.sweeps.answers.maps import speedups
from warpsight.sweeps.answers.results import performance, results_of
from warpsight.sweeps.answers.selection import select

pytestmark = pytest.mark.unit

KEYS = {"sm_count": [10.0, 20.0, 40.0, 40.0], "sm.policy": ["lrr", "gto", "lrr", "gto"]}
SECONDS = {"a": [8.0, 4.0, 2.0, 2.0], "b": [1.0, 2.0, 1.0, 1.0]}
FAILED = {(2, "b"): "no block fits"}


def test_geometric_mean_of_speeds_equals_the_one_by_hand() -> None:
    found = performance(results(KEYS, SECONDS), "geomean", 0)
    assert found.values == pytest.approx([1.0, 1.0, 2.0, 2.0])  # sqrt(1*1), sqrt(2*0.5), sqrt(4*1)


def test_total_worst_and_one_kernel_equal_those_by_hand() -> None:
    each = results(KEYS, SECONDS)
    assert performance(each, "total", 1).values == pytest.approx([6 / 9, 1.0, 2.0, 2.0])
    assert performance(each, "worst", 1).values == pytest.approx([0.5, 1.0, 2.0, 2.0])
    assert performance(each, "b", 1).values == pytest.approx([2.0, 1.0, 2.0, 2.0])


def test_order_of_designs_by_geometric_mean_is_the_same_from_any_baseline() -> None:
    each = results(KEYS, {"a": [3.0, 5.0, 2.0, 9.0], "b": [4.0, 2.5, 8.0, 1.0]})
    ranked = [tuple(np.argsort(performance(each, "geomean", base).values)) for base in range(4)]
    assert len(set(ranked)) == 1


def test_design_on_which_a_kernel_failed_or_is_missing_is_left_out_and_counted_with_its_reason() -> None:
    each = results(KEYS, SECONDS, failed=FAILED, missing=[(3, "a")])
    found = performance(each)
    assert np.isnan(found.values).tolist() == [False, False, True, True]
    reasons = [{"reason": "no block fits", "rows": 1, "first": 2}]
    assert found.left_out == {"designs": 2, "failed": 1, "missing": 1, "reasons": reasons}
    assert performance(each, "a").left_out == {"designs": 1, "failed": 0, "missing": 1, "reasons": []}


def test_kernel_called_like_a_metric_is_named_with_a_prefix() -> None:
    each = results(KEYS, {"total": [1.0, 2.0, 4.0, 8.0], "b": [1.0, 1.0, 1.0, 1.0]})
    assert performance(each, "total").values[3] == pytest.approx(2 / 9)
    assert performance(each, "kernel:total").values[3] == pytest.approx(1 / 8)


def test_baseline_without_a_result_is_refused_by_name() -> None:
    each = results(KEYS, SECONDS, failed=FAILED)
    with pytest.raises(UsageError, match="mdm has no time of b on design 2"):
        performance(each, baseline=2)
    with pytest.raises(UsageError, match="there is no design 9"):
        performance(each, baseline=9)
    with pytest.raises(UsageError, match='no kernel "geomaen"; did you mean "geomean"'):
        performance(each, "geomaen")


def test_baseline_that_is_not_named_is_the_first_design_with_a_result() -> None:
    each = results(KEYS, SECONDS, failed={(0, "a"): "no block fits"}, missing=[(1, "b")])  # as when the simulator ran on some
    found = performance(each)
    assert found.baseline == 2
    assert np.isnan(found.values).tolist() == [True, True, False, False]
    with pytest.raises(UsageError, match="mdm has no time of a on design 0"):
        performance(each, baseline=0)
    nothing = results(KEYS, SECONDS, failed={(design, "a"): "no block fits" for design in range(4)})
    with pytest.raises(UsageError, match="mdm has no time of a on design 0"):
        performance(nothing)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda rows, designs: (rows.drop_columns(["cpi"]), designs), "the column cpi is missing"),
        (lambda rows, designs: (pa.concat_tables([rows, rows.slice(0, 1)]), designs), "design 0 and kernel a have two rows"),
        (lambda rows, designs: (rows, designs.slice(1)), "a row is of design 0, which is not among"),
        (lambda rows, designs: (rows, pa.concat_tables([designs, designs.slice(3)])), "design 3 is given twice"),
        (lambda rows, designs: (rows.set_column(rows.column_names.index("seconds"), "seconds", pa.array([0.0] * 8)), designs),
         "takes 0.0 seconds"),
    ],
)  # fmt: skip
def test_tables_that_are_not_a_study_s_are_refused(change: Any, told: str) -> None:
    rows, designs = change(*tables(KEYS, SECONDS))
    with pytest.raises(FormatError, match=told):
        results_of(rows, designs, model="mdm")


def test_model_kernel_or_axis_that_is_not_there_is_refused_with_those_that_are() -> None:
    rows, designs = tables(KEYS, SECONDS)
    with pytest.raises(UsageError, match='unknown model "mmd"; did you mean "mdm"'):
        results_of(rows, designs, model="mmd")
    with pytest.raises(UsageError, match="known: a, b"):
        results_of(rows, designs, model="mdm", kernels=["c"])
    with pytest.raises(UsageError, match='unknown axis "sm"'):
        results_of(rows, designs, model="mdm", axes=["sm"])


def test_order_of_rows_and_other_models_change_no_result() -> None:
    rows, designs = tables(KEYS, SECONDS)
    other, _ = tables(KEYS, {"a": [1.0] * 4, "b": [1.0] * 4}, model="gpumech")
    mixed = pa.concat_tables([other.slice(3), rows.take([7, 1, 4, 0, 3, 2, 6, 5]), other.slice(0, 3)])
    found = results_of(mixed, designs.take([2, 0, 3, 1]), model="mdm", kernels=["a", "b"])
    assert found.figures("seconds").tolist() == [SECONDS["a"], SECONDS["b"]]
    assert found.keys["sm.policy"].tolist() == KEYS["sm.policy"]


def test_best_designs_come_by_performance_then_number_with_what_binds_each_kernel() -> None:
    bound = {"bound_by": {"a": ["dram", "noc", "mshr", "dram"], "b": ["base"] * 4}}
    document = best(select(results(KEYS, SECONDS, columns=bound)), 1)
    assert [each["design"] for each in document["best"]] == [2]
    assert document["ties"] == 1  # design 3 is as good
    first = document["best"][0]
    assert first["keys"] == {"sm_count": 40.0, "sm.policy": "lrr"}
    assert (first["performance"], first["seconds"]) == (pytest.approx(2.0), 3.0)
    assert [(k["kernel"], k["speedup"], k["bound_by"]) for k in first["kernels"]] == [("a", 4.0, "mshr"), ("b", 1.0, "base")]


def test_constraint_over_keys_and_performance_leaves_only_designs_on_which_it_holds() -> None:
    where = [
        term("sm_count <= 20 or performance < 2.5", lambda sms, speed: (sms <= 20) | (speed < 2.5), "sm_count", "performance"),
        term("sm.policy == gto", lambda policy: policy == "gto", "sm.policy"),
    ]
    document = best(select(results(KEYS, SECONDS, failed=FAILED), where=where))
    assert [each["design"] for each in document["best"]] == [3, 1]
    assert (document["designs"], document["left_out"]["designs"], document["excluded"], document["chosen"]) == (4, 1, 1, 2)
    assert document["where"] == [each.text for each in where]


def test_constraint_over_a_column_of_results_must_hold_on_every_kernel() -> None:
    document = best(select(results(KEYS, SECONDS), where=[term("seconds <= 2", lambda s: s <= 2, "seconds")]))
    assert [each["design"] for each in document["best"]] == [2, 3]  # design 1 takes 4 s for a
    one = best(select(results(KEYS, SECONDS), metric="b", where=[term("seconds <= 1", lambda s: s <= 1, "seconds")]))
    assert [each["design"] for each in one["best"]] == [0, 2, 3]


def test_constraint_sees_only_designs_that_have_numbers_and_the_class_under_a_name_of_its_own() -> None:
    seen = []

    def looks(design: np.ndarray, kind: np.ndarray) -> np.ndarray:
        seen.append(design.tolist())
        return kind == "dram"

    each = results(KEYS, SECONDS, failed=FAILED, columns={"class": {"a": ["dram"] * 4, "b": ["no"] + ["dram"] * 3}})
    document = best(select(each, where=[term("memory_class == dram", looks, "design", "memory_class")]))
    assert seen == [[0, 1, 3]] * 2
    assert [row["design"] for row in document["best"]] == [3, 1]


def test_constraint_that_names_nothing_known_is_no_condition_or_leaves_nothing_is_refused() -> None:
    each = results(KEYS, SECONDS)
    with pytest.raises(UsageError, match='"sm_cuont" is not a column of the results; did you mean "sm_count"'):
        select(each, where=[term("sm_cuont > 1", lambda s: s > 1, "sm_cuont")])
    with pytest.raises(UsageError, match="must be true or false"):
        select(each, where=[term("sm_count + 1", lambda s: s + 1, "sm_count")])
    with pytest.raises(UsageError, match="none of 4 designs remains: 0 without a result, 4 excluded"):
        select(each, where=[term("sm_count > 100", lambda s: s > 100, "sm_count")])


def test_speedups_along_an_axis_are_of_designs_that_differ_from_the_baseline_in_it_alone() -> None:
    document = speedups(select(results(KEYS, SECONDS), baseline=2), axis="sm_count")
    assert [each["design"] for each in document["columns"]] == [0, 2]  # 1 and 3 have another policy
    assert document["values"] == [[0.25, 1.0], [1.0, 1.0]]
    assert document["geomean"] == pytest.approx([0.5, 1.0])


def test_speedups_of_named_designs_keep_their_order_and_tell_where_there_is_none() -> None:
    document = speedups(select(results(KEYS, SECONDS, failed=FAILED)), designs=[2, 1, 2])
    assert [each["design"] for each in document["columns"]] == [2, 1]
    assert document["values"] == [[4.0, 2.0], [None, 0.5]]
    assert document["geomean"] == [None, pytest.approx(exp((log(2.0) + log(0.5)) / 2))]
    with pytest.raises(UsageError, match="both designs and an axis"):
        speedups(select(results(KEYS, SECONDS)), designs=[1], axis="sm_count")
