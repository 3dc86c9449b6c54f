"""The figures by name, and how they are remade: from a suite and names of figures to result documents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError, suggestion
from warpsight.base.progress import Watch
from warpsight.jobs.executor import Executor, make_executor
from warpsight.papers.figures import design_space, dvfs, gpumech_errors, latency, mdm_errors, representative, stacks, tables
from warpsight.papers.figures.base import Figure, figure_document
from warpsight.papers.results import Cast
from warpsight.papers.study import run_study

ALL = "all"
FIGURES: dict[str, Figure] = {
    figure.about.name: figure
    for module in (latency, mdm_errors, design_space, dvfs, stacks, tables, representative, gpumech_errors)
    for figure in module.FIGURES
}


def figure_names() -> list[str]:
    """All names: papers in order, numbers in order, tables last."""
    def place(name: str) -> tuple[bool, bool, int]:
        number = re.search(r"\d+$", name)
        return not name.startswith("mdm-"), "table" in name, int(number[0]) if number else 0

    return sorted(FIGURES, key=place)


def chosen_figures(names: Sequence[str]) -> list[Figure]:
    """The figures called `names` (`all`: every one), each once, in the order given. Raises UsageError for an unknown name."""
    known = figure_names()
    chosen = [each for name in names for each in (known if name == ALL else [name])]
    for name in chosen:
        if name not in FIGURES:
            message = f'"{name}" is not a figure that can be reproduced{suggestion(name, [*known, ALL])}'
            raise UsageError(message, place="figures", remedy="`warpsight validate --list` lists them")
    if not chosen:
        raise UsageError("no figure is named", place="figures", remedy="`warpsight validate --list` lists them")
    return [FIGURES[name] for name in dict.fromkeys(chosen)]


def validate(
    cast: Cast, figures: Sequence[Figure], *, results: str | Path | None = None, jobs: int | None = None,
    executor: Executor | None = None, watch: Watch | None = None,
) -> list[dict[str, Any]]:
    """The documents of `figures` on the kernels of `cast`, in order.

    What is in the folder `results` (None: in the user's cache) already is not computed again. The rest is computed by `executor`,
    which stays open, or else by `jobs` processes, None: one for each core that this process may use. Raises UsageError when the
    folder cannot be written, the kernels cannot show a figure, or both `jobs` and `executor` are given.
    """
    points = [point for figure in figures for point in figure.points(cast)]
    if executor is not None and jobs is not None:
        raise UsageError("an executor sets its own number of processes", place="jobs", remedy="leave out jobs or executor")
    with nullcontext(executor) if executor is not None else make_executor(None, jobs=jobs) as runner:
        computed = run_study(cast, points, results=results, executor=runner, watch=watch)
    return [figure_document(figure, cast, computed) for figure in figures]


def figure_list() -> list[dict[str, str]]:
    """Name, paper, place there and title of every figure."""
    abouts = [FIGURES[name].about for name in figure_names()]
    return [{"figure": a.name, "paper": a.cite, "place": a.place, "title": a.title, "gpu": a.gpu} for a in abouts]
