"""Do the models still have the errors on Warpsight's suite that the page says, and does ours keep its promise there?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def found() -> Sequence[Any]:
    import suite_models

    return suite_models.outcomes()


def test_page_shows_the_tables_that_the_code_makes(found: list[Any]) -> None:
    import marked_page
    import suite_models

    for name, table in suite_models.tables(found).items():
        assert marked_page.get(suite_models.PAGE, suite_models.COMMAND, name) == table, f"run {suite_models.COMMAND}"


def test_warpsight_is_within_8_percent_of_the_simulator_on_average(found: list[Any]) -> None:
    import suite_models

    halves = suite_models.halves(found)
    assert suite_models.mape(halves["all"], "warpsight") <= 8
    assert len(halves["development"]) == len(halves["holdout"]) == 21


def test_warpsight_is_within_20_percent_on_every_kernel_it_was_developed_on(found: list[Any]) -> None:
    import suite_models

    assert max(abs(row.error("warpsight")) for row in suite_models.halves(found)["development"]) <= 0.20
