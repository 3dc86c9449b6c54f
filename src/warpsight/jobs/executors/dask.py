"""Workers of a `dask.distributed` cluster: one that runs already, or one of this machine alone."""

from __future__ import annotations

import logging
import multiprocessing.process
from contextlib import suppress
from types import ModuleType
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.jobs.cluster import DEATHS, ClusterExecutor, Connection, cluster_library, new_client, quiet
from warpsight.jobs.executor import EXECUTORS, Executor, ExecutorKind, Settings, Tell, default_jobs
from warpsight.jobs.interrupts import starting_workers

WORKER_SECONDS = 300.0
_CONNECT_SECONDS = 10.0


def _make(settings: Settings, tell: Tell) -> Executor:
    distributed = cluster_library("distributed")
    if settings.scheduler is not None and settings.jobs is not None:
        remedy = "start the number of workers that you want, and leave it out"
        raise UsageError("the workers of a running scheduler are not started here", place="jobs", remedy=remedy)

    def connect() -> Connection:
        if settings.scheduler is not None:
            return _to(distributed, settings.scheduler)
        return _local(distributed, settings.jobs or default_jobs())

    return ClusterExecutor("dask", connect, settings.worker_timeout or WORKER_SECONDS, tell)


def _to(distributed: ModuleType, address: str) -> Connection:
    """A client of the scheduler at `address`. Raises UsageError when it cannot be reached."""
    loud = quiet()
    try:
        client = new_client(distributed, address, timeout=_CONNECT_SECONDS)
        there = client.get_versions(check=False)["scheduler"]["packages"]["distributed"]
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        loud()
        what = f"the scheduler {address} cannot be reached: {error}"
        remedy = 'start one with "dask scheduler" and give the address that it prints (tcp://HOST:8786)'
        raise UsageError(what, place="scheduler", remedy=remedy) from None
    if there != distributed.__version__:
        client.close(timeout=_CONNECT_SECONDS)
        loud()
        what = f"the scheduler has distributed {there}, this machine has {distributed.__version__}"
        raise UsageError(what, place="scheduler", remedy="install the same on all machines")

    def close() -> None:
        with suppress(Exception):  # of a scheduler that was lost there is nothing to take leave from
            client.close(timeout=_CONNECT_SECONDS)
        loud()

    return Connection(client, close)


def _local(distributed: ModuleType, jobs: int) -> Connection:
    """A cluster of `jobs` processes of this machine. Raises UsageError when it does not start."""
    import dask

    loud = quiet()
    # a task may hold the interpreter for longer than the five minutes after which a silent worker is given up
    with dask.config.set({"distributed.scheduler.worker-ttl": None, "distributed.scheduler.allowed-failures": DEATHS - 1}):
        before, runner = _there(distributed), distributed.utils.LoopRunner()
        try:
            with starting_workers():  # the thread of this loop starts them
                runner.start()
            cluster = distributed.LocalCluster(
                n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", memory_limit=0,
                silence_logs=logging.CRITICAL, preload=["warpsight.jobs.remote"],
                loop=runner.loop,
            )  # fmt: skip
            client = new_client(distributed, cluster)
        except (OSError, ValueError, RuntimeError) as error:
            runner.stop()
            loud()
            remedy = "read its output above, or use `executor=processes`"
            raise UsageError(f"the local cluster does not start: {error}", place="executor", remedy=remedy) from None
        except KeyboardInterrupt:
            _abandon(_there(distributed) - before)
            raise

    def close() -> None:
        with suppress(Exception):  # whatever is wrong with them, they end with this process
            client.close(timeout=_CONNECT_SECONDS)
        with suppress(Exception):
            cluster.close(timeout=_CONNECT_SECONDS)
        with suppress(Exception):
            runner.stop()
        loud()

    return Connection(client, close)


def _there(distributed: ModuleType) -> set[Any]:
    """The processes of this one, and Dask's clusters."""
    return {*multiprocessing.active_children(), *distributed.SpecCluster._instances}


def _abandon(begun: set[Any]) -> None:
    """End the workers of a cluster that was interrupted while it started."""
    for each in begun:
        if isinstance(each, multiprocessing.process.BaseProcess):
            each.kill()
        else:  # when the program ends, Dask would wait for them, and complain
            each.shutdown_on_close = False


_ABOUT = "workers of a Dask cluster, at `scheduler`, or of this machine"
EXECUTORS.add("dask", ExecutorKind(_ABOUT, frozenset({"jobs", "scheduler", "worker_timeout"}), _make))
