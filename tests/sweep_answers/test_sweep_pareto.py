"""Is the front exactly what its definition says, for any points?"""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from study_tables import chosen, results, term

from warpsight.base.errors import UsageError
from warpsight.sweeps.answers.best import pareto, pareto_front
from warpsight.sweeps.answers.selection import select

FEW = st.integers(-3, 3).map(float)  # so that ties and equal points are frequent
MANY = st.floats(-1e300, 1e300)
COST = term("sm_count", lambda sms: sms, "sm_count")


def _by_definition(points: np.ndarray) -> list[bool]:
    def betters(one: np.ndarray, other: np.ndarray) -> bool:
        return bool(np.all(one <= other) and np.any(one < other))

    return [not any(betters(one, other) for one in points) for other in points]


@pytest.mark.property
@given(st.sampled_from([FEW, MANY]).flatmap(
    lambda each: hnp.arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=each)))
def test_front_of_any_points_is_those_that_none_betters(points: np.ndarray) -> None:
    assert pareto_front(points).tolist() == _by_definition(points)


@pytest.mark.unit
@pytest.mark.parametrize("objectives", [2, 3, 4])
def test_front_of_more_points_than_a_block_is_those_that_none_betters(objectives: int) -> None:
    generator = np.random.default_rng(objectives)
    points = generator.integers(0, 60, (3000, objectives)).astype(float)
    bettered = np.zeros(len(points), bool)
    for each in points:
        bettered |= np.all(each <= points, axis=1) & np.any(each < points, axis=1)
    assert np.array_equal(pareto_front(points), ~bettered)


@pytest.mark.unit
def test_front_of_a_million_designs_takes_less_than_two_seconds() -> None:
    points = np.random.default_rng(1).random((10**6, 2))
    started = time.process_time()
    on = pareto_front(points)
    assert time.process_time() - started < 2.0
    left = points[on][np.argsort(points[on, 0])]
    assert np.all(np.diff(left[:, 1]) < 0)
    assert np.all(np.diff(left[:, 0]) > 0)


@pytest.mark.unit
def test_design_of_equal_cost_and_less_performance_is_off_and_an_equal_one_is_counted() -> None:
    # costs 1, 2, 2, 2, 3, 4; speeds 1, 2, 1.5, 2, 2, 4
    selection = chosen({"sm_count": [1.0, 2.0, 2.0, 2.0, 3.0, 4.0]}, [4.0, 2.0, 4 / 1.5, 2.0, 2.0, 1.0])
    document = pareto(selection, [COST])
    assert [each["design"] for each in document["front"]] == [0, 1, 5]
    assert [each["values"] for each in document["front"]] == [[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]]
    assert [(each["equal"], each["equal_designs"]) for each in document["front"]] == [(0, []), (1, [3]), (0, [])]
    assert document["bettered"] == 2
    assert document["objectives"] == [{"name": "performance", "better": "more"}, {"name": "sm_count", "better": "less"}]
    assert sorted(document["others"]) == [[1.5, 2.0], [2.0, 3.0]]


@pytest.mark.unit
def test_second_cost_keeps_designs_on_the_front_that_only_it_favours() -> None:
    watts = term("watts", lambda w: w, "watts")
    selection = chosen({"sm_count": [1.0, 2.0, 3.0], "watts": [3.0, 2.0, 1.0]}, [1.0, 1.0, 1.0])
    assert [each["design"] for each in pareto(selection, [COST])["front"]] == [0]
    assert [each["design"] for each in pareto(selection, [COST, watts])["front"]] == [0, 1, 2]


@pytest.mark.unit
def test_designs_that_failed_or_are_excluded_are_neither_on_the_front_nor_off_it() -> None:
    each = results({"sm_count": [1.0, 2.0, 3.0, 4.0]}, {"k": [4.0, 3.0, 2.0, 1.0]}, failed={(3, "k"): "no"})
    where = [term("sm_count > 1", lambda sms: sms > 1, "sm_count")]
    document = pareto(select(each, where=where), [COST])
    assert [each["design"] for each in document["front"]] == [1, 2]
    assert (document["bettered"], document["others"], document["left_out"]["failed"], document["excluded"]) == (0, [], 1, 1)


@pytest.mark.unit
def test_points_off_the_front_are_thinned_and_their_number_told() -> None:
    selection = chosen({"sm_count": list(range(1, 5002))}, [1.0] * 5001)
    document = pareto(selection, [COST])
    assert (len(document["front"]), document["others_of"]) == (1, 5000)
    assert 500 < len(document["others"]) <= 1000


@pytest.mark.unit
def test_cost_that_is_unknown_infinite_or_no_number_is_refused() -> None:
    selection = chosen({"sm_count": [1.0, 2.0]}, [1.0, 1.0])
    with pytest.raises(UsageError, match='cost "area": "area" is not a column'):
        pareto(selection, [term("area", lambda area: area, "area")])
    with pytest.raises(UsageError, match="is inf on design 1 and on 0 more"):
        pareto(selection, [term("1 / (sm_count - 2)", lambda sms: 1 / abs(sms - 2), "sm_count")])
    with pytest.raises(UsageError, match="a cost must be a number"):
        pareto(selection, [term("sm_count > 1", lambda sms: sms > 1, "sm_count")])
    with pytest.raises(UsageError, match="needs a cost"):
        pareto(selection, [])
