"""What `--slurm KEY=VALUE` may say of the jobs that workers run in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from warpsight.base.errors import UsageError, suggestion

PLACE = "--slurm"
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
    given: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if key not in KEYS or not equals:
            what = f'"{text}" does not set one of its keys{suggestion(key, KEYS)}'
            raise UsageError(what, place=PLACE, remedy=f"give KEY=VALUE; known: {', '.join(KEYS)}")
        if not value or not value.isprintable():
            raise _wrong(key, value, "a text of one line")
        if key in given and key not in _MANY:
            raise UsageError(f"{key} is given twice", place=PLACE, remedy="give it once")
        given.setdefault(key, []).append(value)
    for key, example in (("cores", "8"), ("memory", "16GB"), ("workers", "4")):
        if key not in given:
            raise UsageError(f"{key} is missing", place=PLACE, remedy=f"give what a job asks for: --slurm {key}={example}")
    one = {key: values[0] for key, values in given.items()}
    least, most = _workers(one["workers"])
    return SlurmOptions(
        cores=_cores(one["cores"]),
        memory=_matching("memory", one["memory"], _MEMORY, "a number and a unit, such as 16GB"),
        least=least,
        most=most,
        walltime=_matching("walltime", one["walltime"], _WALLTIME, "a time such as 02:00:00") if "walltime" in one else None,
        queue=one.get("queue"),
        account=one.get("account"),
        interface=one.get("interface"),
        python=one.get("python"),
        logs=one.get("logs"),
        directives=tuple(given.get("directive", ())),
        prologue=tuple(given.get("prologue", ())),
    )


def _cores(value: str) -> int:
    if not (value.isascii() and value.isdigit() and 0 < int(value) < 10_000):
        raise _wrong("cores", value, "a whole number from 1")
    return int(value)


def _workers(value: str) -> tuple[int, int]:
    found = _WORKERS.fullmatch(value)
    most = int(found["most"]) if found else 0
    least = int(found["least"]) if found and found["least"] else most
    if found is None or not 0 < most < 100_000 or (":" not in value and least != most) or least > most:
        raise _wrong("workers", value, "a number of jobs, or the least and the most, such as 0:20")
    return least, most


def _matching(key: str, value: str, pattern: re.Pattern[str], meant: str) -> str:
    if not (value.isascii() and pattern.fullmatch(value)):
        raise _wrong(key, value, meant)
    return value


def _wrong(key: str, value: str, meant: str) -> UsageError:
    return UsageError(f'{key}="{value}" is wrong', place=PLACE, remedy=f"give {meant}")
