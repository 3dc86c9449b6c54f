"""Does an empty kernel take the time that others have measured on an H100? Rows that the keys were not derived from."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.result.prediction import mean_absolute_percentage_error, relative_error

pytestmark = pytest.mark.oracle


def test_empty_kernels_take_their_published_time_within_4_percent(shared: Path) -> None:
    import launch_costs

    few = [row for row in launch_costs.rows(shared / "hardware") if row[0] % 2 and row[2] <= 4096][::20]
    assert len(few) > 10
    found = [launch_costs.predicted(threads, blocks) for _, threads, blocks, _ in few]
    for name in ("warpsight", "simulator"):
        errors = [relative_error(us[name], measured) for us, (*_, measured) in zip(found, few, strict=True)]
        assert mean_absolute_percentage_error(errors) < 4
        assert max(map(abs, errors)) < 0.2, "between 500 and 4,000 blocks the GPU sends the first thousand faster"


def test_without_its_part_for_launches_the_model_says_almost_nothing_of_them(shared: Path) -> None:
    import launch_costs

    assert launch_costs.predicted(256, 1)["warpsight~launch"] < 0.1
