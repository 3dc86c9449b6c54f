"""Does a run on a cluster end with the same bytes, whichever workers come, go and die?"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runs_cluster import SOURCES, TestCluster
from runs_work import Chore, keep, kept, pids

from warpsight.base.errors import UsageError
from warpsight.jobs.executor import make_executor
from warpsight.jobs.store import ResultStore

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsight.jobs.cluster._PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr("warpsight.jobs.cluster._LOOK_SECONDS", 0.2)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TestCluster]:
    """A scheduler without workers."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with TestCluster(folder) as started:
        yield started


def _when(true: Callable[[], bool], act: Callable[[], object]) -> threading.Thread:
    """Does `act` as soon as it is `true`, beside the test."""

    def wait() -> None:
        until = time.monotonic() + 120
        while not true() and time.monotonic() < until:
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def _without_faults(chores: list[Chore], folder: Path) -> dict[str, bytes]:
    plain = ResultStore(folder)
    assert make_executor("inline").run(keep, [Chore(plain.address, chore.name) for chore in chores]) == {}
    return kept(plain.folder)


def test_run_whose_workers_are_killed_and_replaced_ends_with_the_same_bytes(
    cluster: TestCluster, store: ResultStore, traces: Path, tmp_path: Path
) -> None:
    first = [cluster.add(), cluster.add()]
    chores = [Chore(store.address, f"chore {number}", seconds=0.15, traces=str(traces)) for number in range(20)]
    said: list[str] = []

    def kill_and_add() -> None:
        cluster.add()
        for worker in first:  # in the middle of a chore, both
            worker.send_signal(signal.SIGKILL)

    def both_work() -> bool:
        return {worker.pid for worker in first} <= {pid for each in pids(traces).values() for pid in each}

    killer = _when(lambda: both_work() and len(kept(store.folder)) > 6, kill_and_add)
    with make_executor("dask", scheduler=cluster.address, worker_timeout=180, tell=said.append) as executor:
        assert executor.run(keep, chores) == {}
    killer.join()
    began = pids(traces)
    assert any(len(each) > 1 for each in began.values()), "no chore was lost: nobody was killed in the middle of one"
    workers = {pid for each in began.values() for pid in each}
    assert {worker.pid for worker in first} < workers
    assert kept(store.folder) == _without_faults(chores, tmp_path / "plain")


def test_task_that_kills_its_workers_is_refused_by_name_and_the_others_are_done(store: ResultStore, traces: Path) -> None:
    chores = [Chore(store.address, f"chore {number}", seconds=0.02, traces=str(traces)) for number in range(8)]
    deadly = Chore(store.address, "deadly", "die", traces=str(traces))
    told: list[tuple[int, int]] = []
    with make_executor("dask", jobs=2) as executor:
        reasons = executor.run(keep, [*chores[:4], deadly, *chores[4:]], lambda done, total: told.append((done, total)))
    assert list(reasons) == [deadly]
    assert "terminated without an error message, even when it ran alone" in reasons[deadly]
    assert len(kept(store.folder)) == 16
    assert told == [(done, 9) for done in range(10)]
    assert len(pids(traces)["deadly"]) == 6  # three times among others, three times alone


def test_run_without_workers_says_so_waits_and_ends_with_an_error(cluster: TestCluster, store: ResultStore) -> None:
    said: list[str] = []
    with (
        make_executor("dask", scheduler=cluster.address, worker_timeout=1.5, tell=said.append) as executor,
        pytest.raises(UsageError, match=r"worker_timeout: no worker was available for 1.5 s\n.*finished results are kept"),
    ):
        executor.run(keep, [Chore(store.address, "one")])
    assert said == ["no worker is available; waiting up to 1.5 s for one"]


def test_run_whose_only_worker_is_lost_waits_for_the_next(cluster: TestCluster, store: ResultStore) -> None:
    only = cluster.add()
    chores = [Chore(store.address, f"chore {number}", seconds=0.1) for number in range(6)]
    said: list[str] = []
    missing = "no worker is available; waiting up to 180 s for one"
    killer = _when(lambda: len(kept(store.folder)) > 2, only.kill)
    # Not before: the same is said while the first one starts, and "a worker is available" may follow before anybody looks.
    helper = _when(lambda: only.poll() is not None and said[-1:] == [missing], cluster.add)
    with make_executor("dask", scheduler=cluster.address, worker_timeout=180, tell=said.append) as executor:
        assert executor.run(keep, chores) == {}
    killer.join()
    helper.join()
    assert missing in said
    assert only.returncode == -signal.SIGKILL
    assert len(kept(store.folder)) == 12


def test_scheduler_that_cannot_be_reached_is_one_clear_error(store: ResultStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsight.jobs.executors.dask._CONNECT_SECONDS", 0.5)
    for address in ("tcp://127.0.0.1:1", "127.0.0.1:1", "nonsense://x:1", "tcp://127.0.0.1:port"):
        with pytest.raises(UsageError, match=f"scheduler: the scheduler {address} cannot be reached"):
            make_executor("dask", scheduler=address).run(keep, [Chore(store.address, "one")])


def test_scheduler_that_is_lost_ends_the_run_and_what_is_finished_stays(cluster: TestCluster, store: ResultStore) -> None:
    cluster.add()
    chores = [Chore(store.address, f"chore {number}", seconds=0.1) for number in range(50)]
    assert cluster.scheduler is not None
    scheduler = cluster.scheduler
    killer = _when(lambda: len(kept(store.folder)) > 4, lambda: scheduler.send_signal(signal.SIGKILL))
    with (
        make_executor("dask", scheduler=cluster.address) as executor,
        pytest.raises(UsageError, match=r"scheduler: the scheduler was lost, or restarted\n.*finished results are kept; the same"),
    ):
        executor.run(keep, chores)
    killer.join()
    assert 4 < len(kept(store.folder)) < 100


def test_scheduler_that_is_lost_between_two_runs_is_the_same_error(cluster: TestCluster, store: ResultStore) -> None:
    cluster.add()
    with make_executor("dask", scheduler=cluster.address) as executor:
        assert executor.run(keep, [Chore(store.address, "one")]) == {}
        assert cluster.scheduler is not None
        cluster.scheduler.kill()
        cluster.scheduler.wait(120)
        with pytest.raises(UsageError, match="the scheduler was lost"):
            executor.run(keep, [Chore(store.address, "two")])


def test_scheduler_of_another_dask_is_refused(
    cluster: TestCluster, store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distributed

    there = distributed.__version__
    monkeypatch.setattr(distributed, "__version__", "2020.1")
    with pytest.raises(UsageError, match=f"the scheduler has distributed {there}, this machine has 2020.1"):
        make_executor("dask", scheduler=cluster.address).run(keep, [Chore(store.address, "one")])


def test_worker_of_another_version_is_refused_before_it_computes(
    cluster: TestCluster, store: ResultStore, traces: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(SOURCES, other, ignore=shutil.ignore_patterns("__pycache__"))
    with open(other / "warpsight" / "equations" / "queues.py", "a") as source:
        source.write("# changed\n")
    cluster.add(sources=other)
    with (
        make_executor("dask", scheduler=cluster.address) as executor,
        pytest.raises(UsageError, match=r"a worker has a different installation: .*: sources \w+ there, \w+ here\n.*install"),
    ):
        executor.run(keep, [Chore(store.address, "one", traces=str(traces))])
    assert list(traces.iterdir()) == []
    assert kept(store.folder) == {}


def test_worker_without_warpsight_is_one_clear_error_and_a_scheduler_needs_none(store: ResultStore, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    (empty / "warpsight").mkdir(parents=True)
    (empty / "warpsight" / "__init__.py").touch()
    with TestCluster(tmp_path, empty) as cluster:
        wrong = cluster.add(sources=empty)
        with (
            make_executor("dask", scheduler=cluster.address) as executor,
            pytest.raises(UsageError, match=r"a different installation: .*: ModuleNotFoundError: .*\n.*install the same"),
        ):
            executor.run(keep, [Chore(store.address, "one")])
        assert kept(store.folder) == {}
        wrong.kill()
        cluster.add()
        with make_executor("dask", scheduler=cluster.address) as executor:
            assert executor.run(keep, [Chore(store.address, "one")]) == {}


def test_worker_with_threads_runs_one_task_at_a_time_and_it_is_said(cluster: TestCluster, store: ResultStore) -> None:
    cluster.add("--nthreads", "4")
    said: list[str] = []
    started = time.monotonic()
    with make_executor("dask", scheduler=cluster.address, tell=said.append) as executor:
        assert executor.run(keep, [Chore(store.address, f"chore {number}", seconds=0.3) for number in range(4)]) == {}
    assert time.monotonic() - started > 1.2
    assert said.count("a worker has 4 threads, of which one is used: start workers with --nworkers 4 --nthreads 1") == 1

