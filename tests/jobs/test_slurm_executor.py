"""Do jobs ask Slurm for what was asked, and do tasks run in them? There is no Slurm here: its commands are stood in for."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import dask
import pytest
from runs_cluster import environment
from runs_work import Chore, keep, kept, pids

from warpsight.base.errors import UsageError
from warpsight.jobs.cluster import cluster_library
from warpsight.jobs.executor import make_executor
from warpsight.jobs.executors.slurm import Jobs, SlurmOptions, slurm_cluster, slurm_options
from warpsight.jobs.store import ResultStore

pytestmark = pytest.mark.unit

# A job is a process group in the background, its number that of the submitting shell. As by Slurm, it is asked to end, then killed.
_SBATCH = """\
#!/bin/sh
cp "$1" "$JOBS/$$.sh"
setsid sh "$JOBS/$$.sh" </dev/null >"$JOBS/$$.log" 2>&1 &
echo $! >"$JOBS/$$.part" && mv "$JOBS/$$.part" "$JOBS/$$.pid"
echo "Submitted batch job $$"
"""
_SCANCEL = """\
#!/bin/sh
echo "$1" >>"$JOBS/cancelled"
group=$(cat "$JOBS/$1.pid")
kill -s TERM -- "-$group"
(sleep 1; kill -s KILL -- "-$group") >/dev/null 2>&1 </dev/null &
"""
LEAST = ("cores=1", "memory=1GB", "workers=2", "interface=lo")


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-ins for Slurm's commands put scripts, logs and process ids of jobs."""
    folder, commands = tmp_path / "jobs", tmp_path / "commands"
    folder.mkdir()
    commands.mkdir()
    for name, text in (("sbatch", _SBATCH), ("scancel", _SCANCEL)):
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("JOBS", str(folder))
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    return folder


def _groups(jobs: Path) -> list[int]:
    return [int(path.read_text()) for path in jobs.glob("*.pid")]


def _soon(true: Callable[[], bool]) -> bool:
    until = time.monotonic() + 120
    while not true() and time.monotonic() < until:
        time.sleep(0.02)
    return true()


def _runs(group: int) -> bool:
    """Whether a process of the group is left; one that waits to be collected is none."""
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of_group = place.read_text().rpartition(")")[2].split()[:3]
            if int(of_group) == group and state != "Z":
                return True
    return False


def test_tasks_run_in_jobs_and_a_job_that_is_lost_is_submitted_again(
    jobs: Path, store: ResultStore, traces: Path, tmp_path: Path
) -> None:
    chores = [Chore(store.address, f"chore {number}", seconds=0.15, traces=str(traces)) for number in range(16)]

    def kill_a_job() -> None:
        assert _soon(lambda: len(kept(store.folder)) > 6)
        began_a_chore = next(iter(pids(traces).values()))[0]  # a job that never got as far is still waited for
        os.killpg(os.getpgid(began_a_chore), signal.SIGKILL)

    killer = threading.Thread(target=kill_a_job, daemon=True)
    killer.start()
    with make_executor("slurm", slurm=LEAST) as executor, dask.config.set({"distributed.deploy.lost-worker-timeout": "200ms"}):
        assert executor.run(keep, chores) == {}
        assert _soon(lambda: len(_groups(jobs)) == 3)
    killer.join()
    plain = ResultStore(tmp_path / "plain")
    make_executor("inline").run(keep, [replace(chore, store=plain.address, seconds=0.0) for chore in chores])
    assert kept(store.folder) == kept(plain.folder)
    assert _soon(lambda: not any(_runs(group) for group in _groups(jobs)))
    assert set((jobs / "cancelled").read_text().split()) <= {path.stem for path in jobs.glob("*.pid")}


def test_job_that_is_being_submitted_when_a_run_ends_is_cancelled_too(jobs: Path, store: ResultStore) -> None:
    slow = jobs.parent / "commands" / "sbatch"
    slow.write_text(_SBATCH.replace('echo "Submitted', 'sleep 4\necho "Submitted'))
    with (
        make_executor("slurm", slurm=[*LEAST, "prologue=sleep 60"], worker_timeout=2, tell=lambda line: None) as executor,
        pytest.raises(UsageError, match=r"no worker was available for 2 s"),
    ):
        executor.run(keep, [Chore(store.address, "one")])
    assert len(_groups(jobs)) == 2
    assert set((jobs / "cancelled").read_text().split()) == {path.stem for path in jobs.glob("*.pid")}
    assert _soon(lambda: not any(_runs(group) for group in _groups(jobs)))


def test_job_script_asks_for_what_was_asked() -> None:
    texts = [
        "cores=4", "memory=32GiB", "workers=0:10", "queue=long", "account=physics", "walltime=1-02:30:00", "interface=lo",
        "python=/shared/venv/bin/python", "directive=--qos=night", "directive=--constraint=skylake", "prologue=module load cuda",
        "prologue=ulimit -c 0",
    ]  # fmt: skip
    cluster = slurm_cluster(cluster_library("dask_jobqueue"), slurm_options(texts), Jobs())
    try:
        script = cluster.job_script().splitlines()
    finally:
        cluster.close()
    asked = {line.removeprefix("#SBATCH ") for line in script if line.startswith("#SBATCH ")}
    assert asked == {
        "-J warpsight", "-p long", "-A physics", "-n 1", "--cpus-per-task=4", "--mem=32G", "-t 1-02:30:00", "--qos=night",
        "--constraint=skylake",
    }  # fmt: skip
    assert script[-3:-1] == ["module load cuda", "ulimit -c 0"]
    command = script[-1].split()
    assert command[:3] == ["/shared/venv/bin/python", "-m", "distributed.cli.dask_worker"]
    # four processes of one thread and a fourth of the memory
    for name, value in (("--nthreads", "1"), ("--nworkers", "4"), ("--memory-limit", "8.00GiB")):
        assert command[command.index(name) + 1] == value
    assert command[3].startswith("tcp://127.0.0.1:")


def test_sbatch_that_refuses_ends_the_run_with_its_words(jobs: Path, store: ResultStore) -> None:
    (jobs.parent / "commands" / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: Invalid account nobody' >&2\nexit 1\n")
    with (
        make_executor("slurm", slurm=LEAST) as executor,
        pytest.raises(UsageError, match=r"no worker starts: .*Invalid account nobody"),
    ):
        executor.run(keep, [Chore(store.address, "one")])


def test_machine_without_slurm_and_network_that_is_none_are_refused(
    jobs: Path, store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"the cluster does not start: .*nowhere"):
        make_executor("slurm", slurm=[*LEAST[:3], "interface=nowhere"]).run(keep, [Chore(store.address, "one")])
    monkeypatch.setenv("PATH", str(jobs))
    with pytest.raises(UsageError, match="there is no command sbatch here"):
        make_executor("slurm", slurm=LEAST)


def test_options_are_read_as_given() -> None:
    least = slurm_options(["cores=8", "memory=16GB", "workers=4"])
    assert least == SlurmOptions(cores=8, memory="16GB", least=4, most=4)
    assert (slurm_options(["cores=8", "memory=16GB", "workers=0:40"]).least, least.walltime) == (0, None)
    more = slurm_options(["cores=1", "memory=500MB", "workers=1:1", "directive=--a=b", "directive=--c"])
    assert more.directives == ("--a=b", "--c")
    for walltime in ("90", "90:00", "01:30:00", "2-12", "2-12:30", "2-12:30:59"):
        assert slurm_options(["cores=1", "memory=1GB", "workers=1", f"walltime={walltime}"]).walltime == walltime


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["memory=1GB", "workers=1"], r"cores is missing\n.*`slurm=cores=8`"),
        (["cores=1", "workers=1"], "memory is missing"),
        (["cores=1", "memory=1GB"], "workers is missing"),
        (["core=1"], 'did you mean "cores"'),
        (["cores"], '"cores" does not set a known key'),
        (["cores=1", "cores=2"], "cores is given twice"),
    ],
)
def test_options_that_are_missing_or_unknown_or_twice_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        slurm_options(texts)


@pytest.mark.parametrize(
    ("key", "values", "meant"),
    [
        ("queue", ("", "a\n#SBATCH --nice"), "a text of one line"),
        ("cores", ("0", "-1", "1.5", "x", "²", "10000"), "a whole number"),
        ("memory", ("16", "lots", "1e3GB", "GB", "-1GB", "0GB", "0.0GB"), "such as 16GB"),
        ("workers", ("0", "5:2", ":3", "0:0", "x", "-1", "²"), "such as 0:20"),
        ("walltime", ("soon", "1:2", "1-", "1-2:3"), "such as 02:00:00"),
    ],
)
def test_wrong_values_are_refused_with_what_is_meant(key: str, values: tuple[str, ...], meant: str) -> None:
    right = {"cores": "1", "memory": "1GB", "workers": "1"}
    for value in values:
        shown = re.escape(" ".join(value.splitlines()))
        with pytest.raises(UsageError, match=rf'slurm KEY=VALUE: {key}="{shown}" is wrong\n.*{meant}'):
            slurm_options([f"{k}={v}" for k, v in {**right, key: value}.items()])
