"""The result of a sweep: its rows, its designs, and the answers to questions about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warpsight.base.display import DISPLAY
from warpsight.base.errors import FormatError, UsageError
from warpsight.base.inputs import open_input
from warpsight.gpu.key import WORD
from warpsight.sweeps.answers.best import best, pareto
from warpsight.sweeps.answers.energy import UTILISATION, PowerCurve, energy
from warpsight.sweeps.answers.maps import design_map, speedups
from warpsight.sweeps.answers.results import GEOMEAN, figure_names, results_of
from warpsight.sweeps.answers.selection import CONDITION_WORDS, COST_NUMBERS, PERFORMANCE, Selection, Term, select
from warpsight.sweeps.answers.sensitivity import sensitivity
from warpsight.sweeps.expressions import parse_expression
from warpsight.sweeps.folder import StudyFolder, base_gpus, open_folder
from warpsight.sweeps.names import NUMBER
from warpsight.sweeps.plan import Plan
from warpsight.sweeps.study import Study
from warpsight.sweeps.tables import NOT_YET, Constants, checked_constants, constants_of, designs_table, empty_table, result_tables

# What expressions over results may read besides the keys of a study.
_IN_COSTS = dict.fromkeys(COST_NUMBERS, NUMBER)


@dataclass(frozen=True)
class Question:
    """Which designs a question is about, and what counts as performance.

    `model` None: the study's first. `metric`: `geomean`, `total`, `worst`, or a kernel's name (`answers/performance.py`);
    `baseline` the design that speed-ups are over, None: the lowest number with a value. `where`: conditions on keys and columns of
    results, all of which must hold. `kernels` None: all.
    """

    model: str | None = None
    metric: str = GEOMEAN
    baseline: int | None = None
    where: tuple[str, ...] = ()
    kernels: tuple[str, ...] | None = None


EVERYTHING = Question()


class Sweep:
    """Rows and designs of a study. Answers are JSON documents; `report.sweep_answers_text` and `sweep_pictures` show them."""

    def __init__(self, study: Study, table: pa.Table, designs: pa.Table, constants: Constants) -> None:
        self.study = study
        self.table = table
        self.designs = designs
        self.constants = constants  # the keys that are equal on all designs, which expressions may read too

    @classmethod
    def open(cls, folder: str | Path) -> Sweep:
        """From the folder that a sweep wrote. Raises UsageError when it has no results, FormatError when they are damaged.

        FormatError too when its tables are not of its study, as after a run over other designs that was ended before it wrote them.
        """
        kept: StudyFolder = open_folder(folder)
        table, designs = _read(kept.table, kept), _read(kept.designs, kept)
        return cls(kept.study, table, designs, checked_constants(kept, table, designs))

    @classmethod
    def of(cls, plan: Plan) -> Sweep:
        """From the kept results of a plan; rows that are not computed yet have that as their reason."""
        schema = empty_table(plan).schema
        rows = pa.concat_tables([schema.empty_table(), *(each.cast(schema) for each in result_tables(plan, missing=NOT_YET))])
        return cls(plan.study, rows.unify_dictionaries(), designs_table(plan), constants_of(plan))

    def best(self, count: int = 10, about: Question = EVERYTHING) -> dict[str, Any]:
        """The `count` designs of most performance, see `answers.best`."""
        return best(self._select(about), count)

    def pareto(self, costs: Sequence[str], about: Question = EVERYTHING) -> dict[str, Any]:
        """The front of performance and the `costs`, expressions over keys, see `answers.pareto`."""
        terms = [Term(text, parse_expression(text, "cost", _IN_COSTS)) for text in costs]
        return pareto(self._select(about, terms), terms)

    def sensitivity(self, about: Question = EVERYTHING) -> dict[str, Any]:
        """Which axis matters, see `answers.sensitivity`."""
        return sensitivity(self._select(about))

    def map(
        self, x: str, y: str, *, value: str = PERFORMANCE, kernel: str | None = None,
        fixed: Mapping[str, float | str] | None = None, others: str | None = None, about: Question = EVERYTHING,
    ) -> dict[str, Any]:
        """`value` over two keys, as MDM Figs. 11 and 12, see `answers.maps`."""
        return design_map(self._select(about), x, y, value=value, kernel=kernel, fixed=fixed, others=others)

    def speedups(
        self, *, designs: Sequence[int] | None = None, axis: str | None = None, about: Question = EVERYTHING
    ) -> dict[str, Any]:
        """Kernels by designs over the baseline, see `answers.speedups`."""
        return speedups(self._select(about), designs=designs, axis=axis)

    def energy(
        self, *, memory: str | None = None, power: PowerCurve | str | None = None, about: Question = EVERYTHING
    ) -> dict[str, Any]:
        """Time, and with a power energy and its products, over clocks, see `energy`."""
        if isinstance(power, str):
            term = Term(power, parse_expression(power, "power", {UTILISATION: NUMBER}))
            return energy(self._select(about, [term]), memory=memory, power=term)
        return energy(self._select(about), memory=memory, power=power)

    def _repr_html_(self) -> str | None:
        return DISPLAY.html(self)

    def selection(self, about: Question = EVERYTHING) -> Selection:
        """The designs of the question, with their performance."""
        return self._select(about)

    def _select(self, about: Question, costs: Sequence[Term] = ()) -> Selection:
        """As `selection`, with every key that `costs` read; keys equal on all designs only if an expression reads them."""
        known = {**_IN_COSTS, **dict.fromkeys(figure_names(self.table), NUMBER), **dict.fromkeys(CONDITION_WORDS, WORD)}
        where = [Term(text, parse_expression(text, "where", known)) for text in about.where]
        names = {name for term in (*where, *costs) for name in term.formula.names}
        designs = self.designs
        for name in sorted(names & self.constants.keys() - set(designs.column_names)):
            designs = designs.append_column(name, pa.array([self.constants[name]] * designs.num_rows))
        axes = [axis.key for axis in self.study.axes]
        model = about.model or (self.study.models[0] if self.study.models else "simulator")
        results = results_of(self.table, designs, model=model, axes=axes, kernels=about.kernels)
        selection = select(results, metric=about.metric, baseline=about.baseline, where=where)
        return replace(selection, gpu=base_gpus(self.study))



def _read(path: Path, folder: StudyFolder) -> pa.Table:
    try:
        open_input(path).close()  # Arrow would wait for a pipe
        # each part of the file has its own dictionary, and Arrow groups by words only if all parts share one
        return pq.read_table(path).unify_dictionaries()
    except FileNotFoundError:
        remedy = f"`warpsight sweep resume {folder.path}` computes them"
        raise UsageError("has no results yet", place=str(folder.path), remedy=remedy) from None
    except (OSError, pa.ArrowException) as error:
        remedy = f"`warpsight sweep collect {folder.path}` writes it again"
        raise FormatError(f"cannot be read: {error}", place=str(path), remedy=remedy) from None
