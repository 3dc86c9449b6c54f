"""Is a report of a fixed document still what it was? `python tools/report_snapshots.py` stores what it is now."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import report_snapshots
from warpsight.reports.html.page import page

pytestmark = pytest.mark.golden
_DATA = re.compile(r'<script type="application/json" id="document">(.*?)</script>', re.S)


@pytest.mark.parametrize("path", report_snapshots.documents(), ids=lambda path: path.stem)
def test_page_of_a_fixed_document_is_the_one_stored(path: Path) -> None:
    changed = report_snapshots.difference(path)
    assert not changed, f"{changed}\nis it meant? then {report_snapshots.COMMAND}"


@pytest.mark.parametrize("path", report_snapshots.documents(), ids=lambda path: path.stem)
def test_page_holds_its_document_and_comes_out_the_same_again(path: Path) -> None:
    document = json.loads(path.read_text("utf-8"))
    text = page(document)
    found = _DATA.search(text)
    assert found
    held = json.loads(found[1])
    # rows of code may be in another form there, and a timeline names each file once
    held.pop("code"), document.pop("code")
    document["predictions"][0].get("summary", {}).pop("not_tried", None)  # long, and no part of the page
    timeline = held.get("timeline", {"files": [], "instructions": {}})
    files = timeline.pop("files")
    assert len(files) == len(set(files))
    for instruction in timeline["instructions"].values():
        instruction["file"] = files[instruction["file"]]
    assert held == document
    assert page(json.loads(path.read_text("utf-8"))) == text
