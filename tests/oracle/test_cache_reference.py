"""Does the reuse-distance model agree with an independent implementation of it?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[Any]:
    import cache_model

    assert shared.is_dir()
    return cache_model.compare()


@pytest.fixture(scope="module")
def kernels(shared: Path) -> list[Any]:
    import cache_model

    assert shared.is_dir()
    return cache_model.kernels()


def of_kind(rows: list[Any], kind: str) -> list[Any]:
    import cache_model

    found = [row for row in rows if cache_model.kind_of(row.reference) == kind]
    assert found
    return found


def test_compulsory_misses_are_equal_on_every_row(rows: list[Any]) -> None:
    assert [row.compulsory for row in rows] == [float(row.reference["compulsory"]) for row in rows]


def test_miss_rate_without_latency_is_equal(rows: list[Any]) -> None:
    # the reference prints three digits after the point
    assert max(abs(row.difference) for row in of_kind(rows, "no latency")) <= 0.0005


def test_deterministic_rows_are_within_3_points_on_average_and_8_at_worst(rows: list[Any]) -> None:
    found = [abs(row.difference) for row in of_kind(rows, "deterministic")]
    assert np.mean(found) <= 3
    assert max(found) <= 8


def test_random_rows_are_within_4_points_on_average_over_ten_seeds(rows: list[Any]) -> None:
    assert np.mean([abs(row.difference) for row in of_kind(rows, "random, ten seeds")]) <= 4


def test_reference_kernels_miss_as_in_the_exact_hierarchy_within_5_points_on_average(kernels: list[Any]) -> None:
    assert len(kernels) == 23
    assert np.mean([abs(row.request - row.exact) for row in kernels]) <= 5


def test_page_shows_the_tables_that_the_code_makes(rows: list[Any], kernels: list[Any]) -> None:
    import cache_model
    import marked_page

    for name, table in cache_model.tables(rows, kernels).items():
        assert marked_page.get(cache_model.PAGE, cache_model.COMMAND, name) == table, f"run {cache_model.COMMAND}"
