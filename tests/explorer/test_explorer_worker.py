"""Is the process of an answer kept from files and network, quick, and gone in the end?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from warpsight.explorer import confinement, worker
from warpsight.explorer.answer import answer
from warpsight.explorer.examples import Example, examples
from warpsight.explorer.worker import Limits, Worker

pytestmark = pytest.mark.unit

CUDA = [each for each in examples() if each.question.language == "cuda"]
WARM_S = 1.5  # of a first answer to a new text, its compilers included, on one core
YARD_S = 0.042  # of `yard` on the machine of the figures in docs/reference/explorer.md; a slower one has more time
TRIES = 3
MOST_FIRST = 20_000  # bytes of JSON
TRYING = """
import os, socket, subprocess, sys
from pathlib import Path
from warpsight.explorer.confinement import confine

own, other, packages = map(Path, sys.argv[1:])
confine(own)


def allowed(what):
    try:
        what()
    except OSError:
        return False
    return True


print([allowed(each) for each in (
    lambda: (own / "new").write_text(""), lambda: (own / "new").rename(own / "old"), lambda: Path(os.__file__).read_text(),
    lambda: subprocess.run([sys.executable, "-c", ""], check=True), lambda: (own / "numba" / "new").write_text(""),
    lambda: (packages / "numba" / "late.py").read_text(),
)])
print([allowed(each) for each in (
    lambda: (other / "secret").read_text(), lambda: os.listdir(other), lambda: (other / "new").write_text(""),
    lambda: (other / "secret").unlink(), lambda: Path("/etc/passwd").read_text(), lambda: os.link(other / "secret", own / "link"),
    lambda: (own / "link").symlink_to(other / "secret") or (own / "link").read_text(),
    lambda: os.readlink(f"/proc/{os.getppid()}/cwd"), lambda: (packages / "secret").read_text(),
)])
print(subprocess.run(["cat", other / "secret"], capture_output=True).stdout)
print([allowed(each) for each in (
    lambda: socket.create_server(("127.0.0.1", 0)), lambda: socket.create_connection(("127.0.0.1", 9), 1),
)])
"""


@pytest.mark.skipif("Landlock" in confinement.missing(), reason="this kernel of Linux has no Landlock")
def test_confined_process_reads_what_is_installed_and_writes_its_folder_alone(tmp_path: Path) -> None:
    for name in ("own", "other", "simulators"):
        (tmp_path / name).mkdir()
    (tmp_path / "own" / "numba").symlink_to(tmp_path / "simulators")  # so they are kept from one run of the tests to the next
    (tmp_path / "other" / "secret").write_text("secret")
    numba = tmp_path / "packages" / "numba"  # of a folder that is no site-packages
    numba.mkdir(parents=True)
    for file in (numba / "__init__.py", numba / "late.py", numba.parent / "secret"):
        file.write_text("")
    command = [sys.executable, "-c", TRYING, str(tmp_path / "own"), str(tmp_path / "other"), str(numba.parent)]
    packages = os.pathsep.join([str(numba.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": packages})
    allowed, denied, printed, network = done.stdout.splitlines()
    assert allowed == str([True] * 6)
    assert denied == str([False] * 9)
    assert printed == "b''"
    if not confinement.missing():
        assert network == "[False, False]"


def test_kernel_of_linux_that_cannot_confine_is_said_at_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(confinement, "_version", lambda: 0)
    assert "answers may read your files" in confinement.missing()
    confinement.confine(tmp_path)
    assert Path("/etc/passwd").read_text()
    monkeypatch.setattr(confinement, "_version", lambda: 3)
    assert "answers may connect to other machines" in confinement.missing()


def test_cache_that_others_can_write_is_an_error_of_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(worker, "confine", lambda cache: pytest.fail("a folder that is not the user's own is used"))
    told = {}
    worker._confine()
    assert answer(CUDA[0].question, lambda kind, text: told.update({kind: json.loads(text)})) is None
    assert "can be written by other users" in told["error"]["what"]


def seconds_of(process: Worker) -> float:
    """What the process and the compilers that it ran have had of the processor; more than any budget if it has ended meanwhile."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return float("inf")
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def events(example: Example, text: str) -> Iterator[tuple[str, Any, float]]:
    """Of an example with `text` behind it: each event, with the seconds of the processor until then."""
    process = Worker(replace(example.question, source=f"{example.question.source}{text}\n"), Limits(600.0))
    try:
        for kind, data in process.events():
            yield kind, data, seconds_of(process)
    finally:
        process.end()


def yard() -> float:
    """Seconds of the processor for some Python."""
    start, found = time.process_time(), dict.fromkeys(range(1000), 0)
    for k in range(400_000):
        found[k % 1000] = found.get(k % 1000, 0) + k * k % 7
    return time.process_time() - start


@pytest.mark.parametrize("example", CUDA, ids=lambda each: each.name)
def test_new_text_has_its_first_answer_within_the_budget_of_a_warm_one(example: Example) -> None:
    least, budget = float("inf"), WARM_S * max(1.0, min(yard() for _ in range(3)) / YARD_S)
    for turn in range(TRIES):  # the machine of a test has others to serve
        kinds = {}
        for kind, data, seconds in events(example, f"__device__ int other_{time.time_ns()}_{turn};"):
            kinds[kind] = data
            if kind == "first":
                least = min(least, seconds)
                assert len(str(data)) < MOST_FIRST
                break
        assert "error" not in kinds, kinds
        if least <= budget:
            return
    pytest.fail(f"{example.name}: {least:.2f} s of the processor, and a warm answer has {budget:.2f}")


STARTING = """
import sys, time
from dataclasses import replace
from warpsight.explorer.examples import examples
from warpsight.explorer.worker import Limits, Worker

if __name__ == "__main__":
    question = examples()[0].question
    source = "__global__ void forever(int* x) { while (true) atomicAdd(x, 1); }"
    answer = Worker(replace(question, source=source, grid="1", block="32", args={"x": "i32[1]:zeros"}), Limits(600.0))
    print(answer.pid, next(answer.events())[0], flush=True)
    time.sleep(600)
"""


def test_server_that_is_killed_leaves_no_process_of_an_answer_behind(tmp_path: Path) -> None:
    (tmp_path / "starting.py").write_text(STARTING)
    with subprocess.Popen([sys.executable, str(tmp_path / "starting.py")], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            pid, kind = server.stdout.readline().split()
            running = Path(f"/proc/{pid}/stat")
            assert kind == "form" and running.exists()
        finally:  # else to leave the block would wait for the server
            server.kill()
        end = time.monotonic() + 120.0
        while running.exists() and running.read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < end, "the process of the answer is still there"
            time.sleep(0.1)


def test_text_cannot_have_a_file_of_the_user_compiled_into_it(tmp_path: Path) -> None:
    if confinement.missing():
        pytest.skip(confinement.missing())
    secret = tmp_path / "secret.h"
    secret.write_text("#error the secret\n")
    *_, (kind, error, _) = events(CUDA[0], f'#include "{secret}"')
    assert kind == "error" and "the secret" not in str(error) and "secret.h" in error["what"]
