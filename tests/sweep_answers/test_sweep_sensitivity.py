"""Are the indices those of the definition, of known functions, and of chance where there is nothing but chance?"""

from __future__ import annotations

from itertools import product
from math import pi

import numpy as np
import pytest
import scipy  # `scipy.stats` takes a second to import, which the test that uses it shall take, not each process that reads this
from hypothesis import given
from hypothesis import strategies as st
from study_tables import chosen, grid_of, results

from warpsight.base.errors import UsageError
from warpsight.sweeps.answers.selection import select
from warpsight.sweeps.answers.sensitivity import correlation_ratio, elasticity, factor, rank_correlation, sensitivity

pytestmark = pytest.mark.unit


def _hypercube(count: int, dimensions: int, seed: int) -> np.ndarray:
    """A Latin hypercube over 0 to 1."""
    generator = np.random.default_rng(seed)
    strata = np.column_stack([generator.permutation(count) for _ in range(dimensions)])
    return (strata + generator.random((count, dimensions))) / count


def _ishigami(unit: np.ndarray) -> np.ndarray:
    x = pi * (2 * unit - 1)
    return np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])


def _first_of(document: dict, kernel: int = 0) -> list[float]:
    return [row["first"] for row in document["of"][kernel]["keys"]]


@pytest.mark.property
@given(st.lists(st.lists(st.floats(-3, 3), min_size=2, max_size=4), min_size=2, max_size=3))
def test_first_order_indices_of_any_additive_function_on_a_grid_are_its_parts_variances_and_sum_to_1(parts: list) -> None:
    if max(np.ptp(part) for part in parts) < 1e-3:
        return
    combined = list(product(*(range(len(part)) for part in parts)))
    logs = np.array([sum(part[k] for part, k in zip(parts, each, strict=True)) for each in combined])
    keys = {f"x{n}": [1.0 + each[n] for each in combined] for n in range(len(parts))}
    document = sensitivity(chosen(keys, np.exp(-logs)))
    variances = np.array([np.var(part) for part in parts])
    assert document["estimator"] == "grid"
    assert _first_of(document) == pytest.approx((variances / variances.sum()).tolist(), abs=1e-9)
    assert [row["total"] for row in document["of"][0]["keys"]] == pytest.approx(_first_of(document), abs=1e-9)
    assert document["of"][0]["interactions"]["share"] == pytest.approx(0, abs=1e-9)


@pytest.mark.property
@given(st.lists(st.floats(-2, 2), min_size=12, max_size=12, unique=True))
def test_indices_on_a_grid_equal_loops_over_the_definition(logs: list[float]) -> None:
    table = np.array(logs).reshape(2, 2, 3)
    document = sensitivity(chosen(grid_of(a=[1, 2], b=[1, 2], c=[1, 2, 3]), np.exp(-np.array(logs))))
    rows = document["of"][0]["keys"]
    for axis, row in enumerate(rows):
        lines = np.moveaxis(table, axis, 0)
        means = [float(np.mean(part)) for part in lines]
        first = float(np.mean([(mean - table.mean()) ** 2 for mean in means])) / float(table.var())
        inner = [float(np.var(line)) for line in lines.reshape(len(lines), -1).T]
        assert row["first"] == pytest.approx(first, abs=1e-9)
        assert row["total"] == pytest.approx(float(np.mean(inner)) / float(table.var()), abs=1e-9)


def test_product_of_two_signs_has_no_first_order_index_and_is_all_interaction() -> None:
    # ln(speed) = a b with a, b = -1, 1: each alone explains nothing
    document = sensitivity(chosen(grid_of(a=[1, 2], b=[1, 2]), np.exp([-1.0, 1.0, 1.0, -1.0])))
    entry = document["of"][0]
    assert _first_of(document) == pytest.approx([0, 0], abs=1e-12)
    assert [row["total"] for row in entry["keys"]] == pytest.approx([1, 1])
    assert entry["interactions"]["share"] == pytest.approx(1)
    assert entry["interactions"]["pairs"] == [{"keys": ["a", "b"], "share": pytest.approx(1)}]


def test_indices_of_ishigami_from_a_hypercube_are_the_known_ones_within_their_error() -> None:
    unit = _hypercube(4096, 3, 7)
    keys = {f"x{k}": list(1 + unit[:, k]) for k in range(3)}
    document = sensitivity(chosen(keys, np.exp(-_ishigami(unit))))
    known = (0.3139, 0.4424, 0.0)  # a = 7, b = 0.1: Ishigami and Homma, 1990
    assert document["estimator"] == "sample"
    for row, index in zip(document["of"][0]["keys"], known, strict=True):
        assert row["groups"] == 64
        assert row["first"] == pytest.approx(index, abs=0.03)
        assert row["total"] is None
    noise = document["of"][0]["keys"][2]["noise"]
    assert abs(document["of"][0]["keys"][2]["first"]) < 2 * noise


def test_index_by_chance_alone_is_0_on_average_and_within_its_noise_nineteen_times_of_twenty() -> None:
    generator = np.random.default_rng(3)
    ratios = [correlation_ratio(factor("x", generator.random(200)), generator.normal(size=200)) for _ in range(400)]
    found = np.array([each.index for each in ratios])
    noise = ratios[0].noise
    assert abs(found.mean()) < 3 * found.std() / 20
    assert 2 * found.std() == pytest.approx(noise, rel=0.1)
    assert 0.93 < np.mean(np.abs(found) < noise) < 0.98


def test_linear_effect_in_groups_lacks_the_square_of_their_number() -> None:
    x = (np.arange(100) + 0.5) / 100
    ratio = correlation_ratio(factor("x", x), x)
    assert ratio.bins == 10
    eta = 1 - (1 - ratio.index) * (100 - 10) / 99
    assert 1 - eta == pytest.approx(1 / 10**2, rel=0.02)


def test_equal_values_stay_in_one_group_and_words_are_groups_of_their_own() -> None:
    x = np.array([0.0] * 50 + list(range(1, 51)))
    ratio = correlation_ratio(factor("x", x), np.where(x == 0, 1.0, 0.0) + 1e-9 * np.arange(100) % 3)
    assert ratio.index == pytest.approx(1.0, abs=1e-6)
    words = np.array(["a", "b"] * 8, dtype=object)
    assert correlation_ratio(factor("w", words), np.array([1.0, 2.0] * 8)).bins == 2
    assert correlation_ratio(factor("w", np.array([f"w{k}" for k in range(16)], dtype=object)), np.arange(16.0)) is None


@pytest.mark.property
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=30))
def test_rank_correlation_equals_that_of_scipy(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(each, float) for each in zip(*pairs, strict=True))
    found = rank_correlation(factor("x", x), y)
    if len(set(x)) < 2 or len(set(y)) < 2:
        assert found is None
    else:
        assert found == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-12)


def test_elasticity_of_a_power_law_is_its_exponent_between_any_neighbours() -> None:
    keys = grid_of(sm_count=[10, 20, 40], dram__bandwidth=[1e11, 3e11], sm__policy=["gto", "lrr"])
    speed = np.array(keys["sm_count"]) ** 0.8 * np.array(keys["dram.bandwidth"]) ** -0.25
    rows = sensitivity(chosen(keys, 1 / speed))["of"][0]["keys"]
    assert [row["key"] for row in rows] == ["sm_count", "dram.bandwidth", "sm.policy"]
    assert rows[0]["elasticity"] == dict.fromkeys(("median", "low", "high"), pytest.approx(0.8)) | {"pairs": 8}
    assert (rows[1]["elasticity"]["median"], rows[1]["elasticity"]["pairs"]) == (pytest.approx(-0.25), 6)
    assert rows[2]["elasticity"] is None
    assert [row["rank_correlation"] and np.sign(row["rank_correlation"]) for row in rows] == [1, -1, None]


def test_elasticity_median_is_of_the_slopes_at_each_place() -> None:
    # from 1 to 2 twice as fast, from 2 to 4 no faster, from 4 to 8 a quarter
    entry = sensitivity(chosen({"sm_count": [1, 2, 4, 8]}, [4.0, 2.0, 2.0, 8.0]))["of"][0]
    assert entry["keys"][0]["elasticity"]["median"] == pytest.approx(0.0)
    assert entry["keys"][0]["elasticity"]["pairs"] == 3


def test_grid_with_a_design_left_out_is_taken_as_a_sample_and_says_so_with_elasticities_between_what_is_there() -> None:
    keys = grid_of(a=[1.0, 2.0, 4.0, 8.0], b=[1.0, 2.0, 4.0, 8.0, 16.0])
    each = results(keys, {"k": [1 / a for a in keys["a"]]}, failed={(7, "k"): "no"})
    document = sensitivity(select(each))
    assert (document["estimator"], document["chosen"], document["left_out"]["failed"]) == ("sample", 19, 1)
    assert document["why"].startswith("1 combinations of the 20 have no design here; ")
    rows = document["of"][0]["keys"]
    assert (rows[0]["elasticity"]["median"], rows[0]["elasticity"]["pairs"]) == (pytest.approx(1.0), 13)
    assert rows[0]["first"] == pytest.approx(1.0)


def test_each_kernel_has_indices_of_its_own_and_derived_keys_none() -> None:
    keys = grid_of(a=[1.0, 2.0], b=[1.0, 2.0]) | {"area": [2.0, 3.0, 3.0, 4.0]}
    each = results(keys, {"of_a": [1.0, 1.0, 0.5, 0.5], "of_b": [4.0, 1.0, 4.0, 1.0], "none": [1.0] * 4}, axes=["a", "b"])
    document = sensitivity(select(each))
    assert [entry["kernel"] for entry in document["of"]] == ["all kernels", "of_a", "of_b", "none"]
    assert [_first_of(document, k) for k in (1, 2)] == [pytest.approx([1, 0]), pytest.approx([0, 1])]
    # logarithms of the speeds: means over three kernels of a step of ln 2 and one of 2 ln 2
    assert _first_of(document, 0) == pytest.approx([0.2, 0.8])
    assert (_first_of(document, 3), document["of"][3]["variance"]) == ([None, None], 0.0)


def test_scale_of_the_performance_itself_gives_the_variance_of_the_performance() -> None:
    selection = chosen({"a": [1.0, 2.0, 3.0]}, [1.0, 0.5, 0.25])
    assert sensitivity(selection, "linear")["of"][0]["variance"] == pytest.approx(np.var([1, 2, 4]))
    assert sensitivity(selection)["of"][0]["variance"] == pytest.approx(np.var(np.log([1, 2, 4])))


def test_nothing_that_varies_and_too_few_designs_are_refused() -> None:
    with pytest.raises(UsageError, match="no axis varies"):
        sensitivity(chosen({"a": [1.0]}, [1.0]))
    with pytest.raises(UsageError, match="3 designs without a full grid are too few"):
        sensitivity(chosen({"a": [1.0, 1.0, 2.0], "b": [1.0, 2.0, 2.0]}, [1.0, 2.0, 3.0]))
    with pytest.raises(UsageError, match='unknown scale "cubic"'):
        sensitivity(chosen({"a": [1.0, 2.0]}, [1.0, 2.0]), "cubic")


def test_example_of_the_documentation_has_the_indices_by_hand() -> None:
    keys = grid_of(sm_count=[1.0, 4.0], dram__bandwidth=[1.0, 4.0])
    entry = sensitivity(chosen(keys, [1.0, 1.0, 1.0, 0.25]))["of"][0]
    assert [(row["first"], row["total"]) for row in entry["keys"]] == [(pytest.approx(1 / 3), pytest.approx(2 / 3))] * 2
    assert entry["interactions"]["pairs"][0]["share"] == pytest.approx(1 / 3)


@pytest.mark.filterwarnings("error")
def test_values_whose_logarithms_are_equal_have_no_slope_between_them() -> None:
    values = np.array([1e6, np.nextafter(1e6, 2e6), 2e6])
    found = elasticity(factor("dram.bandwidth", values), 0, np.arange(3), np.log(np.array([1.0, 1.0, 2.0])))
    assert found is not None and (found.pairs, found.median) == (1, pytest.approx(1.0))
