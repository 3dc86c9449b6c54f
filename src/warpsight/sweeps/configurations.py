"""The configurations of a kernel that are tried: every combination of its axes, or some of them, and the one that it has today."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from os.path import isfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError, suggestion
from warpsight.gpu.key import WORD
from warpsight.kernels.arguments import scalar_number
from warpsight.kernels.launch_check import parse_dim3
from warpsight.kernels.launch_file import LaunchSpec
from warpsight.kernels.sources import source_texts
from warpsight.kernels.triton_kernel import OPTIONS
from warpsight.kernels.values import has_names
from warpsight.pipeline.kernel_input import PythonLaunch, is_launch_file, tuned_configurations, written_launch
from warpsight.pipeline.request import KernelRequest
from warpsight.sweeps.axes import axis_of_list, axis_of_text
from warpsight.sweeps.expressions import parse_expression
from warpsight.sweeps.launches import Choice, defines_of, launched
from warpsight.sweeps.names import DIMENSIONS, LAUNCH, NUMBER, TRUTH
from warpsight.sweeps.study import Axis, Sampling, combinations, draw

MOST_COMBINATIONS = 100_000
# Options of the assembler and of Triton, which a launch does without.
_UNSET = ("maxrregcount", "opt_level", "registers", "cluster", *(f"constant.{name}" for name in OPTIONS))


@dataclass(frozen=True)
class Budget:
    """At most so many configurations, drawn at random by `seed`."""

    configurations: int
    seed: int = 0


@dataclass(frozen=True)
class Space:
    """`choices` are the configurations to try, the default one first: values of what is varied, by name without `launch.`.

    `names` is what is varied. The axes have so many `combinations`, of which the conditions exclude some and the budget leaves
    some out. `listed` are those that `@triton.autotune` lists, in its order.
    """

    names: tuple[str, ...]
    choices: tuple[Choice, ...]
    combinations: int
    excluded: int
    left_out: int
    listed: tuple[Choice, ...] = ()

    @property
    def default(self) -> Choice:
        """What the launch has where nothing is varied."""
        return self.choices[0]

    def number(self, choice: Choice) -> int | None:
        """The number by which `--config` chooses it, counted from 1; None where nothing is listed."""
        return self.listed.index(choice) + 1 if choice in self.listed else None


def shown_name(name: str) -> str:
    """How people call what is varied: `TILE` for `define.TILE` or `constant.TILE`."""
    return name.removeprefix("define.").removeprefix("constant.")


def configurations(
    request: KernelRequest, axes: Mapping[str, str | Sequence[Any]], where: Sequence[str] = (), budget: Budget | None = None
) -> Space:
    """The configurations of `request` over `axes`: values by name, as ``block``, ``define.TILE`` or ``constant.BLOCK``. Without
    axes they are those that `@triton.autotune` lists.

    Only those where every expression of `where` holds are tried, which reads the values by name; the default one is always tried.
    Its values are those of the launch; where the launch says nothing, the first of the axis, or for options of the compilers none.
    Of an autotuned kernel it is the first of the list. Raises UsageError for no axes, an unknown one, values that it cannot have,
    and conditions that leave nothing.
    """
    if request.is_trace:
        what = "is a trace, whose launch is over and cannot change"
        raise UsageError(what, place=str(request.path), remedy="give the kernel that it was made from")
    request.refuse_import_options()
    default, choices = _of_axes(request, axes) if axes else _listed(request)
    names = tuple(dict.fromkeys(name for choice in choices for name, _ in choice))
    kept = _where(choices, names, where)
    others = [choice for choice in kept if choice != default]
    drawn = _drawn(others, budget)
    numbered = () if axes else tuple(choices)
    return Space(names, (default, *drawn), len(choices), len(choices) - len(kept), len(others) - len(drawn), numbered)


def _listed(request: KernelRequest) -> tuple[Choice, list[Choice]]:
    """The configurations of an autotuned kernel of Triton, the first as the default."""
    listed = tuned_configurations(request)
    if not listed:
        remedy = "give several values of something: `block=64,128,256`, `maxrregcount=32,64`, or a macro as `define.TILE=16,32`"
        raise UsageError("there is nothing to vary", place="axes", remedy=remedy)
    choices = [tuple((f"constant.{name}", str(value)) for name, value in each.items()) for each in listed]
    return choices[0], choices


def _of_axes(request: KernelRequest, axes: Mapping[str, str | Sequence[Any]]) -> tuple[Choice, list[Choice]]:
    """The configuration that the launch has, and every combination of the axes."""
    parsed = {name: _axis(name, values) for name, values in axes.items()}
    count = combinations(list(parsed.values()))
    if count is None or count > MOST_COMBINATIONS:
        what = f"these are {'endlessly many' if count is None else f'{count:,}'} combinations"
        raise UsageError(what, place="axes", remedy=f"give fewer values, at most {MOST_COMBINATIONS:,} combinations")
    _, columns = draw(list(parsed.values()), Sampling())
    rows = zip(*(columns[axis.key].tolist() for axis in parsed.values()), strict=True)
    choices = [tuple(zip(parsed, map(_text, row), strict=True)) for row in rows]
    # what no configuration can do is refused before any is compiled
    _refuse_unread(written_launch(launched(request, choices[0])), [name for name in parsed if name.startswith("define.")])
    return _default(request, parsed), choices


def _refuse_unread(launch: LaunchSpec | PythonLaunch, names: Sequence[str]) -> None:
    """Raise UsageError for a macro that neither the source nor the launch has: its configurations would all be the same.

    Of a source that includes headers of others, nobody knows what these read.
    """
    if not isinstance(launch, LaunchSpec) or not names or not isfile(str(launch.source)):
        return
    texts = source_texts(str(launch.source), launch.include_dirs)
    if not texts or any(_OF_OTHERS.search(text) for text in texts):
        return
    stated = (launch.grid, launch.block, launch.shared, launch.args, [each.partition("=")[2] for each in launch.defines])
    words = set(_WORD.findall("\n".join([*texts, *map(str, stated)])))
    macros = {each.partition("=")[0] for each in launch.defines} | set(_UPPER.findall(texts[0]))
    for name in map(shown_name, names):
        if name not in words:
            what = f"{launch.source} does not read the macro {name}{suggestion(name, macros - {name})}"
            raise UsageError(what, place=f"axes {name}", remedy="vary a macro that the source or the launch reads")


_OF_OTHERS = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[^\"\s]", re.MULTILINE)
_WORD, _UPPER = re.compile(r"\w+"), re.compile(r"\b[A-Z][A-Z0-9_]+\b")


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
    """The configuration of the launch as it is. What it computes, or leaves to a compiler, is not among its values."""
    stated = _stated(request)
    chosen = []
    for name, axis in axes.items():
        value = stated.get(name)
        if value is None and name not in _UNSET:
            chosen.append((name, _text(axis.values[0])))
        elif value is not None and not _is_expression(name, value):
            chosen.append((name, _written(name, value)))
    return tuple(chosen)


def _stated(request: KernelRequest) -> dict[str, Any]:
    """What the request and its launch file say, by the names of axes."""
    is_object = not isinstance(request.path, (str, tuple, PathLike))
    written = written_launch(request) if is_object or is_launch_file(request.path) else None
    if isinstance(written, PythonLaunch):
        settings, constants = written.settings, written.constants
    else:
        settings, constants = vars(request if written is None else written), {}
    macros = dict(each.partition("=")[::2] for each in defines_of(request))
    return {**settings, **{f"define.{name}": value for name, value in macros.items()},
            **{f"constant.{name}": value for name, value in constants.items()}}  # fmt: skip


def _is_expression(name: str, value: Any) -> bool:
    parts = value if isinstance(value, (list, tuple)) else [value]
    return f"launch.{name}" in LAUNCH and any(callable(part) or (isinstance(part, str) and has_names(part)) for part in parts)


def _written(name: str, value: Any) -> str:
    """A value of the launch as an axis has it: `32x8`."""
    key = LAUNCH.get(f"launch.{name}")
    if key is None or key.kind != DIMENSIONS:
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
    for name in names:
        columns |= _columns(name, [dict(choice).get(name, "") for choice in choices])
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
