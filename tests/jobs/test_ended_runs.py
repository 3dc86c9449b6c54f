"""Does nothing go on behind the user's back, however a run on processes ends?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from runs_cluster import HERE, environment
from runs_work import Chore, keep, kept, pids

from warpsight.jobs.executor import make_executor
from warpsight.jobs.store import ResultStore

pytestmark = pytest.mark.unit

_PATIENCE_S = 120.0  # other tests use the machine, too

_SCRIPT = """\
import os
import sys
import time
from pathlib import Path
from runs_work import Chore, keep
from warpsight.jobs.executor import make_executor
from warpsight.jobs.store import ResultStore

if __name__ != "__main__" and "slowly" in sys.argv:  # a worker that begins
    Path(sys.argv[3], f"began-{os.getpid()}").touch()
    time.sleep(60)

if __name__ == "__main__":
    name, folder, traces = sys.argv[1:4]
    address = ResultStore(folder).address
    chores = [Chore(address, f"chore {number}", seconds=0.2, traces=traces) for number in range(200)]
    try:
        with make_executor(name, jobs=2) as executor:
            executor.run(keep, chores)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def test_process_that_dies_takes_only_its_own_task_and_names_it(store: ResultStore) -> None:
    fates = {"a": "", "b": "die", "c": "fail", "d": "", "e": ""}
    chores = {name: Chore(store.address, name, fate) for name, fate in fates.items()}
    told: list[tuple[int, int]] = []
    reasons = make_executor("processes", jobs=2).run(keep, list(chores.values()), lambda done, total: told.append((done, total)))
    assert set(reasons) == {chores["b"], chores["c"]}
    assert reasons[chores["c"]] == "it failed"
    assert "terminated without an error message" in reasons[chores["b"]]
    assert len(kept(store.folder)) == 6
    assert told[0] == (0, 5)
    assert told[-1] == (5, 5)


def _started(name: str, store: ResultStore, traces: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    """A script that runs chores by the executor `name`."""
    script = folder / "script.py"
    script.write_text(_SCRIPT)
    command = [sys.executable, str(script), name, str(store.folder), str(traces), *words]
    return subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True, cwd=HERE, start_new_session=True)


def _begun(name: str, store: ResultStore, traces: Path, folder: Path) -> subprocess.Popen[str]:
    """The script, when it has finished some chores."""
    process = _started(name, store, traces, folder)
    until = time.monotonic() + _PATIENCE_S
    while len(kept(store.folder)) < 4 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    return process


def _all_gone(traces: Path) -> bool:
    """Whether every process that worked has ended, or ends soon."""
    left = {pid for each in pids(traces).values() for pid in each}
    until = time.monotonic() + _PATIENCE_S
    while left and time.monotonic() < until:
        left = {pid for pid in left if os.path.exists(f"/proc/{pid}")}
        time.sleep(0.05)
    return not left


@pytest.mark.parametrize("name", ["processes", "dask"])
def test_interrupted_run_ends_at_once_with_all_its_processes_and_no_noise(
    name: str, store: ResultStore, traces: Path, tmp_path: Path
) -> None:
    process = _begun(name, store, traces, tmp_path)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to everyone
    _, errors = process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 130
    assert errors == ""
    assert _all_gone(traces)
    assert 4 <= len(kept(store.folder)) < 400


@pytest.mark.parametrize("name", ["processes", "dask"])
def test_run_interrupted_while_its_processes_begin_makes_no_noise_either(
    name: str, store: ResultStore, traces: Path, tmp_path: Path
) -> None:
    process = _started(name, store, traces, tmp_path, "slowly")
    until = time.monotonic() + _PATIENCE_S
    while len(workers := list(traces.glob("began-*"))) < 2 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    assert len(workers) == 2
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=_PATIENCE_S)
    assert (process.returncode, errors) == (130, "")


@pytest.mark.parametrize("name", ["processes", "dask"])
def test_processes_leave_with_a_parent_that_is_killed(name: str, store: ResultStore, traces: Path, tmp_path: Path) -> None:
    process = _begun(name, store, traces, tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=_PATIENCE_S)
    assert _all_gone(traces)
    assert 4 <= len(kept(store.folder)) < 400
