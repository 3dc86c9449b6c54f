"""Does a sweep on a cluster whose workers are killed end with the bytes of one without faults?"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from runs_cluster import TestCluster
from sweep_cases import study

from warpsight.jobs.executor import Executor, make_executor
from warpsight.sweeps.folder import make_folder
from warpsight.sweeps.run import run_sweep, write_results
from warpsight.sweeps.study import Study

pytestmark = pytest.mark.unit


def table(case: Study, executor: Executor, folder: Path) -> bytes:
    with executor:
        outcome = run_sweep(case, executor, results=folder / "kept")
    assert outcome.reasons == {}
    found = make_folder(folder / "out", case, str(folder / "kept"))
    write_results(outcome.plan, found)
    return found.table.read_bytes()


def test_two_processes_give_the_bytes_of_one(tmp_path: Path) -> None:
    case = study("sm_count=1:19:2", "noc.bandwidth=500GB/s,1TB/s")
    two = table(case, make_executor("processes", jobs=2), tmp_path / "two")
    assert two == table(case, make_executor("inline"), tmp_path / "one")


def test_sweep_whose_workers_are_killed_and_replaced_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsight.jobs.cluster._PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr("warpsight.jobs.cluster._LOOK_SECONDS", 0.2)
    case = study("sm_count=1:20:1", "l2.latency=120cycles,200cycles", models=("mdm", "warpsight"))
    parts = tmp_path / "cluster" / "kept" / "rows"
    (tmp_path / "dask").mkdir()
    killed: list[int] = []
    with TestCluster(tmp_path / "dask") as cluster:
        first = [cluster.add(), cluster.add()]

        def kill_and_add() -> None:
            until = time.monotonic() + 300  # a loaded machine starts workers slowly
            while len(list(parts.glob("*/*"))) < 2 and time.monotonic() < until:
                time.sleep(0.005)
            cluster.add()
            for worker in first:
                worker.kill()
                killed.append(len(list(parts.glob("*/*"))))

        killer = threading.Thread(target=kill_and_add, daemon=True)
        killer.start()
        found = table(case, make_executor("dask", scheduler=cluster.address), tmp_path / "cluster")
        killer.join()
    assert 2 <= killed[0] < len(list(parts.glob("*/*"))) == 10  # 2 kernels x 40 profiles, eight a task
    assert found == table(case, make_executor("inline"), tmp_path / "plain")
