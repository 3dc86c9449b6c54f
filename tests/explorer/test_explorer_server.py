"""Does the explorer answer questions, keep answers, let the last question win, and refuse everybody else?"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from warpsight.base.errors import FormatError, UsageError
from warpsight.cli.main import main
from warpsight.explorer.examples import examples
from warpsight.explorer.project import Project
from warpsight.explorer.question import Question, question_of
from warpsight.explorer.results import Results
from warpsight.explorer.runs import Runs
from warpsight.explorer.server import Api, Explorer, api_routes, application
from warpsight.explorer.worker import Limits
from warpsight.reports.html.page import stack_part

pytestmark = pytest.mark.unit

HOST, TOKEN, READERS = "127.0.0.1:8765", "the-token", "the-token-of-readers"
FORM = {"kernel": "k", "dimensions": [{"name": "grid", "value": "4"}, {"name": "block", "value": "64"}],
        "parameters": [{"name": "x", "value": "f32[256]:zeros"}]}  # fmt: skip
PREDICTION = {"kernel": "k", "gpu": "a100", "model": "warpsight", "seconds": 2e-6, "cycles": 2820.0, "bound_by": "DRAM",
              "cpi": 4.0, "cpi_stack": {"base": 1.0, "dram": 3.0}}  # fmt: skip
DOCUMENT = {"predictions": [PREDICTION], "more": "of a report"}
SHOWN = {"predictions": [{name: PREDICTION[name] for name in PREDICTION if name != "kernel"}], "stack": stack_part(PREDICTION),
         "rows": [], "accesses": []}  # fmt: skip


class Told:
    """A worker that tells what a test gives it, and then, for a text with `while`, nothing more until it is ended.

    On other GPUs the kernel is as long as the GPU's name; a GPU of the name `t4` ends the process.
    """

    ended: list[str] = []

    def __init__(self, question: Question, limits: Limits) -> None:
        self.question, self.running = question, True

    def events(self) -> Iterator[tuple[str, Any]]:
        yield "form", FORM
        while self.running and "while" in self.question.source:
            time.sleep(0.005)
        if "abort" not in self.question.source and self.running:
            yield "result", {"document": DOCUMENT, "printed": ""}

    def designs(self, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
        while self.running and wanted[0]["gpu"] == "v100":
            time.sleep(0.005)
        if wanted[0]["gpu"] == "t4":
            raise EOFError
        return [{"seconds": len(each["gpu"]) * 1e-6} for each in wanted]

    def end(self) -> None:
        self.running = False
        self.ended.append(self.question.source)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    Told.ended = []
    with serving(tmp_path, Limits(0.5)) as client:
        yield client


def serving(folder: Path, limits: Limits) -> TestClient:
    project = Project(folder)
    served = application(Api(Results(folder), project, Runs(project, limits, Told), TOKEN), frozenset({HOST}))  # type: ignore[arg-type]
    return TestClient(
        served, base_url=f"http://{HOST}", headers={"Authorization": f"Bearer {TOKEN}"}, client=("127.0.0.1", 50_000)
    )  # fmt: skip


def ask(client: TestClient, source: str, session: str = "tab", **more: Any) -> str:
    answer = client.post("/api/runs", json={"session": session, "question": {"source": source, **more}})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["run"])


def events(client: TestClient, run: str, after: int = 0) -> list[tuple[str, Any]]:
    text = client.get(f"/api/runs/{run}/events", headers={"Last-Event-ID": str(after)}).text
    found = [dict(line.split(": ", 1) for line in part.splitlines()) for part in text.split("\n\n") if part]
    return [(each["event"], json.loads(each["data"])) for each in found if "event" in each]


def test_question_is_answered_by_events_that_can_be_read_again_from_any_of_them(client: TestClient) -> None:
    run = ask(client, "kernel")
    told = events(client, run)
    assert [kind for kind, _ in told] == ["progress", "form", "result"]
    assert told[-1][1] == {"document": SHOWN, "printed": "", "version": 1}
    assert events(client, run, 2) == told[2:]


def test_last_question_of_a_tab_wins_and_other_tabs_keep_theirs(client: TestClient) -> None:
    first, other = ask(client, "while first"), ask(client, "while other", "another tab")
    second = ask(client, "second")
    assert events(client, first)[-1][0] == "cancelled"
    assert events(client, second)[-1][0] == "result"
    assert client.delete(f"/api/runs/{other}").status_code == 204
    assert events(client, other)[-1][0] == "cancelled"
    end = time.monotonic() + 120.0
    while not {"while first", "while other"} <= set(Told.ended):
        assert time.monotonic() < end, Told.ended
        time.sleep(0.01)


def test_answer_that_takes_too_long_is_ended_and_says_so(client: TestClient) -> None:
    kind, error = events(client, ask(client, "while"))[-1]
    assert (kind, error["kind"]) == ("error", "LimitError")
    assert error["what"] == "takes longer than the 0.5 s that an answer may take"
    assert Told.ended == ["while"]


def test_process_that_dies_is_an_error_of_its_question(client: TestClient) -> None:
    kind, error = events(client, ask(client, "abort"))[-1]
    assert kind == "error" and "ended without an answer" in error["what"]


def test_answers_are_versions_that_a_new_server_finds_and_the_command_line_can_launch(client: TestClient, tmp_path: Path) -> None:
    for source in ("one", "two", "one"):
        events(client, ask(client, source))
    rows = client.get("/api/versions").json()
    assert [(row["number"], row["seconds"]) for row in rows] == [(1, 2e-6), (2, 2e-6)]
    again = Project(tmp_path)
    assert [each.number for each in again.versions()] == [1, 2]
    assert again.question(2).source == "two"
    assert client.get("/api/versions/2").json()["document"] == SHOWN
    launch = (tmp_path / "versions" / "0002" / "launch.yaml").read_text()
    assert launch.splitlines()[1:] == ['source: "kernel.cu"', 'kernel: "k"', 'grid: "4"', 'block: "64"', 'args: ["f32[256]:zeros"]']
    assert client.get("/api/versions/3").status_code == 422


def test_answered_kernel_is_predicted_on_other_gpus_until_the_tab_asks_again(client: TestClient) -> None:
    run = ask(client, "kernel")

    def predict(*gpus: str, overrides: Any = ()) -> Any:
        designs = [{"gpu": gpu, "overrides": list(overrides)} for gpu in gpus]
        return client.post(f"/api/runs/{run}/designs", json={"designs": designs})

    assert predict("a100", "h100-sxm").json() == {"designs": [{"seconds": 4e-6}, {"seconds": 8e-6}]}  # it waits for the answer
    assert Told.ended == []
    for wrong in ([], ["a100"] * 25, ["/etc/passwd"]):
        assert predict(*wrong).status_code == 422
    assert predict("a100", overrides=[1]).status_code == 422
    assert client.post("/api/runs/x/designs", json={"designs": [{"gpu": "a100", "overrides": []}]}).status_code == 404
    ask(client, "another")
    gone = predict("a100")
    assert gone.status_code == 422 and "has ended" in gone.json()["error"]["what"]


def test_other_gpus_that_take_too_long_or_end_the_process_are_an_error(client: TestClient) -> None:
    for gpu, said in (("v100", "takes longer than the 0.5 s"), ("t4", "has ended")):
        run = ask(client, gpu)
        answer = client.post(f"/api/runs/{run}/designs", json={"designs": [{"gpu": gpu, "overrides": []}]})
        assert answer.status_code == 422 and said in answer.json()["error"]["what"], answer.text
        events(client, run)
        assert gpu in Told.ended


def test_slider_has_the_values_around_the_gpus_own_that_the_gpu_can_have(client: TestClient) -> None:
    keys = {row["key"]: row for row in client.get("/api/gpus/a100/keys").json()}
    assert (keys["sm_count"]["value"], keys["sm_count"]["live"], keys["dram.bandwidth"]["live"]) == ("108", False, True)
    ways, policy = client.get("/api/gpus/a100/settings?key=l1.ways&key=sm.policy").json()
    assert ways["settings"][ways["own"]] == "56" and all(28 * 1024 % (int(each) * 128) == 0 for each in ways["settings"])
    assert policy["settings"][policy["own"]] == "lrr" and "gto" in policy["settings"]
    (half,) = client.get("/api/gpus/a100/settings?key=sm_count&set=sm_count=54").json()
    assert half["settings"][half["own"]] == "54"
    assert client.get("/api/gpus/a100/settings?key=sms").status_code == 422


def test_two_versions_are_compared_by_text_launch_and_time(client: TestClient) -> None:
    text = "".join(f"line {k}\n" for k in range(20))
    for source, overrides in ((text, []), (text.replace("line 9\n", "new\n"), ["sm_count=54"])):
        events(client, ask(client, source, overrides=overrides))
    found = client.get("/api/changes/1/2").json()
    assert [each["seconds"] for each in found["predictions"]] == [2e-6, 2e-6]
    assert found["question"] == [{"name": "sm_count", "before": "", "after": "54"}]
    (part,) = found["text"]
    changed = [row for row in part if row["kind"] != "equal"]
    assert changed == [{"kind": "replace", "before": {"line": 10, "text": "line 9"}, "after": {"line": 10, "text": "new"}}]
    assert [row["before"]["line"] for row in part] == list(range(7, 14))
    assert client.get("/api/changes/1/1").json()["text"] == []
    assert client.get("/api/changes/1/3").status_code == 422


def test_report_is_asked_for_in_a_frame_by_its_key_alone_and_has_no_origin(client: TestClient) -> None:
    events(client, ask(client, "kernel"))
    (row,) = client.get("/api/versions").json()
    shown = client.get(f"/{row['page']}", headers={"Authorization": ""})
    assert shown.status_code == 422 and "is not report data" in shown.text  # the document above is no whole one
    assert shown.headers["content-security-policy"].startswith("sandbox allow-scripts; ")
    assert shown.headers["x-frame-options"] == "SAMEORIGIN"
    other = row["page"].replace("versions/1", "versions/2")
    assert client.get(f"/{other}").status_code == 401
    assert client.get(f"/{row['page']}", headers={"Host": "evil.example"}).status_code == 403


def test_version_that_is_damaged_is_named(tmp_path: Path) -> None:
    Project(tmp_path).keep(Question("text"), FORM, DOCUMENT)
    for text in ('{"schema": 9}', '{"schema": 1, "question": {"source": "x"}, "version": {"number": 1, "other": 2}}'):
        (tmp_path / "versions" / "0001" / "version.json").write_text(text)
        with pytest.raises(FormatError, match=r"0001/version.json: is not a version of a project"):
            Project(tmp_path)


def test_only_the_page_with_the_token_on_its_own_host_is_answered(client: TestClient) -> None:
    question = {"session": "tab", "question": {"source": "kernel"}}
    for headers, status in (
        ({"Authorization": "Bearer wrong"}, 401), ({"Authorization": ""}, 401), ({"Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Origin": f"http://{HOST}"}, 202),
    ):  # fmt: skip
        answer = client.post("/api/runs", json=question, headers=headers)
        assert answer.status_code == status, headers
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    for path in ("/api/start", "/api/versions", "/api/versions/1", "/api/versions/1/report", "/api/runs/x/events"):
        assert client.get(path, headers={"Authorization": ""}).status_code == 401


# What readers may ask, all of it without an effect. Every other route is the owner's, also one that is added tomorrow.
READABLE = {
    "/api/start", "/api/versions", "/api/versions/1", "/api/versions/1/accesses/1", "/api/versions/1/report", "/api/changes/1/1",
    "/api/results", "/api/results/1",
}  # fmt: skip


def every_route() -> list[tuple[str, str]]:
    """Method and path of each route of the application, with 1 for each part that is chosen."""
    routes = api_routes(Api(None, None, None, TOKEN, READERS))  # type: ignore[arg-type]
    return [(method, re.sub(r"{[^}]*}", "1", route.path)) for route in routes for method in sorted(route.methods or ())]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[TestClient]:
    """One who reads on another machine a folder that has a version, and a result."""
    (tmp_path / "project").mkdir()
    (tmp_path / "secret.json").write_text(json.dumps(DOCUMENT))
    project = Project(tmp_path / "project")
    project.keep(Question("text"), FORM, DOCUMENT)
    api = Api(Results(project.folder), project, Runs(project, Limits(0.5), Told), TOKEN, READERS)  # type: ignore[arg-type]
    served = application(api, frozenset({HOST}), any_address=True)
    yield TestClient(
        served, base_url="http://192.0.2.7:8765", headers={"Authorization": f"Bearer {READERS}"}, client=("192.0.2.9", 50_000),
    )  # fmt: skip


def test_reader_sees_versions_and_results_and_reaches_nothing_else(reader: TestClient) -> None:
    start = reader.get("/api/start").json()
    assert (start["reading"], start["project"]) == (True, "project")
    (row,) = reader.get("/api/versions").json()
    assert reader.get("/api/versions/1").json()["document"] == SHOWN
    assert reader.get("/api/versions/1/accesses/1").text == ""
    assert reader.get("/api/changes/1/1").status_code == reader.get("/api/results").status_code == 200
    page = reader.get(f"/{row['page']}", headers={"Authorization": ""})
    assert page.status_code == 422 and "is not report data" in page.text  # the key is right; the document above is no whole one
    question = {"session": "tab", "question": {"source": "kernel"}, "designs": [{"gpu": "a100", "overrides": []}]}
    answered = set()
    for method, path in every_route():
        answer = reader.request(method, path, json=question)
        if method in ("GET", "HEAD") and answer.status_code != 403:
            answered.add(path)
        else:
            assert answer.status_code == 403 and (method == "HEAD" or "is for reading" in answer.json()["error"]["what"]), path
    assert answered == READABLE
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in ("/api/versions", "/api/versions/1", "/api/results", "/api/start", "/"):
            assert reader.request(method, path).status_code == 405, (method, path)
    assert [each["number"] for each in reader.get("/api/versions").json()] == [1]


def test_owner_is_on_the_machine_of_the_server(reader: TestClient, client: TestClient) -> None:
    assert reader.get("/api/versions", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 401  # from another machine
    forwarded = {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": "127.0.0.1"}
    assert reader.post("/api/runs", json={}, headers=forwarded).status_code == 401
    assert client.get("/api/start").json()["reading"] is False
    for token in ("", READERS):  # a server without readers has no token for them
        assert client.get("/api/versions", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_no_route_answers_without_a_token_or_under_another_name(reader: TestClient) -> None:
    routes = every_route()
    assert len(routes) > len(READABLE)
    for method, path in routes:
        assert reader.request(method, path, headers={"Authorization": ""}).status_code == 401, (method, path)
        for headers in ({"Host": "evil.example:8765"}, {"Host": "192.0.2.7.evil.example"}, {"Origin": "http://evil.example"}):
            assert reader.request(method, path, headers=headers).status_code == 403, (method, path)


@pytest.mark.parametrize("path", [
    "/../secret.json", "/..%2fsecret.json", "/%2e%2e/secret.json", "/static/../../server.py", "/..%2fserver.py",
    "/api/versions/..%2f..%2fsecret", "/api/results/..%2fsecret.json", "/api/results/%2fetc%2fpasswd", "/pages/x/versions/..%2f1",
    "/pages/x/results/..%2f..%2fsecret.json", "/api/versions/1/report/../../../secret.json",
])  # fmt: skip
def test_no_path_leads_out_of_the_folder(reader: TestClient, path: str) -> None:
    answer = reader.get(path)
    assert answer.status_code in (401, 404, 422), path
    assert "of a report" not in answer.text and "root:" not in answer.text and "uvicorn" not in answer.text


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({}, "source: is empty"),
        ({"source": "x" * (1 << 20) + "y"}, "source: has 1,048,577 characters"),
        ({"source": "x", "gpu": "/etc/passwd"}, "is not a GPU of the catalogue"),
        ({"source": "x", "args": {"a": " @/etc/passwd"}}, "the explorer reads no files"),
        ({"source": "x", "args": {"a": "secret.npy"}}, "the explorer reads no files"),
        ({"source": "x", "args": ["a"]}, "args: is not an object of texts"),
        ({"source": "x", "language": "basic"}, '"basic" is not a language'),
        ({"source": "x", "simulator": "yes"}, "simulator: is not true or false"),
        ({"source": "x", "gird": "1"}, 'gird: is not a key of a question; did you mean "grid"'),
        ([], "question: is not an object"),
    ],
)
def test_question_that_cannot_be_meant_is_refused(question: Any, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        question_of(question)
    assert said in str(refused.value)


def test_text_in_python_is_run_only_by_a_server_that_may(client: TestClient, tmp_path: Path) -> None:
    question = {"session": "tab", "question": {"source": "import os", "language": "python"}}
    refused = client.post("/api/runs", json=question)
    assert refused.status_code == 422 and "warpsight serve --python" in refused.json()["error"]["remedy"]
    with serving(tmp_path, Limits(0.5, python=True)) as trusting:
        assert trusting.post("/api/runs", json=question).status_code == 202


def test_body_that_is_no_question_is_refused(client: TestClient) -> None:
    for body in (b"{", b"[" * 100_000, b"17", b'{"session": "tab"}', b'{"question": {}}', b" " * (5 << 20)):
        answer = client.post("/api/runs", content=body)
        assert answer.status_code == 422 and answer.json()["error"]["remedy"], body[:20]


def test_page_can_begin_with_the_gpus_the_models_and_the_examples(client: TestClient) -> None:
    start = client.get("/api/start").json()
    assert {"name": "t4", "title": "NVIDIA T4"} in start["gpus"]
    assert "warpsight" in start["models"]
    assert [question_of(each["question"]) for each in start["examples"]] == [each.question for each in examples()]


def test_command_that_listens_to_others_prints_their_url_and_warns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Explorer, "serve", lambda self: [each.close() for each in self._sockets])
    for host in ("0.0.0.0", "127.0.0.1", "::1", "::"):
        assert main(["serve", str(tmp_path), "--port", "0", "--host", host]) == 0
        told = capsys.readouterr()
        own, others = (re.fullmatch(r"http://([\d.]+|\[[\da-f:]+\]):(\d+)/#(.+)", line) for line in told.out.splitlines())
        assert own and others and own[1] == "127.0.0.1" and own[2] == others[2] and own[3] != others[3]
        assert others[1] in (("127.0.0.1",) if host == "127.0.0.1" else ("[::1]",) if host == "::1" else (others[1],))
        assert "warning: whoever has the second URL can read all kernels" in told.err


def test_command_refuses_what_the_explorer_cannot_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    for words, said in (
        (["--seconds", "0"], "--seconds: 0 is out of range"), (["--port", "70000"], "--port: 70000 is out of range"),
    ):  # fmt: skip
        assert main(["serve", str(tmp_path), *words]) == 2
        assert said in capsys.readouterr().err
    for host in ("example.com", "256.0.0.1", "192.0.2.1"):  # the last one is no address of any machine
        assert main(["serve", str(tmp_path), "--port", "0", "--host", host]) == 2
        assert "--host: " in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "file"), "--port", "0"]) == 2
    assert "file: is not a folder" in capsys.readouterr().err
