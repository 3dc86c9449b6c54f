"""The options of commands that compute much: by whom."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from warpsight.cli import options

if TYPE_CHECKING:
    from warpsight.explore.runs.executor import Executor


def add_executor(parser: argparse.ArgumentParser) -> None:
    """Who computes: this process, others, or a cluster."""
    group = parser.add_argument_group("who computes (docs/reference/executors.md)")
    group.add_argument("--jobs", metavar="N", type=options.whole, help="processes (default one for each core)")
    group.add_argument("--executor", metavar="NAME", help="inline, processes (the default), dask or slurm")
    group.add_argument("--scheduler", metavar="ADDRESS", help="with dask: a running scheduler (default a cluster of this machine)")
    group.add_argument("--slurm", metavar="KEY=VALUE", action="append", default=[], help="with slurm: what a job asks for: cores, "
                       "memory, workers (jobs), walltime, queue, account, ...")
    group.add_argument("--worker-timeout", metavar="SECONDS", type=options.whole, help="with dask and slurm: end when no worker "
                       "was there for so long (default 300, with slurm a day)")


def chosen_executor(arguments: argparse.Namespace) -> Executor:
    """The executor that the options ask for; it starts nothing before it is used. Raises UsageError when they cannot be meant."""
    from warpsight.explore.runs.executor import make_executor

    return make_executor(
        arguments.executor,
        jobs=arguments.jobs,
        scheduler=arguments.scheduler,
        slurm=arguments.slurm,
        worker_timeout=arguments.worker_timeout,
    )
