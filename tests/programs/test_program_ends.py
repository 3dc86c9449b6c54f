"""A program does not outlive `warpsight run`, whatever ends it; what it leaves behind goes; failed launches are visible."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from programs_build import build, needs_nvcc, run

import warpsight
from warpsight.base.temporary import PREFIX, TemporaryFolder

pytestmark = [pytest.mark.property]
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
_SLEEPS = "echo $$; while :; do sleep 0.1; done"


@contextmanager
def _start(folder: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"PYTHONPATH": str(Path(warpsight.__file__).parents[1]), "TMPDIR": str(folder)}
    # Tests may themselves run under nohup, which lets every process that they start ignore SIGHUP.
    whole = ["/usr/bin/env", "--default-signal=HUP", sys.executable, "-m", "warpsight", "run", "--", *command]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:  # else a test that fails would wait for it
            process.kill()


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _ended(process: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while _alive(process) and time.monotonic() < until:
        time.sleep(0.02)
    return not _alive(process)


@needs_compiler
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_program_ends_with_the_run_that_started_it(number: signal.Signals, tmp_path: Path) -> None:
    ignored = "trap '' TERM HUP; " if number == signal.SIGKILL else ""  # else there are some seconds of grace
    with _start(tmp_path, "/bin/sh", "-c", ignored + _SLEEPS) as host:
        assert host.stdout is not None and host.stderr is not None
        program = int(host.stdout.readline())
        assert _alive(program)
        host.send_signal(number)
        assert _ended(program, 120)
        assert host.wait(120) == (-9 if number == signal.SIGKILL else 128 + number)
        assert "Traceback" not in host.stderr.read()
    left = list(tmp_path.glob(f"{PREFIX}*"))
    assert len(left) == (1 if number == signal.SIGKILL else 0), "nobody can remove anything after SIGKILL: the next run does"


@needs_nvcc
def test_interrupted_program_is_shown_with_what_it_has_launched(tmp_path: Path) -> None:
    with _start(tmp_path, str(build("endless.cu"))) as host:
        assert host.stdout is not None and host.stderr is not None
        assert host.stdout.readline() == "launched\n"
        host.send_signal(signal.SIGINT)
        shown, said = host.communicate(timeout=300)
    assert host.returncode == 128 + signal.SIGINT
    assert "3 launches" in shown and "the program was interrupted" in shown
    assert "Traceback" not in said


@needs_nvcc
@pytest.mark.parametrize(
    ("number", "seconds"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0.1), (signal.SIGTERM, 0.3), (signal.SIGHUP, 1)]
)
def test_run_ends_in_the_middle_of_a_launch(number: signal.Signals, seconds: float, tmp_path: Path) -> None:
    """The kernel never ends by itself. A signal that comes while a module is imported or compiled must not be lost."""
    with _start(tmp_path, "/usr/bin/stdbuf", "-oL", str(build("errors.cu")), "4") as host:
        assert host.stdout is not None and host.stderr is not None
        # Not by select: it does not see the lines that are read already, when two come at once.
        assert any("malloc" in line for line in host.stdout)
        time.sleep(seconds)
        host.send_signal(number)
        assert host.wait(120) == 128 + number
        assert "Traceback" not in host.stderr.read()
    assert not list(tmp_path.iterdir())


def test_temporary_folders_of_killed_processes_go_and_those_in_use_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stale, other, link = (tmp_path / name for name in (f"{PREFIX}stale", "warpsight-mine", f"{PREFIX}link"))
    for folder in (stale, other):
        folder.mkdir()
        (folder / "data").write_text("kept")
    link.symlink_to(other)
    in_use = TemporaryFolder()
    with TemporaryFolder() as mine:
        assert sorted(tmp_path.iterdir()) == sorted([other, link, in_use.path, mine])
    in_use.remove()
    assert sorted(tmp_path.iterdir()) == sorted([other, link])
    assert (other / "data").read_text() == "kept"


@needs_nvcc
def test_failed_launch_is_in_the_last_line_and_with_strict_in_the_exit_code() -> None:
    program = build("outside.cu")
    code, output, _ = run(program)
    table = output.rpartition("\n\n")[0].splitlines()  # then the next command
    assert code == 0, "the program's own"
    assert table[-1] == "  failed   1 of 1 launch; see the errors above"
    assert run(program, options=("--strict",))[0] == 5
    assert run(build("first.cu", "second.cu"), options=("--strict",))[0] == 0
