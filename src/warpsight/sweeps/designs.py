"""From a study to its table of designs (axes, derived keys, constraints), and designs grouped by what they share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from warpsight.base.errors import UsageError, suggestion
from warpsight.base.units import format_quantity
from warpsight.gpu.document import Text, parse_value, value_text
from warpsight.gpu.key import FLAG, WORD, Key
from warpsight.gpu.keys import find_key, key_of
from warpsight.gpu.spec import Content, GpuSpec
from warpsight.pipeline.evaluate import Designs
from warpsight.pipeline.request import Method
from warpsight.sweeps.expressions import Expression
from warpsight.sweeps.names import ARGUMENT, DIMENSIONS, GPU, LAUNCH, NUMBER, TEXTS, WHOLE, in_column, study_key
from warpsight.sweeps.study import SimulatorRuns, Study, check_study, draw

Column = NDArray[Any]


@dataclass(frozen=True)
class DesignTable:
    """The designs of a study, D of them.

    `columns`: axes, then derived keys, in the study's order; each [D], float64 in base units for numbers (whole where the key is),
    texts as objects for words, flags (`true`, `false`), grid, block and arguments. `drawn` designs came from the axes, of which
    `excluded` broke a constraint. `refused` [D] int16: 0, or one more than the index in `reasons` (key, reason) of what is wrong
    with a derived value of the design, which then is a row without numbers.
    """

    count: int
    columns: dict[str, Column]
    drawn: int
    excluded: int
    refused: NDArray[np.int16]
    reasons: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        return self.count

    def values(self, design: int) -> dict[str, Content]:
        """Axes and derived keys of one design, as a `GpuSpec` has them: int, float, bool, or text."""
        return {name: _content(study_key(name, name), column[design]) for name, column in self.columns.items()}

    def settings(self, design: int) -> list[str]:
        """The GPU keys of one design as `overrides` has them. Only of a design that is not refused."""
        return [f"{name}={value_text(name, value)}" for name, value in self.values(design).items() if find_key(name)]

    def refusal(self, design: int) -> str:
        """Why a design cannot be: a derived value that its key cannot have, with that value. Empty for all others."""
        code = int(self.refused[design])
        if code == 0:
            return ""
        name, reason = self.reasons[code - 1]
        return f"{name} evaluates to {float(self.columns[name][design]):.17g}, {reason}"


Gpus = Mapping[str, GpuSpec]
"""The base GPUs of a study by name, with its overrides."""


def design_table(study: Study, gpus: Gpus) -> DesignTable:
    """The designs of `study` around `gpus`.

    Derived keys are computed in their order from axes, derived keys before them, and what a base has; a value of a base that only
    follows another key (an L1 sector that is as its line) follows it here too. A derived value out of its key's bounds refuses the
    design that has it, and no other. Raises UsageError as `check_study` does, as `draw` and `Expression.evaluate` do, for a derived
    value that is a fraction where the key takes whole numbers, and when the constraints leave no design.
    """
    check_study(study)
    drawn, columns = draw(study.axes, study.sampling)
    refused = np.zeros(drawn, dtype=np.int16)
    reasons: list[tuple[str, str]] = []
    for name, expression in study.derived:
        key = study_key(name, expression.place)
        values = evaluate_on(expression, columns, gpus, study.method, drawn)
        columns[name] = _checked(key, values, expression)
        for broken, reason in _out_of_bounds(key, columns[name]):
            reasons.append((name, reason))
            refused[broken & (refused == 0)] = len(reasons)
        if key.kind in TEXTS:
            columns[name] = _texts(key, columns[name])
    keep = np.ones(drawn, dtype=np.bool_)
    for constraint in study.constraints:
        keep &= evaluate_on(constraint, columns, gpus, study.method, drawn)
    kept = int(keep.sum())
    if kept == 0:
        place = study.constraints[0].place if study.constraints else "axes"
        what = f"the constraints exclude every one of {drawn:,} designs"
        raise UsageError(what, place=place, remedy="loosen a constraint, or widen an axis")
    if kept < drawn:
        columns, refused = {name: column[keep] for name, column in columns.items()}, refused[keep]
    return DesignTable(kept, columns, drawn, drawn - kept, refused, tuple(reasons))


def simulator_designs(simulator: SimulatorRuns, table: DesignTable, gpus: Gpus, method: Method) -> NDArray[np.int64]:
    """The designs, ascending, that the simulator runs: of those accepted where `simulator.where` holds, `simulator.designs`.

    All of them for 0, or for more than exist. Errors as for `Expression.evaluate`.
    """
    eligible = table.refused == 0
    if simulator.where is not None:
        eligible = eligible & evaluate_on(simulator.where, table.columns, gpus, method, len(table))
    designs = np.flatnonzero(eligible).astype(np.int64)
    if simulator.designs and simulator.designs < designs.size:
        designs = np.sort(np.random.default_rng(simulator.seed).choice(designs, simulator.designs, replace=False))
    return designs


def readable(columns: Mapping[str, Column], base: GpuSpec, method: Method) -> dict[str, Any]:
    """What expressions may read: every key of `base` and of the method, and the columns in their place."""
    values: dict[str, Any] = dict(base.by_key)
    for name in values:
        key = key_of(name)
        followed = (key.default or "").removeprefix("=")
        if followed != (key.default or "") and followed in columns and base.sources.get(name) == key.reason:
            values[name] = columns[followed]
    values |= {f"method.{name}": value for name, value in asdict(method).items()}
    return values | dict(columns)


def evaluate_on(expression: Expression, columns: Mapping[str, Column], gpus: Gpus, method: Method, designs: int) -> Column:
    """An expression on every design of a table: [D]. Errors as for `Expression.evaluate`."""
    if GPU not in columns:
        (base,) = gpus.values()
        return _evaluate(expression, columns, base, method, designs)
    parts = []
    for name, base in gpus.items():
        places = np.flatnonzero(columns[GPU] == name)
        here = {key: column[places] for key, column in columns.items()}
        parts.append((places, _evaluate(expression, here, base, method, len(places))))
    result = np.empty(designs, dtype=np.result_type(*(values.dtype for _, values in parts)))
    for places, values in parts:
        result[places] = values
    return result


def _evaluate(expression: Expression, columns: Mapping[str, Column], base: GpuSpec, method: Method, designs: int) -> Column:
    values = readable(columns, base, method)
    unstated = {name: find_key(name) for name in expression.names - values.keys()}
    # a parameter of a model that the description does not state has its default
    values |= {name: parse_value(key, Text(key.default, name)) for name, key in unstated.items() if key is not None and key.default}
    missing = sorted(expression.names - values.keys())
    if missing:
        what = f'"{expression.text}" reads {missing[0]}, which {base.name} does not have{suggestion(missing[0], values)}'
        raise UsageError(what, place=expression.place, remedy="make it an axis, or derive it earlier")
    result = expression.evaluate(values)
    return result if result.ndim else np.array(np.broadcast_to(result, (designs,)))


def _checked(key: Key, values: Column, expression: Expression) -> Column:
    """Whole where the key is, a word that the key knows, as a column has them."""
    if key.kind == FLAG:
        return np.where(values, "true", "false").astype(object)
    if key.kind == WORD:
        unknown = sorted({str(word) for word in set(values.tolist())} - set(key.choices))
        if unknown:
            what = f'{key.name} evaluates to "{unknown[0]}"{suggestion(unknown[0], key.choices)}'
            raise UsageError(what, place=expression.place, remedy=f"known: {', '.join(key.choices)}")
        return values
    if key.kind in WHOLE or key.kind == DIMENSIONS:
        fractions = np.flatnonzero(values != np.rint(values))
        if fractions.size:
            design = int(fractions[0])
            what = f'"{expression.text}": {key.name} evaluates to {values[design]:.17g} on design {design}, and takes whole numbers'
            raise UsageError(what, place=expression.place, remedy="round the result: round(...), floor(...) or ceil(...)")
    return values


def _out_of_bounds(key: Key, values: Column) -> list[tuple[NDArray[np.bool_], str]]:
    """Which values are below and above the bounds of the key, each with the reason."""
    if in_column(key) != NUMBER and key.kind not in TEXTS:
        return []
    # of an argument the kernel's own type is the bound
    least, most = (-key.most, key.most) if key.kind == ARGUMENT else (key.least, key.most)

    def shown(bound: float) -> str:
        return f"{bound:,.0f}" if key.name in LAUNCH or key.kind in TEXTS else format_quantity(bound, key.kind)

    sides = ((values < least, f"and must be at least {shown(least)}"), (values > most, f"and must be at most {shown(most)}"))
    return [(broken, reason) for broken, reason in sides if broken.any()]


def _texts(key: Key, values: Column) -> Column:
    """Numbers of a grid, block or argument as the command line has them."""
    whole = {value: str(int(value)) if value == np.floor(value) else repr(value) for value in set(values.tolist())}
    return np.array([whole[value] for value in values.tolist()], dtype=object)


def _content(key: Key, value: Any) -> Content:
    if key.kind == FLAG:
        return bool(value == "true")
    if key.kind in (WORD, *TEXTS):
        return str(value)
    return int(value) if key.kind in WHOLE else float(value)


# -- Designs by what they share: those that differ in the models' own numbers alone have one interval profile.

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """Designs with the same interval profile of each kernel.

    `overrides` are their GPU keys as `overrides` has them, those of the models alone left out; `launch` and `method` the values of
    such axes, by name without prefix; `gpu` that of the axis, or "". `designs` int64 [D] are their places in the table, in order.
    """

    overrides: tuple[str, ...]
    launch: tuple[tuple[str, str], ...]
    method: tuple[tuple[str, str], ...]
    designs: Longs
    gpu: str = ""

    def on(self, base: GpuSpec, own: Mapping[str, Column], method: Method, overrides: tuple[str, ...] = ()) -> Designs:
        """The group's designs around `base` with `overrides`; `own` are the columns of the keys in which they may differ.

        `method` holds where the axes say nothing of it.
        """
        columns = {key: np.ascontiguousarray(values[self.designs], dtype=np.float64) for key, values in own.items()}
        return Designs(base, replace(method, **dict(self.method)), (*overrides, *self.overrides), columns, len(self.designs))


def groups_of(columns: Mapping[str, npt.NDArray[Any]], designs: Longs, own: Collection[str]) -> list[Group]:
    """The groups of `designs` (places in the columns), in the order of their first design.

    `columns` by key: float64 in base units for numbers, text for words. `own` are the keys in which designs of a group may differ.
    """
    shared = [key for key in columns if key not in own]
    code = np.zeros(len(designs), dtype=np.int64)
    for key in shared:
        values, number = np.unique(columns[key][designs], return_inverse=True)
        code = np.unique(code * len(values) + number.reshape(-1), return_inverse=True)[1].reshape(-1)
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    sorted_by_group = np.argsort(number.reshape(-1), kind="stable")
    bounds = np.cumsum(np.bincount(number.reshape(-1), minlength=len(first)))[:-1]
    members = np.split(designs[sorted_by_group], bounds) if len(first) else []
    return [_group(columns, shared, members[place]) for place in np.argsort(first, kind="stable")]


def _group(columns: Mapping[str, npt.NDArray[Any]], shared: Sequence[str], members: Longs) -> Group:
    row = {key: columns[key][members[0]] for key in shared}
    overrides = tuple(f"{key}={key_text(key, value)}" for key, value in row.items() if find_key(key))

    def without(prefix: str) -> tuple[tuple[str, str], ...]:
        return tuple((key.removeprefix(prefix), str(value)) for key, value in row.items() if key.startswith(prefix))

    return Group(overrides, without("launch."), without("method."), members, str(row.get(GPU, "")))


def key_text(key: str, value: Any) -> str:
    """A value of the table as an override has it, without loss."""
    if not key_of(key).numeric:
        return str(value)
    number = float(value)
    return value_text(key, int(number) if number.is_integer() else number)
