"""Is the representative warp the one that GPUMech's clustering means?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.base.errors import UsageError
from warpsight.intervals.build import select, two_means

pytestmark = pytest.mark.unit


def _select(rows: list[tuple[int, float, int]], method: str = "kmeans") -> int:
    """Rows: instructions, cycles, warps of each path; warps are numbered in the order of the rows."""
    instructions, cycles, warps = (np.array(column) for column in zip(*rows, strict=True))
    first = np.concatenate([[0], np.cumsum(warps)[:-1]])
    return select(instructions.astype(np.int64), cycles.astype(np.float64), warps.astype(np.int64), first, method=method)


# six warps near 100 instructions at IPC 0.5, two outliers far longer and faster
ROWS = [(1000, 1100.0, 2), (98, 200.0, 2), (100, 200.0, 3), (104, 200.0, 1)]


def test_kmeans_of_a_crowd_and_outliers_takes_the_middle_of_the_crowd() -> None:
    # the crowd's mean is (2 x 98 + 3 x 100 + 104) / 6 = 100
    assert _select(ROWS) == 2


def test_max_and_min_take_the_extremes_of_warp_performance() -> None:
    assert (_select(ROWS, "max"), _select(ROWS, "min")) == (0, 1)


def test_kmeans_weighs_a_path_by_its_warps() -> None:
    assert _select([(100, 200.0, 1), (101, 200.0, 1), (500, 700.0, 9)]) == 2


def test_kmeans_of_one_path_takes_it() -> None:
    assert _select([(7, 9.0, 4)]) == 0


def test_kmeans_of_equal_clusters_takes_the_first_warps() -> None:
    assert _select([(10, 100.0, 3), (1000, 1100.0, 3)]) == 0


def test_paths_without_warps_or_instructions_are_passed_over() -> None:
    instructions, cycles = np.array([50, 0, 60], dtype=np.int64), np.array([60.0, 0.0, 90.0])
    assert select(instructions, cycles, np.array([0, 5, 1]), np.array([-1, 0, 5])) == 2


def test_method_that_is_unknown_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match='did you mean "kmeans"'):
        _select(ROWS, "kmean")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 2), st.floats(0.1, 2), st.integers(1, 5)), min_size=2, max_size=9))
def test_two_means_of_any_points_is_stable_and_beats_every_straight_cut(points: list[tuple[float, float, int]]) -> None:
    data = np.array([point[:2] for point in points])
    weights = np.array([point[2] for point in points], dtype=np.float64)

    def spread(second: npt.NDArray[np.bool_]) -> float:
        total = 0.0
        for side in (second, ~second):
            if side.any():
                centre = np.average(data[side], axis=0, weights=weights[side])
                total += float((weights[side] * ((data[side] - centre) ** 2).sum(axis=1)).sum())
        return total

    found = two_means(data, weights)
    cuts = [data[:, axis] > limit for axis in (0, 1) for limit in data[:, axis]]
    assert spread(found) <= min(spread(cut) for cut in cuts) + 1e-9
    if found.any() and not found.all():
        centres = [np.average(data[side], axis=0, weights=weights[side]) for side in (~found, found)]
        nearer = ((data - centres[1]) ** 2).sum(axis=1) - ((data - centres[0]) ** 2).sum(axis=1)
        assert (nearer[found] < 1e-9).all()
        assert (nearer[~found] > -1e-9).all()
