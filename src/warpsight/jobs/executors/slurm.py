"""Workers in jobs of a Slurm cluster, submitted through `dask-jobqueue`; the scheduler of the tasks is in this process."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from types import ModuleType
from typing import Any

from warpsight.base.errors import UsageError, suggestion
from warpsight.jobs.cluster import DEATHS, ClusterExecutor, Connection, cluster_library, new_client, quiet
from warpsight.jobs.executor import EXECUTORS, Executor, ExecutorKind, Settings, Tell

PLACE = "slurm KEY=VALUE"
_WALLTIME = re.compile(r"\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d){0,2}")
_MEMORY = re.compile(r"0*[1-9]\d*[KMGT]i?B")
_WORKERS = re.compile(r"(?:(?P<least>\d+):)?(?P<most>\d+)")
_MANY = ("directive", "prologue")


@dataclass(frozen=True)
class SlurmOptions:
    """Each job asks for `cores` and `memory` (`16GB`, all its processes together) and runs a worker process on each core.

    `walltime` is as `sbatch -t` takes it. Between `least` and `most` jobs are kept in the queue: as many as there is work for.
    `directives` are further words for `#SBATCH`, `prologue` lines of shell that go before the worker, `interface` is the network
    that workers and scheduler talk over, `python` the interpreter on the nodes, `logs` a folder for what jobs print. None: as
    Slurm or dask-jobqueue has it.
    """

    cores: int
    memory: str
    least: int
    most: int
    walltime: str | None = None
    queue: str | None = None
    account: str | None = None
    interface: str | None = None
    python: str | None = None
    logs: str | None = None
    directives: tuple[str, ...] = ()
    prologue: tuple[str, ...] = ()


KEYS = ("account", "cores", "directive", "interface", "logs", "memory", "prologue", "python", "queue", "walltime", "workers")


def slurm_options(texts: Sequence[str]) -> SlurmOptions:
    """From texts such as `cores=8`. Raises UsageError for a key that is unknown, missing or given twice, and for a wrong value."""
    values: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if key not in KEYS or not equals:
            what = f'"{text}" does not set a known key{suggestion(key, KEYS)}'
            raise UsageError(what, place=PLACE, remedy=f"give KEY=VALUE; known: {', '.join(KEYS)}")
        if not value or not value.isprintable():
            raise _invalid_value(key, value, "a text of one line")
        if key in values and key not in _MANY:
            raise UsageError(f"{key} is given twice", place=PLACE, remedy="give it once")
        values.setdefault(key, []).append(value)
    for key, example in (("cores", "8"), ("memory", "16GB"), ("workers", "4")):
        if key not in values:
            raise UsageError(f"{key} is missing", place=PLACE, remedy=f"state what a job requests: `slurm={key}={example}`")
    one = {key: texts[0] for key, texts in values.items()}
    cores = one["cores"]
    if not (cores.isascii() and cores.isdigit() and 0 < int(cores) < 10_000):
        raise _invalid_value("cores", cores, "a whole number from 1")
    least, most = _workers(one["workers"])
    return SlurmOptions(
        cores=int(cores),
        memory=_matching("memory", one["memory"], _MEMORY, "a number and a unit, such as 16GB"),
        least=least,
        most=most,
        walltime=_matching("walltime", one["walltime"], _WALLTIME, "a time such as 02:00:00") if "walltime" in one else None,
        **{key: one.get(key) for key in ("queue", "account", "interface", "python", "logs")},
        directives=tuple(values.get("directive", ())),
        prologue=tuple(values.get("prologue", ())),
    )


def _workers(value: str) -> tuple[int, int]:
    match = _WORKERS.fullmatch(value)
    most = int(match["most"]) if match else 0
    least = int(match["least"]) if match and match["least"] else most
    if not 0 < most < 100_000 or least > most:
        raise _invalid_value("workers", value, "a number of jobs, or a range such as 0:20")
    return least, most


def _matching(key: str, value: str, pattern: re.Pattern[str], expected: str) -> str:
    if not (value.isascii() and pattern.fullmatch(value)):
        raise _invalid_value(key, value, expected)
    return value


def _invalid_value(key: str, value: str, expected: str) -> UsageError:
    return UsageError(f'{key}="{value}" is wrong', place=PLACE, remedy=f"give {expected}")


# -- The executor.

WORKER_SECONDS = 24 * 3600.0
"""A queue may be long."""
_CLOSE_SECONDS = 10.0
_SUBMIT_SECONDS = 60.0


def _make(settings: Settings, tell: Tell) -> Executor:
    distributed, jobqueue = cluster_library("distributed"), cluster_library("dask_jobqueue")
    options = slurm_options(settings.slurm)
    for command in ("sbatch", "scancel"):
        if shutil.which(command) is None:
            what = f"there is no command {command} here"
            raise UsageError(what, place="executor slurm", remedy="run it on a machine that can submit Slurm jobs")
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
    """Starts the scheduler and submits jobs, which Slurm starts later. Raises UsageError when it does not start."""
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
            remedy = "correct `slurm`; interface= names the network"
            raise UsageError(f"the cluster does not start: {error}", place="executor slurm", remedy=remedy) from None
    return Connection(client, close, lambda: jobs.refused[-1] if jobs.refused else "")


def slurm_cluster(jobqueue: ModuleType, options: SlurmOptions, jobs: Jobs) -> Any:
    """The `SLURMCluster`, without a job yet; those to come are entered in `jobs`."""
    return jobqueue.SLURMCluster(
        job_cls=_job_class(jobs), cores=options.cores, processes=options.cores, memory=options.memory, walltime=options.walltime,
        queue=options.queue, account=options.account, interface=options.interface, python=options.python,
        log_directory=options.logs, job_name="warpsight", job_extra_directives=list(options.directives) or None,
        job_script_prologue=list(options.prologue) or None,
        scheduler_options={"dashboard": False, "dashboard_address": ":0", "allowed_failures": DEATHS - 1},
        silence_logs=logging.CRITICAL,
    )  # fmt: skip


def _job_class(jobs: Jobs) -> type:
    from dask_jobqueue.slurm import SLURMJob

    class WatchedJob(SLURMJob):  # dask-jobqueue only logs what sbatch says, and forgets jobs that it was just submitting
        async def _submit_job(self, script_filename: str) -> Any:
            if jobs.closed:
                raise RuntimeError("the run is over")
            jobs.under_way += 1
            try:
                output = await super()._submit_job(script_filename)
                jobs.left.add(self._job_id_from_submit_output(output))
            except (RuntimeError, OSError, ValueError) as error:
                jobs.refused.append(" ".join(str(error).split()))
                raise
            finally:
                jobs.under_way -= 1
            return output

        @classmethod
        async def _close_job(cls, job_id: str | None, cancel_command: str) -> None:
            await super()._close_job(job_id, cancel_command)
            jobs.left.discard(job_id or "")

    return WatchedJob


_ABOUT = "workers in jobs of a Slurm cluster, described by `slurm`"
EXECUTORS.add("slurm", ExecutorKind(_ABOUT, frozenset({"slurm", "worker_timeout"}), _make))
