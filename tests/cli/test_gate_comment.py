"""Does the action's script put the table on a pull request, once, and say so where it cannot? Run with GitHub's `gh` against a
stand-in for GitHub's REST API; skipped without `gh`.

`gh` speaks plain HTTP to the host `github.localhost` alone, which the stand-in serves as a proxy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytestmark = pytest.mark.unit

SCRIPT = Path(__file__).resolve().parents[2] / "action" / "comment.sh"
MARKER, TOKEN = "<!-- warpsight -->", "a-token"
SUMMARY = f"{MARKER}\n### Predicted kernel times\n\n| kernel | change |\n|---|---:|\n| copy | **+6.5 %** |\n"
COMMENTS = "/repos/o/r/issues/3/comments"


@dataclass
class GitHub:
    """The comments of pull request 3 of o/r, and what was asked. `refuses`: status and message by method."""

    comments: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    refuses: dict[str, tuple[int, str]] = field(default_factory=dict)
    port: int = 0

    def add(self, *bodies: str) -> None:
        self.comments += [{"id": 100 + len(self.comments) + k, "body": body} for k, body in enumerate(bodies)]

    def reply(self, method: str, target: str, token: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        """Status, headers and document."""
        parts = urlsplit(target)
        self.asked.append(f"{method} {parts.path}")
        assert parts.netloc == "api.github.localhost"
        if token not in (f"token {TOKEN}", f"Bearer {TOKEN}"):
            return 401, {}, {"message": "Bad credentials"}
        if method in self.refuses:
            status, message = self.refuses[method]
            return status, {}, {"message": message}
        if method == "GET" and parts.path == COMMENTS:
            asked = {name: int(value[0]) for name, value in parse_qs(parts.query).items()}
            number, size = asked.get("page", 1), asked.get("per_page", 30)
            last = -(-len(self.comments) // size)
            following = f"http://{parts.netloc}{COMMENTS}?per_page={size}&page={number + 1}"
            link = {"Link": f'<{following}>; rel="next"'} if number < last else {}
            return 200, link, self.comments[(number - 1) * size : number * size]
        text = json.loads(body)["body"]
        if method == "POST" and parts.path == COMMENTS:
            self.add(text)
            return 201, {}, self.comments[-1]
        found = [each for each in self.comments if parts.path == f"/repos/o/r/issues/comments/{each['id']}"]
        if method != "PATCH" or not found:
            return 404, {}, {"message": "Not Found"}
        found[0]["body"] = text
        return 200, {}, found[0]


@pytest.fixture
def github() -> Iterator[GitHub]:
    """A stand-in that serves."""
    known = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, document = known.reply(self.command, self.path, self.headers.get("Authorization", ""), body)
            data = json.dumps(document).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Type": "application/json", "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = answer  # noqa: N815  the names that BaseHTTPRequestHandler looks for

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the test's output stays its own."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        known.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield known
        server.shutdown()


def comment(github: GitHub, folder: Path, token: str = TOKEN, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the script as the action does."""
    if shutil.which("gh") is None:
        pytest.skip("there is no gh: apt-get install gh")
    given = {"FOLDER": str(folder), "NUMBER": "3", "GITHUB_REPOSITORY": "o/r", "GH_TOKEN": token, "GH_HOST": "github.localhost",
             "GH_CONFIG_DIR": str(folder / "config"), "HTTP_PROXY": f"http://127.0.0.1:{github.port}", **more}  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("proxy") and not name.startswith("G")}
    return subprocess.run(["bash", SCRIPT], env=kept | given, capture_output=True, text=True, check=False)


def summary(folder: Path, text: str = SUMMARY) -> Path:
    (folder / "summary.md").write_text(text)
    return folder


def test_the_first_run_adds_a_comment_and_the_next_one_changes_it(github: GitHub, tmp_path: Path) -> None:
    github.add("looks good", f"see\n{MARKER}\nin the middle")
    first = comment(github, summary(tmp_path))
    assert (first.returncode, first.stdout, first.stderr) == (0, "", "")
    assert [each["body"] for each in github.comments[2:]] == [SUMMARY]
    faster = SUMMARY.replace("+6.5", "-6.5")
    second = comment(github, summary(tmp_path, faster))
    assert (second.returncode, second.stdout) == (0, "")
    assert [each["body"] for each in github.comments[2:]] == [faster]
    changes = [each for each in github.asked if not each.startswith("GET")]
    assert changes == [f"POST {COMMENTS}", "PATCH /repos/o/r/issues/comments/102"]


def test_a_comment_on_a_later_page_is_found_also_with_the_line_ends_of_a_browser(github: GitHub, tmp_path: Path) -> None:
    github.add(*(f"comment {k}" for k in range(230)), SUMMARY.replace("\n", "\r\n"), *(f"comment {k}" for k in range(90)))
    done = comment(github, summary(tmp_path, SUMMARY.replace("6.5", "7.5")))
    assert (done.returncode, done.stdout) == (0, "")
    assert (len(github.comments), github.comments[230]["body"]) == (321, SUMMARY.replace("6.5", "7.5"))
    assert github.asked[:-1] == [f"GET {COMMENTS}"] * 4 and github.asked[-1].startswith("PATCH")


def test_a_table_that_begins_like_a_number_or_a_word_of_gh_stays_text(github: GitHub, tmp_path: Path) -> None:
    text = f'{MARKER}\n"quoted" \\n {{owner}} `$(id)` 100 % ❌ <b>\n@file\n'
    assert comment(github, summary(tmp_path, text)).stdout == ""
    assert github.comments[-1]["body"] == text


@pytest.mark.parametrize(("method", "status", "message"), [
    ("POST", 403, "Resource not accessible by integration"), ("GET", 500, "Server Error"),
    ("POST", 422, "Validation Failed"), ("GET", 404, "Not Found"),
])  # fmt: skip
def test_what_github_refuses_is_one_warning_with_its_words(
    github: GitHub, tmp_path: Path, method: str, status: int, message: str
) -> None:
    github.refuses[method] = status, message
    done = comment(github, summary(tmp_path))
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    assert line.startswith("::warning title=Warpsight::the table is in the job summary, but not on the pull request: ")
    assert message in line and str(status) in line
    assert github.comments == []
    if method == "GET":  # a list that is not known is not an empty list: that would add a second comment
        assert all(each.startswith("GET") for each in github.asked)


@pytest.mark.parametrize("token", ["another", ""])
def test_a_wrong_or_no_token_is_a_warning(github: GitHub, tmp_path: Path, token: str) -> None:
    done = comment(github, summary(tmp_path), token)
    assert done.returncode == 0 and github.comments == []
    (line,) = done.stdout.splitlines()
    assert line.startswith("::warning title=Warpsight::")
    assert "Bad credentials" in line


def test_an_answer_that_breaks_off_on_a_later_page_adds_no_second_comment(github: GitHub, tmp_path: Path) -> None:
    github.add(*(f"comment {k}" for k in range(140)), SUMMARY)
    reply = github.reply

    def broken(method: str, target: str, token: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        if "&page=2" in target:
            return 502, {}, {"message": "Bad Gateway"}
        return reply(method, target, token, body)

    github.reply = broken  # type: ignore[method-assign]
    done = comment(github, summary(tmp_path))
    assert done.returncode == 0 and "Bad Gateway" in done.stdout and len(done.stdout.splitlines()) == 1
    assert len(github.comments) == 141 and not any(each.startswith(("POST", "PATCH")) for each in github.asked)


def test_without_a_table_nothing_is_asked(github: GitHub, tmp_path: Path) -> None:
    done = comment(github, tmp_path)
    assert (done.returncode, done.stdout, github.asked) == (0, "", [])
