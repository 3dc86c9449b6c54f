"""The figures by name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warpsight.base.errors import UsageError, suggestion
from warpsight.explore.validation.figures import (
    design_space,
    dvfs,
    gpumech_errors,
    latency,
    mdm_errors,
    representative,
    stacks,
    tables,
)
from warpsight.explore.validation.figures.base import Figure

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
    """The figures called `names` (`all`: every one), each once, in the order given. Raises UsageError for a name that is none."""
    known = figure_names()
    wanted = [each for name in names for each in (known if name == ALL else [name])]
    for name in wanted:
        if name not in FIGURES:
            what = f'"{name}" is not a figure that can be made again{suggestion(name, [*known, ALL])}'
            raise UsageError(what, place="--figure", remedy="`warpsight validate --list` lists them")
    if not wanted:
        raise UsageError("names no figure", place="--figure", remedy="`warpsight validate --list` lists them")
    return [FIGURES[name] for name in dict.fromkeys(wanted)]
