"""Figures of the papers made again: from a suite and names of figures to result documents."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import UsageError
from warpsight.explore.runs.executor import Executor, make_executor
from warpsight.explore.validation.figures.base import figure_document
from warpsight.explore.validation.figures.registry import FIGURES, figure_names
from warpsight.explore.validation.points import Cast
from warpsight.explore.validation.study import run_study
from warpsight.explore.watch import Watch

if TYPE_CHECKING:
    from warpsight.explore.validation.figures.base import Figure


def validate(
    cast: Cast,
    figures: Sequence[Figure],
    *,
    results: str | Path | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    watch: Watch | None = None,
) -> list[dict[str, Any]]:
    """The documents of `figures` on the kernels of `cast`, in order.

    What is in the folder `results` (None: in the user's cache) already is not computed again. The rest is computed by `executor`,
    which stays open, or else by `jobs` processes, None: one for each core that this process may use. Raises UsageError when the
    folder cannot be written, the kernels cannot show a figure, or both `jobs` and `executor` are given.
    """
    points = [point for figure in figures for point in figure.points(cast)]
    if executor is not None and jobs is not None:
        raise UsageError("an executor has its own number of processes", place="jobs", remedy="leave out jobs or executor")
    with nullcontext(executor) if executor is not None else make_executor(None, jobs=jobs) as runner:
        found = run_study(cast, points, results=results, executor=runner, watch=watch)
    return [figure_document(figure, cast, found) for figure in figures]


def figure_list() -> list[dict[str, str]]:
    """Name, paper, place there and title of every figure."""
    abouts = [FIGURES[name].about for name in figure_names()]
    return [{"figure": a.name, "paper": a.cite, "place": a.place, "title": a.title, "gpu": a.gpu} for a in abouts]
