"""The configurations of a kernel that are tried: every combination of its axes, or some of them, and the one that it has today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError
from warpsight.gpu.key import WORD
from warpsight.kernels.arguments import scalar_number
from warpsight.kernels.launch_check import parse_dim3
from warpsight.kernels.values import has_names
from warpsight.pipeline.kernel_input import is_launch_file, launch_spec_of
from warpsight.pipeline.request import KernelRequest
from warpsight.sweeps.axes import axis_of_list, axis_of_text
from warpsight.sweeps.expressions import parse_expression
from warpsight.sweeps.launches import Choice, defines_of
from warpsight.sweeps.names import DIMENSIONS, LAUNCH, NUMBER, TRUTH
from warpsight.sweeps.study import Axis, Sampling, combinations, draw

MOST_COMBINATIONS = 100_000
# Options of the assembler, which a launch does without.
_UNSET = ("maxrregcount", "opt_level", "registers")


@dataclass(frozen=True)
class Budget:
    """At most so many configurations, drawn at random by `seed`."""

    configurations: int
    seed: int = 0


@dataclass(frozen=True)
class Space:
    """`choices` are the configurations to try, the default one first: values of what is varied, by name without `launch.`.

    `names` is what is varied. The axes have so many `combinations`, of which the conditions exclude some and the budget leaves
    some out.
    """

    names: tuple[str, ...]
    choices: tuple[Choice, ...]
    combinations: int
    excluded: int
    left_out: int

    @property
    def default(self) -> Choice:
        """What the launch has where nothing is varied."""
        return self.choices[0]


def shown_name(name: str) -> str:
    """How people call what is varied: `TILE` for `define.TILE`."""
    return name.removeprefix("define.")


def configurations(
    request: KernelRequest, axes: Mapping[str, str | Sequence[Any]], where: Sequence[str] = (), budget: Budget | None = None
) -> Space:
    """The configurations of `request` over `axes`: values by name, as ``block``, ``define.TILE`` or ``maxrregcount``.

    Only those where every expression of `where` holds are tried, which reads the values by name; the default one is always tried.
    Its values are those of the launch; where the launch says nothing, the first of the axis, or for options of the assembler none.
    Raises UsageError for no axes, an unknown one, values that it cannot have, and conditions that leave nothing.
    """
    if not axes:
        remedy = "give several values of something: `block=64,128,256`, `maxrregcount=32,64`, or a macro as `define.TILE=16,32`"
        raise UsageError("there is nothing to vary", place="axes", remedy=remedy)
    if request.is_trace:
        what = "is a trace, whose launch is over and cannot change"
        raise UsageError(what, place=str(request.path), remedy="give the kernel that it was made from")
    parsed = [_axis(name, values) for name, values in axes.items()]
    count = combinations(parsed)
    if count is None or count > MOST_COMBINATIONS:
        what = f"these are {count or 'endlessly many'} combinations"
        raise UsageError(what, place="axes", remedy=f"give fewer values, at most {MOST_COMBINATIONS:,} combinations")
    names = tuple(axes)
    _, columns = draw(parsed, Sampling())
    rows = list(zip(*(columns[axis.key].tolist() for axis in parsed), strict=True))
    choices = [tuple(zip(names, map(_text, row), strict=True)) for row in rows]
    default = _default(request, dict(zip(names, parsed, strict=True)))
    kept = _where(choices, names, where)
    others = [choice for choice in kept if choice != default]
    drawn = _drawn(others, budget)
    return Space(names, (default, *drawn), count, count - len(kept), len(others) - len(drawn))


def _axis(name: str, values: str | Sequence[Any]) -> Axis:
    place = f"axes {shown_name(name)}"
    if name.startswith("arg."):
        what = "another argument is another problem, and not another configuration of this one"
        raise UsageError(what, place=place, remedy="vary it with `warpsight sweep`, or tune each problem by itself")
    if isinstance(values, str):
        return axis_of_text(f"launch.{name}", values, place)
    if not isinstance(values, Sequence):
        raise UsageError(f"a {type(values).__name__} is no list of values", place=place, remedy="write [64, 128, 256]")
    texts = ["x".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value) for value in values]
    return axis_of_list(f"launch.{name}", [(text, place) for text in texts], place)


def _text(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def _default(request: KernelRequest, axes: Mapping[str, Axis]) -> Choice:
    """The configuration of the launch as it is. What it computes, or leaves to the assembler, is not among its values."""
    spec = launch_spec_of(request) if is_launch_file(request.path) else None
    macros = dict(each.partition("=")[::2] for each in defines_of(request))
    chosen = []
    for name, axis in axes.items():
        first = _text(axis.values[0])
        if name.startswith("define."):
            chosen.append((name, macros.get(shown_name(name), first)))
            continue
        stated = getattr(request, name) if getattr(request, name) is not None else getattr(spec, name, None)
        if stated is not None and not _is_expression(stated):
            chosen.append((name, _written(name, stated)))
        elif stated is None and name not in _UNSET:
            chosen.append((name, first))
    return tuple(chosen)


def _is_expression(value: Any) -> bool:
    return any(isinstance(part, str) and has_names(part) for part in ([value] if isinstance(value, str) else np.atleast_1d(value)))


def _written(name: str, value: Any) -> str:
    """A value of the launch as an axis has it: `32x8`."""
    if LAUNCH[f"launch.{name}"].kind != DIMENSIONS:
        return str(value)
    sizes = list(parse_dim3(value, name))
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return "x".join(map(str, sizes))


def _drawn(choices: Sequence[Choice], budget: Budget | None) -> list[Choice]:
    """All of `choices`, or as many as the budget has beside the default, in their order."""
    if budget is None or len(choices) < budget.configurations:
        return list(choices)
    if budget.configurations < 1:
        raise UsageError("a budget of no configurations tries nothing", place="budget", remedy="give 1 or more")
    chosen = np.random.default_rng(budget.seed).choice(len(choices), budget.configurations - 1, replace=False)
    return [choices[place] for place in sorted(chosen.tolist())]


def _where(choices: Sequence[Choice], names: Sequence[str], where: Sequence[str]) -> list[Choice]:
    """Those of `choices` where all conditions hold."""
    columns: dict[str, NDArray[Any]] = {}
    for place, name in enumerate(names):
        texts = [choice[place][1] for choice in choices]
        columns |= _columns(name, texts)
    known = {name.removeprefix("launch."): NUMBER for name in LAUNCH}
    sorts = known | {name: NUMBER if values.dtype.kind == "f" else WORD for name, values in columns.items()}
    keep = np.ones(len(choices), dtype=np.bool_)
    for text in where:
        condition = parse_expression(text, f"where {text}", sorts)
        unknown = sorted(condition.names - columns.keys())
        if unknown or condition.sort != TRUTH:
            what = f'"{text}" reads {unknown[0]}, which is not varied' if unknown else f'"{text}" is not a condition'
            raise UsageError(what, place="where", remedy=f"compare what is varied: {', '.join(columns)}")
        keep &= np.asarray(condition.evaluate(columns), dtype=np.bool_)
    if not keep.any():
        what = f"the conditions exclude every one of {len(choices):,} configurations"
        raise UsageError(what, place="where", remedy="loosen a condition, or give more values")
    return [choice for choice, kept in zip(choices, keep.tolist(), strict=True) if kept]


def _columns(name: str, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """What conditions may read of an axis: its numbers, of dimensions also each, or its words."""
    called = shown_name(name)
    if (key := LAUNCH.get(f"launch.{name}")) is not None and key.kind == DIMENSIONS:
        sizes = np.array([parse_dim3(text, name) for text in texts], dtype=np.float64)
        parts = {f"{called}.{letter}": sizes[:, place] for place, letter in enumerate("xyz")}
        return {called: sizes.prod(axis=1), **parts}
    numbers = [scalar_number(text) for text in texts]
    if all(number is not None for number in numbers):
        return {called: np.array(numbers, dtype=np.float64)}
    return {called: np.array(texts, dtype=object)}
