"""Workers in jobs of a Slurm cluster, submitted through `dask-jobqueue`; the scheduler of the tasks is in this process."""

from __future__ import annotations

import logging
import shutil
import subprocess
from contextlib import suppress
from time import monotonic, sleep
from types import ModuleType
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.explore.runs.cluster import DEATHS, ClusterExecutor, Connection, new_client
from warpsight.explore.runs.executor import EXECUTORS, Executor, ExecutorKind, Settings, Tell
from warpsight.explore.runs.libraries import distributed_library, jobqueue_library, quiet
from warpsight.explore.runs.slurm_options import SlurmOptions, slurm_options

WORKER_SECONDS = 24 * 3600.0
"""A queue may be long."""
_CLOSE_SECONDS = 10.0
_SUBMIT_SECONDS = 60.0


def _make(settings: Settings, tell: Tell) -> Executor:
    distributed, jobqueue = distributed_library(), jobqueue_library()
    options = slurm_options(settings.slurm)
    for command in ("sbatch", "scancel"):
        if shutil.which(command) is None:
            what = f"there is no command {command} here"
            raise UsageError(what, place="--executor slurm", remedy="start it on a machine that submits jobs to Slurm")
    timeout = settings.worker_timeout or WORKER_SECONDS
    return ClusterExecutor("slurm", lambda: _connect(distributed, jobqueue, options), timeout, tell)


class Jobs:
    """The jobs that were submitted and not cancelled yet; what `sbatch` says when it `refused` one."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.left: set[str] = set()
        self.under_way = 0
        self.closed = False

    def close(self) -> None:
        """Submit no more, and wait for submissions that are under way: their jobs must be known to be cancelled."""
        self.closed = True
        until = monotonic() + _SUBMIT_SECONDS
        while self.under_way and monotonic() < until:
            sleep(0.02)

    def cancel(self) -> None:
        """Cancel those that the cluster left behind when it closed in the middle of something."""
        for job in sorted(self.left):
            subprocess.run(["scancel", job], capture_output=True, check=False)


def _connect(distributed: ModuleType, jobqueue: ModuleType, options: SlurmOptions) -> Connection:
    """Starts the scheduler and asks for jobs; these come when Slurm pleases. Raises UsageError when it does not start."""
    import dask

    loud, jobs = quiet(), Jobs()
    cluster: Any = None
    client: Any = None

    def close() -> None:
        jobs.close()
        for part in (client, cluster):
            with suppress(Exception):  # it fails where a job could not be submitted; what is left then is cancelled here
                part.close(timeout=_CLOSE_SECONDS)
        jobs.cancel()
        loud()

    # a task may hold the interpreter for longer than the five minutes after which a silent worker is given up
    with dask.config.set({"distributed.scheduler.worker-ttl": None}):
        try:
            cluster = slurm_cluster(jobqueue, options, jobs)
            # a fixed number too: a job that ends, at its walltime for one, is submitted again
            cluster.adapt(minimum_jobs=options.least, maximum_jobs=options.most)
            client = new_client(distributed, cluster)
        except (OSError, ValueError, RuntimeError) as error:
            close()
            remedy = "correct --slurm; interface= names the network"
            raise UsageError(f"the cluster does not start: {error}", place="--executor slurm", remedy=remedy) from None
    return Connection(client, close, lambda: jobs.refused[-1] if jobs.refused else "")


def slurm_cluster(jobqueue: ModuleType, options: SlurmOptions, jobs: Jobs) -> Any:
    """The `SLURMCluster`, without a job yet; those to come are entered in `jobs`."""
    return jobqueue.SLURMCluster(
        job_cls=_job_class(jobs),
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


def _job_class(jobs: Jobs) -> type:
    from dask_jobqueue.slurm import SLURMJob

    class WatchedJob(SLURMJob):  # dask-jobqueue only logs what sbatch says, and forgets jobs that it was just submitting
        async def _submit_job(self, script_filename: str) -> Any:
            if jobs.closed:
                raise RuntimeError("the run is over")
            jobs.under_way += 1
            try:
                said = await super()._submit_job(script_filename)
                jobs.left.add(self._job_id_from_submit_output(said))
            except (RuntimeError, OSError, ValueError) as error:
                jobs.refused.append(" ".join(str(error).split()))
                raise
            finally:
                jobs.under_way -= 1
            return said

        @classmethod
        async def _close_job(cls, job_id: str | None, cancel_command: str) -> None:
            await super()._close_job(job_id, cancel_command)
            jobs.left.discard(job_id or "")

    return WatchedJob


EXECUTORS.add(
    "slurm",
    ExecutorKind("workers in jobs of a Slurm cluster, by --slurm", frozenset({"slurm", "worker_timeout"}), _make),
)
