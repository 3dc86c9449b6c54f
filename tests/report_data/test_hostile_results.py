"""Does a damaged file of results end in one error that names the file, whatever is wrong with it?"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warpsight.analysis.report_data.comparison import comparison_report_data
from warpsight.analysis.report_data.files import report_data_of_file
from warpsight.base.errors import FormatError, WarpsightError
from warpsight.reports.html.page import checked_page

pytestmark = pytest.mark.unit

WRONG: list[Any] = [
    None, True, 0, -1, 1e300, 10**29, 10**400, float("nan"), float("inf"), "", "\x00", "\ud800", "<script>alert(1)</script>",
    [], {}, [[]], [None], {"a": 1},
]  # fmt: skip
Where = tuple[str | int, ...]


def places(value: Any, at: Where = ()) -> Iterator[Where]:
    """Where something can be damaged: every key, and of lists the first two places."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, each in pairs:
        yield (*at, key)
        yield from places(each, (*at, key))


def damaged(document: Any, where: Where, how: Any) -> Any:
    found = copy.deepcopy(document)
    holder = found
    for key in where[:-1]:
        holder = holder[key]
    if how is damaged:
        del holder[where[-1]]
    else:
        holder[where[-1]] = how
    return found


def shown(path: Path, document: Any) -> str:
    path.write_text(json.dumps(document))
    return checked_page(report_data_of_file(str(path)), str(path))


@pytest.fixture
def files(results: Path, report_data: dict[str, Any]) -> list[Any]:
    """A list of predictions, report data and a comparison."""
    found = [json.loads(path.read_text()) for path in sorted(results.rglob("*.json"))]
    short = report_data_of_file(str(results / "stride.json"))
    return [*found, short, report_data, comparison_report_data(report_data, report_data, ["a", "b"])]


def test_damage_of_every_kind_is_an_error_or_shown(files: list[Any], tmp_path: Path) -> None:
    dice = random.Random(20)
    refused = 0
    for document in files:
        where = list(places(document))
        for place in dice.sample(where, min(len(where), 120)):
            try:
                assert "<script>alert" not in shown(tmp_path / "r.json", damaged(document, place, dice.choice([*WRONG, damaged])))
            except WarpsightError as error:
                assert str(tmp_path) in str(error)
                refused += 1
    assert refused > 50


NO_JSON = ["[" * 900 + "]" * 900, "[" * 100_000, "NaN", "1e999", "9" * 5000, '"\\ud800"', "", "\xff", "[]", "{}"]


@pytest.mark.parametrize("text", NO_JSON)
def test_what_is_no_json_of_results_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError, match=r"r\.json"):
        report_data_of_file(str(path))


def test_report_data_with_damaged_predictions_is_refused_by_what_is_wrong(results: Path, tmp_path: Path) -> None:
    document = report_data_of_file(str(results / "stride.json"))
    document["predictions"][0].pop("dpki")
    with pytest.raises(FormatError, match="dpki"):
        shown(tmp_path / "r.json", document)


def test_predictions_of_several_kernels_are_not_one_report(results: Path, tmp_path: Path) -> None:
    first = report_data_of_file(str(results / "stride.json"))["predictions"][0]
    with pytest.raises(WarpsightError, match="stride, other"):
        shown(tmp_path / "r.json", [first, first | {"kernel": "other"}])
    with pytest.raises(WarpsightError, match="no prediction"):
        shown(tmp_path / "r.json", [])
