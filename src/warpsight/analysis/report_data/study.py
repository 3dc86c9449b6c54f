"""The report data of a study: the standard answers, and its designs with the CPI stack of each kernel."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.report_data.kernel import STUDY_REPORT, report_head
from warpsight.base.errors import WarpsightError
from warpsight.models.base import STACK_PREFIX
from warpsight.sweeps.answers.maps import BEST
from warpsight.sweeps.answers.selection import Selection
from warpsight.sweeps.result import EVERYTHING, Question, Sweep

_MOST_FRONTS, _MOST_BEST, _MOST_MAPS = 4, 20, 3
# Designs in the table: a limit that keeps a report of several kernels well below 5 MB.
_MOST_DESIGNS, _MOST_STACKS = 5000, 40_000


def study_report_data(sweep: Sweep, about: Question = EVERYTHING, costs: Sequence[str] = ()) -> dict[str, Any]:
    """The document of a study by the model, metric, baseline and conditions of `about`.

    Its keys: `schema`, `kind`, `tool`, `title`, `study` (the varied keys and the sampling), `answers` (documents of `best`,
    `sensitivity`, a `pareto` front for each of `costs`, else for numeric axes, and maps of performance and of the bottleneck over
    the two axes that matter most), `unanswered` (answers that failed, and why), `designs` (see `_designs`). Raises UsageError as
    `Sweep.best`, and as `Sweep.pareto` for one of `costs`.
    """
    selection = sweep.selection(about)
    answers: list[dict[str, Any]] = []
    unanswered: list[dict[str, str]] = []

    def ask(what: str, question: Callable[[], dict[str, Any]]) -> None:
        try:
            answers.append(question())
        except WarpsightError as error:
            unanswered.append({"what": what, "why": error.what})

    ask("best", lambda: sweep.best(_MOST_BEST, about))
    ask("sensitivity", lambda: sweep.sensitivity(about))
    answers += [sweep.pareto([cost], about) for cost in costs]  # requested explicitly, so a failure is an error
    for cost in () if costs else _axes_of_numbers(selection)[:_MOST_FRONTS]:
        ask(f"pareto of {cost}", partial(sweep.pareto, [cost], about))
    axes = _most_important(answers, selection)
    if len(axes) == 2:
        draw = partial(sweep.map, *axes, others=BEST, about=about)
        ask("map of performance", draw)
        for kernel in selection.head("map")["kernels"][:_MOST_MAPS]:
            ask(f"map of the bottleneck of {kernel}", partial(draw, value="bound_by", kernel=kernel))
    return {
        **report_head(STUDY_REPORT, f"study {sweep.study.name}"),
        "study": _about(sweep, selection),
        "answers": answers,
        "unanswered": unanswered,
        "designs": _designs(selection, answers),
    }


def _axes_of_numbers(selection: Selection) -> list[str]:
    """The numeric axes that vary, most values first: performance over each gives a front."""
    values = {key: selection.results.keys[key][selection.positions] for key in selection.results.axes}
    counts = {key: len(np.unique(column)) for key, column in values.items() if column.dtype.kind == "f"}
    return sorted((key for key, count in counts.items() if count > 1), key=lambda key: (-counts[key], key))


def _most_important(answers: list[dict[str, Any]], selection: Selection) -> list[str]:
    """The two axes with the largest share of the variance, or if that is unknown with the most values; the more important first."""
    sensitivity = next((answer for answer in answers if answer["answer"] == "sensitivity"), None)
    if sensitivity is None:
        return _axes_of_numbers(selection)[:2]
    index = "total" if sensitivity["estimator"] == "grid" else "first"
    return [row["key"] for row in sorted(sensitivity["of"][0]["keys"], key=lambda row: -(row[index] or 0.0))][:2]


def _about(sweep: Sweep, selection: Selection) -> dict[str, Any]:
    """The varied keys, the metric, and the numbers of designs."""
    study = sweep.study
    return {
        **{key: value for key, value in selection.head("").items() if key not in ("tool", "answer")},
        "name": study.name,
        "gpu": ", ".join(study.gpus),
        "overrides": list(study.overrides),
        "models": list(study.models),
        "sampling": {"kind": study.sampling.kind, "seed": study.sampling.seed},
        "axes": [{"key": axis.key, "values": list(axis.values), "continuous": axis.continuous} for axis in study.axes],
        "sources": [{"kernel": kernel.name, "path": str(kernel.request.path)} for kernel in study.kernels],
    }


def _designs(selection: Selection, answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The designs of the table, by number: all, or those with the highest performance, the baseline and the fronts.

    `design` [n], `keys` by name [n], `performance` [n]; by kernel `seconds` [kernels][n] and `bound_by` [kernels][n], numbers in
    `words`. `stacks` is base64 of little-endian float32 [n, kernels, components]: the CPI stacks. `of` is the number of all
    designs.
    """
    results, head = selection.results, selection.head("")
    kernels = list(selection.performance.kernels)
    most = min(_MOST_DESIGNS, max(1, _MOST_STACKS // len(kernels)))
    shown = _shown(selection, answers, most)
    columns = [name for name in results.names if name.startswith(STACK_PREFIX)]
    stacks = np.stack([results.figures(name)[kernels][:, shown] for name in columns], axis=-1)
    seconds, bound = results.figures("seconds")[kernels][:, shown], results.words("bound_by")[kernels][:, shown]
    words = sorted(set(bound.ravel().tolist()))
    codes = {word: number for number, word in enumerate(words)}
    return {
        "of": head["chosen"],
        "design": results.designs[shown].tolist(),
        "keys": {key: column[shown].tolist() for key, column in results.keys.items()},
        "performance": selection.performance.values[shown].tolist(),
        "kernels": head["kernels"],
        "seconds": seconds.tolist(),
        "bound_by": [[codes[word] for word in row] for row in bound.tolist()],
        "words": words,
        "components": [name.removeprefix(STACK_PREFIX) for name in columns],
        "stacks": base64.b64encode(stacks.transpose(1, 0, 2).astype("<f4").tobytes()).decode("ascii"),
    }


def _shown(selection: Selection, answers: list[dict[str, Any]], most: int) -> NDArray[np.int64]:
    """Places of the designs of the table, ascending."""
    positions, results = selection.positions, selection.results
    if len(positions) <= most:
        return positions
    fronts = {row["design"] for answer in answers if answer["answer"] == "pareto" for row in answer["front"]}
    named = [results.position(design) for design in (*sorted(fronts)[: most // 2], selection.performance.baseline)]
    chosen = positions[np.argsort(-selection.values, kind="stable")[: most - len(named)]]
    return np.union1d(chosen, np.intersect1d(named, positions)).astype(np.int64)
