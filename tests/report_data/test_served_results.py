"""Does the explorer list what is in its folder, show it, again when it changes, and nothing else?"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from warpsight.analysis.report_data import files
from warpsight.base.errors import FormatError, UsageError
from warpsight.explorer.results import Results
from warpsight.explorer.server import Explorer
from warpsight.explorer.worker import Limits

pytestmark = pytest.mark.unit


def ident(found: Results, name: str) -> str:
    return next(item.ident for item in found._folder.items() if item.name == name)


def test_list_has_kernel_gpu_time_bottleneck_and_date_of_each_result_and_the_newest_first(
    results: Path, report_data: dict[str, Any]
) -> None:
    older = report_data["predictions"][0] | {"kernel": "older<float>", "seconds": 1.5e-3}
    (results / "older.json").write_text(json.dumps(older))
    os.utime(results / "older.json", (1e9, 1e9))
    first, second = Results(results).rows()
    assert (first["name"], first["gpu"], first["comparable"]) == ("stride.json", "mdm-pascal", True)
    bound = report_data["predictions"][0]["bound_by"]
    row = ("older<float>", "older.json", 1.5e-3, "mdm", bound, 1e9)
    assert tuple(second[key] for key in ("kernel", "name", "seconds", "model", "bound_by", "changed")) == row


def test_result_is_shown_and_again_when_it_has_changed(results: Path) -> None:
    found = Results(results)
    (before,) = found.rows()
    assert "<h1>stride on mdm-pascal</h1>" in found.page(before["ident"])
    document = json.loads((results / "stride.json").read_text())
    document[0]["kernel"] = "renamed"
    (results / "stride.json").write_text(json.dumps(document))
    os.utime(results / "stride.json", ns=(1, 2))
    (after,) = found.rows()
    assert after["ident"] == before["ident"] and after["stamp"] != before["stamp"]
    assert "<h1>renamed on mdm-pascal</h1>" in found.page(after["ident"])


def test_nothing_but_results_is_found(results: Path) -> None:
    (results / "secret.txt").write_text("secret")
    (results / "outside.json").symlink_to("/etc/hostname")
    os.mkfifo(results / "pipe.json")  # nobody writes to it
    (results / "versions" / "0001").mkdir(parents=True)
    (results / "versions" / "0001" / "result.json").write_text((results / "stride.json").read_text())
    found = Results(results)
    assert [row["name"] for row in found.rows()] == ["stride.json"] and found.others() == []
    only = found.rows()[0]["ident"]
    for wrong in ("", "secret.txt", "../secret.txt", f"{only}+", f"{only}+x", "+".join([only] * 3)):
        with pytest.raises(UsageError, match="there is no such result"):
            found.page(wrong)


def test_file_that_is_no_result_is_named_with_the_reason_until_it_has_changed(results: Path) -> None:
    wrong = {"notes.json": "{}", "half.json": '{"schema": 1, "kind": "study"}', "torn.json": "{"}
    for name, text in wrong.items():
        (results / name).write_text(text)
    found = Results(results)
    assert [row["name"] for row in found.rows()] == ["stride.json"]
    assert {each["name"]: each["why"] for each in found.others()} == {
        "notes.json": "is not a prediction: it has no cpi_stack", "half.json": "is not report data",
        "torn.json": "is not JSON: Expecting property name enclosed in double quotes",
    }  # fmt: skip
    (results / "torn.json").write_text((results / "stride.json").read_text())
    assert {row["name"] for row in found.rows()} == {"stride.json", "torn.json"}


def test_large_file_that_is_no_result_is_not_parsed_for_the_list(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (results / "timeline.json").write_text('{"traceEvents": [' + "0," * 600_000 + "0]}")
    parsed: list[str] = []
    read = files.report_data_of_file
    monkeypatch.setattr(files, "report_data_of_file", lambda path: parsed.append(Path(path).name) or read(path))
    found = Results(results)
    assert found.others() == [{"name": "timeline.json", "why": "is not a result"}]
    found.rows()
    assert parsed == ["stride.json"]  # nor is a file read again that has not changed


def test_two_results_are_compared_the_older_one_first(results: Path, report_data: dict[str, Any]) -> None:
    (results / "new.json").write_text(json.dumps(report_data["predictions"][0] | {"kernel": "faster"}))
    os.utime(results / "stride.json", (1e9, 1e9))
    found = Results(results)
    assert "<h1>stride and faster</h1>" in found.page(f"{ident(found, 'new.json')}+{ident(found, 'stride.json')}")


@pytest.mark.parametrize(
    "text", ["{", "[]", "17", '{"kind": "kernel", "schema": 1}', '{"kind": "other", "schema": 1}', "[" * 100_000]
)
def test_file_that_is_no_result_cannot_be_shown_and_says_so(results: Path, text: str) -> None:
    (results / "<b>wrong.json").write_text(text)
    found = Results(results)
    with pytest.raises(FormatError, match=r"<b>wrong\.json"):
        found.page(ident(found, "<b>wrong.json"))


def test_port_that_is_taken_and_folder_that_is_none_are_told(results: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="is not available"):
        Explorer(results, taken.getsockname()[1], Limits())
    with pytest.raises(UsageError, match="is not a folder"):
        Results(results / "nothing")
