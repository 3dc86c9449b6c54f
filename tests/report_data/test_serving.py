"""Does the server show what is in its folder, again when it changes, and nothing else?"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from datetime import datetime
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from warpsight.analysis.report_data import files
from warpsight.analysis.report_data.files import ResultFolder
from warpsight.base.errors import UsageError
from warpsight.reports.html import serving
from warpsight.reports.html.serving import Server

pytestmark = pytest.mark.unit


@pytest.fixture
def server(results: Path) -> Iterator[Server]:
    with Server(ResultFolder(results), 0) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def ask(server: Server, path: str, method: str = "GET", host: str = "") -> tuple[HTTPResponse, str]:
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def ident(server: Server, name: str) -> str:
    return next(item.ident for item in server.results.items() if item.name == name)


def test_result_is_listed_and_shown(server: Server) -> None:
    shown = ident(server, "stride.json")
    assert f"/show/{shown}" in ask(server, "/")[1]
    answer, text = ask(server, f"/show/{shown}")
    assert answer.status == 200
    assert "<h1>stride on mdm-pascal</h1>" in text
    assert "connect-src" in text


def test_result_that_changes_has_another_stamp_and_page(server: Server, results: Path) -> None:
    shown = ident(server, "stride.json")
    before, _ = ask(server, f"/stamp/{shown}")[1], ask(server, f"/show/{shown}")
    document = json.loads((results / "stride.json").read_text())
    document[0]["kernel"] = "renamed"
    (results / "stride.json").write_text(json.dumps(document))
    os.utime(results / "stride.json", ns=(1, 2))
    assert ask(server, f"/stamp/{shown}")[1] != before
    assert "<h1>renamed on mdm-pascal</h1>" in ask(server, f"/show/{shown}")[1]


def test_client_that_goes_away_is_no_error(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    for error in (BrokenPipeError(), ConnectionResetError(), TimeoutError(), ValueError("odd")):
        try:
            raise error
        except Exception:
            server.handle_error(None, None)
    assert capsys.readouterr() == ("", "error: a request failed: ValueError: odd\n")


def test_nothing_but_results_is_served(server: Server, results: Path) -> None:
    (results / "secret.txt").write_text("secret")
    (results / "outside.json").symlink_to("/etc/hostname")
    wrong = ("/secret.txt", "/show/secret.txt", "/show/../secret.txt", "/show/%2e%2e/secret.txt", "/show/", "/stamp/x", "/other/1")
    for path in wrong:
        assert ask(server, path)[0].status == 404
    assert "outside" not in ask(server, "/")[1]


def test_pipe_that_nobody_writes_to_is_no_result(server: Server, results: Path) -> None:
    os.mkfifo(results / "pipe.json")
    assert [item.name for item in server.results.items()] == ["stride.json"]


def test_only_reading_is_possible(server: Server) -> None:
    assert {ask(server, "/", method)[0].status for method in ("POST", "PUT", "DELETE")} == {501}
    assert ask(server, "/", "HEAD")[1] == ""


def test_other_host_names_are_refused(server: Server) -> None:
    assert ask(server, "/", host="evil.example")[0].status == 403
    for name in ("localhost", "LOCALHOST", "LocalHost"):  # names of hosts have no case
        assert ask(server, "/", host=f"{name}:{server.server_address[1]}")[0].status == 200


def test_client_that_says_nothing_is_let_go_and_holds_up_nobody(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving._Handler, "timeout", 0.5)
    silent = [socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30) for _ in range(64)]
    assert ask(server, "/")[0].status == 200
    assert {connection.recv(1) for connection in silent} == {b""}, "closed by the server"
    for connection in silent:
        connection.close()


def test_list_has_kernel_gpu_time_bottleneck_and_date_of_each_result_and_the_newest_first(
    server: Server, results: Path, report_data: dict[str, Any]
) -> None:
    older = report_data["predictions"][0] | {"kernel": "older<float>", "seconds": 1.5e-3}
    (results / "older.json").write_text(json.dumps(older))
    os.utime(results / "older.json", (1e9, 1e9))
    text = ask(server, "/")[1]
    first, second = re.findall(r"<tr><td>.*?</tr>", text, re.S)
    assert "stride.json" in first and ">mdm-pascal<" in first
    assert all(f">{word}</" in second for word in ("older&lt;float&gt;", "older.json", "1.500 ms", "mdm"))
    assert f'data-value="{report_data["predictions"][0]["bound_by"]}"' in second
    assert datetime.fromtimestamp(1e9).strftime("%Y-%m-%d %H:%M") in second


def test_file_that_is_no_result_is_not_listed_as_one_but_below_with_the_reason(server: Server, results: Path) -> None:
    wrong = {"notes.json": "{}", "half.json": '{"schema": 1, "kind": "study"}', "torn.json": "{"}
    for name, text in wrong.items():
        (results / name).write_text(text)
    text = ask(server, "/")[1]
    listed, _, others = text.partition('<details id="others">')
    assert not any(name in listed for name in wrong) and "stride.json" in listed
    assert "3 other .json files, not results" in others
    reasons = dict(re.findall(r">([\w.]+)</a>: (.*)</li>", others))
    assert reasons == {"notes.json": "is not a prediction: it has no cpi_stack", "half.json": "is not report data",
                       "torn.json": "is not JSON: Expecting property name enclosed in double quotes"}  # fmt: skip
    (results / "torn.json").write_text((results / "stride.json").read_text())  # read again when it has changed
    assert "torn.json" in ask(server, "/")[1].partition('<details id="others">')[0]


def test_large_file_that_is_no_result_is_not_parsed_for_the_list(
    server: Server, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (results / "timeline.json").write_text('{"traceEvents": [' + "0," * 600_000 + "0]}")
    parsed: list[str] = []
    read = files.report_data_of_file
    monkeypatch.setattr(files, "report_data_of_file", lambda path: parsed.append(Path(path).name) or read(path))
    text = ask(server, "/")[1]
    assert "timeline.json</a>: is not a result" in text
    assert parsed == ["stride.json"]
    ask(server, "/")
    assert parsed == ["stride.json"]  # nor is a file read again that has not changed


def test_two_ticked_results_are_compared_the_older_one_first(
    server: Server, results: Path, report_data: dict[str, Any]
) -> None:
    document = report_data["predictions"][0] | {"kernel": "faster"}
    (results / "new.json").write_text(json.dumps(document))
    os.utime(results / "stride.json", (1e9, 1e9))
    asked = [ident(server, name) for name in ("new.json", "stride.json")]
    answer, _ = ask(server, f"/compare?result={asked[0]}&result={asked[1]}")
    assert (answer.status, answer.headers["Location"]) == (303, f"/show/{asked[0]}+{asked[1]}")
    answer, text = ask(server, str(answer.headers["Location"]))
    assert answer.status == 200
    assert "<h1>stride and faster</h1>" in text
    stamp = ask(server, f"/stamp/{asked[0]}+{asked[1]}")[1]
    os.utime(results / "new.json", (2e9, 2e9))
    assert ask(server, f"/stamp/{asked[0]}+{asked[1]}")[1] != stamp


def test_comparison_of_other_than_two_results_is_refused(server: Server) -> None:
    only = ident(server, "stride.json")
    for query in ("", f"result={only}", f"result={only}&result=../secret", "&".join([f"result={only}"] * 3)):
        answer, text = ask(server, f"/compare?{query}")
        assert (answer.status, "a comparison is of two results" in text) == (422, True)
    for path in (f"/show/{only}+", f"/show/{only}+x", f"/show/{only}+{only}+{only}"):
        assert ask(server, path)[0].status == 404


@pytest.mark.parametrize(
    "text", ["{", "[]", "17", '{"kind": "kernel", "schema": 1}', '{"kind": "other", "schema": 1}', "[" * 100_000]
)
def test_file_that_is_no_result_says_so(server: Server, results: Path, text: str) -> None:
    (results / "<b>wrong.json").write_text(text)
    answer, shown = ask(server, f"/show/{ident(server, '<b>wrong.json')}")
    assert answer.status == 422
    assert "error:" in shown
    assert "<b>" not in shown


def test_port_that_is_taken_is_told(server: Server, results: Path) -> None:
    with pytest.raises(UsageError, match="is not available"):
        Server(ResultFolder(results), server.server_address[1])


def test_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        ResultFolder(tmp_path / "nothing")
