"""Do all executors keep the common promises?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from runs_work import Chore, keep, kept, pids

from warpsight.base.errors import UsageError
from warpsight.jobs.executor import EXECUTORS, Executor, ExecutorKind, make_executor
from warpsight.jobs.store import NotKept, ResultStore

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module", params=["inline", "processes", "dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """Each of them, for all of these tests: its runs must not disturb each other."""
    with make_executor(request.param, jobs=None if request.param == "inline" else 2) as made:
        yield made


def test_every_executor_keeps_the_same_bytes_as_a_plain_loop(executor: Executor, store: ResultStore, tmp_path: Path) -> None:
    chores = [Chore(store.address, f"chore {number}") for number in range(12)]
    told: list[tuple[int, int]] = []
    assert executor.run(keep, chores, lambda done, total: told.append((done, total))) == {}
    plain = ResultStore(tmp_path / "plain")
    for chore in chores:
        keep(replace(chore, store=plain.address))
    assert len(kept(plain.folder)) == 24
    assert kept(store.folder) == kept(plain.folder)
    assert told == [(done, 12) for done in range(13)]


def test_tasks_that_fail_have_their_reasons_and_the_others_are_done(executor: Executor, store: ResultStore) -> None:
    fates = {"a": "", "b": "fail", "c": "raise", "d": "refuse", "e": "leave", "f": ""}
    chores = {name: Chore(store.address, name, fate) for name, fate in fates.items()}
    reasons = executor.run(keep, list(chores.values()))
    assert reasons == {
        chores["b"]: "it failed",
        chores["c"]: "ValueError: a defect",
        chores["d"]: "--two: two is not three\n       -> give three",
        chores["e"]: "SystemExit: 0",
    }
    assert len(kept(store.folder)) == 4


def test_equal_tasks_run_once_and_no_task_is_no_error(executor: Executor, store: ResultStore, traces: Path) -> None:
    assert executor.run(keep, []) == {}
    chore = Chore(store.address, "one", traces=str(traces))
    assert executor.run(keep, [chore, replace(chore), chore]) == {}
    assert len(pids(traces)["one"]) == 1


def test_result_that_cannot_be_kept_ends_the_run_and_what_is_finished_stays(executor: Executor, store: ResultStore) -> None:
    before = Chore(store.address, "before")
    assert executor.run(keep, [before]) == {}
    found = kept(store.folder)
    with pytest.raises(NotKept, match=r"the disk is full\n       -> make room"):
        executor.run(keep, [Chore(store.address, "full", "full")])
    assert kept(store.folder) == found
    assert executor.run(keep, [Chore(store.address, "after")]) == {}
    assert len(kept(store.folder)) == 4


def test_folder_that_workers_do_not_share_is_refused(executor: Executor, store: ResultStore) -> None:
    elsewhere = replace(store.address, mark="0" * 32)
    with pytest.raises(UsageError, match="give a folder that all machines share as `results`"):
        executor.run(keep, [Chore(elsewhere, "lost")])
    assert kept(store.folder) == {}


def test_executor_is_chosen_by_the_jobs_when_none_is_named() -> None:
    assert make_executor(None, jobs=1).name == "inline"
    assert make_executor(None, jobs=2).name == "processes"
    assert {"inline", "processes", "dask", "slurm"} <= set(EXECUTORS.names())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"name": "dusk"}, 'did you mean "dask"'),
        ({"name": "inline", "jobs": 2},
         r"jobs: the executor \"inline\" does not use it\n.*`executor=dask` or `executor=processes`"),
        ({"name": None, "jobs": 2, "scheduler": "tcp://h:1"}, r"scheduler: .*\"processes\" does not use it\n.*`executor=dask`"),
        ({"name": None, "jobs": 1, "scheduler": "tcp://h:1"}, r"scheduler: .*\"inline\" does not use it"),
        ({"name": "dask", "slurm": ["cores=1"]}, "slurm: .*\n.*`executor=slurm`"),
        ({"name": "processes", "worker_timeout": 5.0}, "worker_timeout: .*\n.*`executor=dask` or `executor=slurm`"),
        ({"name": "dask", "jobs": 0}, "0 processes is not a valid number"),
        ({"name": "dask", "worker_timeout": float("nan")}, "nan s is not a valid time"),
        ({"name": "dask", "jobs": 2, "scheduler": "tcp://h:1"}, "jobs: the workers of a running scheduler"),
    ],
)
def test_setting_that_an_executor_does_not_take_is_refused(words: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_executor(**words)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["dask", "slurm"])
def test_missing_library_names_the_packages_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(UsageError, match=r"python -m pip install distributed dask-jobqueue"):
        make_executor(name)


def test_executor_of_another_distribution_is_found_by_its_name(store: ResultStore, monkeypatch: pytest.MonkeyPatch) -> None:
    EXECUTORS.names()
    monkeypatch.setattr(EXECUTORS, "_objects", dict(EXECUTORS._objects))
    inline = EXECUTORS.get("inline")
    EXECUTORS.add("theirs", ExecutorKind("somebody's", frozenset({"jobs"}), inline.make))
    assert make_executor("theirs", jobs=3).run(keep, [Chore(store.address, "x")]) == {}
