"""Workers in jobs of a Slurm cluster, submitted through `dask-jobqueue`; the scheduler of the tasks is in this process."""

from __future__ import annotations

import logging
import shutil
from contextlib import suppress
from types import ModuleType
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.explore.runs.cluster import DEATHS, ClusterExecutor, Connection
from warpsight.explore.runs.executor import EXECUTORS, Executor, ExecutorKind, Settings, Tell
from warpsight.explore.runs.libraries import distributed_library, jobqueue_library, quiet
from warpsight.explore.runs.slurm_options import SlurmOptions, slurm_options

WORKER_SECONDS = 24 * 3600.0
"""A queue may be long."""
_CLOSE_SECONDS = 10.0


def _make(settings: Settings, tell: Tell) -> Executor:
    distributed, jobqueue = distributed_library(), jobqueue_library()
    options = slurm_options(settings.slurm)
    for command in ("sbatch", "scancel"):
        if shutil.which(command) is None:
            what = f"there is no command {command} here"
            raise UsageError(what, place="--executor slurm", remedy="start it on a machine that submits jobs to Slurm")
    timeout = settings.worker_timeout or WORKER_SECONDS
    return ClusterExecutor("slurm", lambda: _connect(distributed, jobqueue, options), timeout, tell)


def _connect(distributed: ModuleType, jobqueue: ModuleType, options: SlurmOptions) -> Connection:
    """Starts the scheduler and asks for jobs; these come when Slurm pleases. Raises UsageError when it does not start."""
    import dask

    loud = quiet()
    refused: list[str] = []
    cluster: Any = None
    # a task may hold the interpreter for longer than the five minutes after which a silent worker is given up
    with dask.config.set({"distributed.scheduler.worker-ttl": None}):
        try:
            cluster = slurm_cluster(jobqueue, options, refused)
            # a fixed number too: a job that ends, at its walltime for one, is submitted again
            cluster.adapt(minimum_jobs=options.least, maximum_jobs=options.most)
            client = distributed.Client(cluster, set_as_default=False)
        except (OSError, ValueError, RuntimeError) as error:
            with suppress(Exception):
                cluster.close(timeout=_CLOSE_SECONDS)
            loud()
            remedy = "correct --slurm; interface= names the network"
            raise UsageError(f"the cluster does not start: {error}", place="--executor slurm", remedy=remedy) from None

    def close() -> None:
        with suppress(Exception):  # a job that was never submitted cannot be ended, the others are
            client.close(timeout=_CLOSE_SECONDS)
        with suppress(Exception):
            cluster.close(timeout=_CLOSE_SECONDS)
        loud()

    return Connection(client, close, lambda: refused[-1] if refused else "")


def slurm_cluster(jobqueue: ModuleType, options: SlurmOptions, refused: list[str]) -> Any:
    """The `SLURMCluster`, without a job yet; what `sbatch` says when it refuses one is added to `refused`."""
    return jobqueue.SLURMCluster(
        job_cls=_job_class(jobqueue, refused),
        cores=options.cores,
        processes=options.cores,
        memory=options.memory,
        walltime=options.walltime,
        queue=options.queue,
        account=options.account,
        interface=options.interface,
        python=options.python,
        log_directory=options.logs,
        job_name="warpsight",
        job_extra_directives=list(options.directives) or None,
        job_script_prologue=list(options.prologue) or None,
        scheduler_options={"dashboard": False, "dashboard_address": ":0", "allowed_failures": DEATHS - 1},
        silence_logs=logging.CRITICAL,
    )


def _job_class(jobqueue: ModuleType, refused: list[str]) -> type:
    from dask_jobqueue.slurm import SLURMJob

    class WatchedJob(SLURMJob):  # dask-jobqueue only logs what sbatch says
        async def _submit_job(self, script_filename: str) -> Any:
            try:
                return await super()._submit_job(script_filename)
            except (RuntimeError, OSError) as error:
                refused.append(" ".join(str(error).split()))
                raise

    return WatchedJob


EXECUTORS.add(
    "slurm",
    ExecutorKind("workers in jobs of a Slurm cluster, by --slurm", frozenset({"slurm", "worker_timeout"}), _make),
)
