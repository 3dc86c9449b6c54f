"""A study: kernels on designs around a base GPU, by models and, on some designs, by the simulator.

Its parts, the designs that its axes and sampling define, and the checks that the parts fit together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError, suggestion
from warpsight.gpu.default import STUDY_GPU
from warpsight.pipeline.request import DEFAULT_METHOD, DEFAULT_MODEL, KernelRequest, Method
from warpsight.pipeline.sampling import DEFAULT_ACCURACY, check_accuracy
from warpsight.sweeps.expressions import Expression
from warpsight.sweeps.names import ARGUMENT, GPU, LAUNCH, NUMBER, TRUTH, WHOLE, in_column, sort_of_key, study_key

GRID, RANDOM, LATIN_HYPERCUBE = "grid", "random", "latin-hypercube"


@dataclass(frozen=True)
class Axis:
    """Values of one key, in the order given, in base units (a word's or flag's as themselves).

    `key` is one of the GPU description's (`noc.bandwidth`), of the launch (`launch.block`, `launch.grid`, `launch.shared`,
    `launch.registers`, `launch.arg.NAME_OR_NUMBER`, the first argument being 1), of the method (`method.caches`,
    `method.interleaving`, `method.representative`), or `gpu`: the GPUs that the designs are changes of. Grid, block and arguments
    are texts as the command line has them, grid and block always written `32x8`. `continuous`: the first and last of `values` bound
    a range that random and Latin hypercube samples fill; a grid has no such axes.
    """

    key: str
    values: tuple[float | int | str | bool, ...]
    continuous: bool = False


@dataclass(frozen=True)
class Sampling:
    """How designs are drawn from the axes: every combination, or `designs` of them by `seed`."""

    kind: str = GRID
    designs: int = 0
    seed: int = 0


@dataclass(frozen=True)
class SimulatorRuns:
    """The designs that the simulator also runs: `designs` of them drawn by `seed` (0: all) among those where `where` holds."""

    designs: int = 0
    seed: int = 0
    where: Expression | None = None
    max_cycles: int | None = None


@dataclass(frozen=True)
class StudyKernel:
    """One kernel of a study. `name` identifies it in rows; `request` is the input of the pipeline."""

    name: str
    request: KernelRequest


@dataclass(frozen=True)
class Study:
    """`overrides` are `key=value` texts that hold on every design, as `overrides` has them. `derived` keys are computed in order
    from the axes, other keys of the base GPU and each other; a design is kept where every one of `constraints` holds.

    Long launches are predicted from sampled waves, with a 95 % confidence interval within `accuracy` of the cycles (None: every
    block runs).
    `gpu` is the base GPU unless `gpu` is an axis. A study file that names none has the papers' machine, whoever runs it.
    """

    name: str
    kernels: tuple[StudyKernel, ...]
    gpu: str = STUDY_GPU
    overrides: tuple[str, ...] = ()
    axes: tuple[Axis, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    derived: tuple[tuple[str, Expression], ...] = ()
    constraints: tuple[Expression, ...] = ()
    models: tuple[str, ...] = (DEFAULT_MODEL,)
    method: Method = DEFAULT_METHOD
    simulator: SimulatorRuns | None = None
    accuracy: float | None = DEFAULT_ACCURACY

    @property
    def samples(self) -> float | None:
        """The `accuracy` with which long launches are predicted from sampled waves; None where every block runs, as the simulator
        needs.
        """
        return None if self.simulator is not None else self.accuracy

    @property
    def gpus(self) -> tuple[str, ...]:
        """The base GPUs: the values of the axis `gpu`, or the one of the study."""
        return next((tuple(map(str, axis.values)) for axis in self.axes if axis.key == GPU), (self.gpu,))


# -- Designs drawn from axes: every combination, a random sample, or a Latin hypercube. All in arrays, never design by design.

MOST_DESIGNS = 10**8
_LARGEST_CODE = 2**62
_ROUNDS = 40

Codes = NDArray[np.int64]


def draw(axes: Sequence[Axis], sampling: Sampling) -> tuple[int, dict[str, NDArray[Any]]]:
    """How many designs, and the column [D] of each axis: float64 in base units, or texts as objects (flags `true`, `false`).

    A grid has every combination, the last axis varies fastest. A random sample takes each value of an axis with the same
    probability, and any number of a continuous range. A Latin hypercube cuts each continuous range into as many strata as there are
    designs and takes one number of each; the values of a discrete axis come equally often, give or take one. Whole-numbered keys
    have whole numbers, also in continuous ranges.

    No two designs are the same. In a Latin hypercube of discrete axes alone, designs that came twice trade values with others,
    which keeps every axis's count; what is left after that is drawn anew from the combinations not yet taken, and counts may then
    differ by a few. The axes must have as many combinations as designs are requested; `check_study` refuses a study where they have
    fewer, since a grid has them all.
    """
    if sampling.kind == GRID:
        return _grid(axes)
    generator = np.random.default_rng(sampling.seed)
    latin = sampling.kind == LATIN_HYPERCUBE
    discrete = [axis for axis in axes if not _is_float_range(axis)]
    sizes = [_size(axis) for axis in discrete]
    codes = iter(_codes(sizes, sampling.designs, latin, len(discrete) == len(axes), generator))

    def column(axis: Axis) -> NDArray[Any]:
        if _is_float_range(axis):
            return _float_range(axis, sampling.designs, latin, generator)
        chosen = next(codes)
        return chosen.astype(np.float64) + float(axis.values[0]) if axis.continuous else value_array(axis)[chosen]

    return sampling.designs, {axis.key: column(axis) for axis in axes}


def combinations(axes: Sequence[Axis]) -> int | None:
    """How many designs the axes have in all, None where a frequency or bandwidth is continuous."""
    return None if any(_is_float_range(axis) for axis in axes) else math.prod(_size(axis) for axis in axes)


def value_array(axis: Axis) -> NDArray[Any]:
    """The values of an axis as a column has them."""
    if in_column(study_key(axis.key, axis.key)) == NUMBER:
        return np.array(axis.values, dtype=np.float64)
    texts = [("true" if value else "false") if isinstance(value, bool) else str(value) for value in axis.values]
    return np.array(texts, dtype=object)


def _grid(axes: Sequence[Axis]) -> tuple[int, dict[str, NDArray[Any]]]:
    count = inner = math.prod(len(axis.values) for axis in axes)
    columns = {}
    for axis in axes:
        inner //= len(axis.values)
        columns[axis.key] = np.tile(np.repeat(value_array(axis), inner), count // (inner * len(axis.values)))
    return count, columns


def _is_float_range(axis: Axis) -> bool:
    return axis.continuous and study_key(axis.key, axis.key).kind not in WHOLE


def _size(axis: Axis) -> int:
    """How many values an axis has, all whole numbers of a range counted."""
    return int(axis.values[1]) - int(axis.values[0]) + 1 if axis.continuous else len(axis.values)


def _float_range(axis: Axis, designs: int, latin: bool, generator: np.random.Generator) -> NDArray[np.float64]:
    least, most = float(axis.values[0]), float(axis.values[1])
    share = generator.random(designs)
    if latin:
        share += generator.permutation(designs)
        share /= designs
    return np.clip(least + share * (most - least), least, most)


def _codes(sizes: Sequence[int], designs: int, latin: bool, apart: bool, generator: np.random.Generator) -> list[Codes]:
    """For each axis of so many values, which of them each design has. `apart`: no two designs alike."""
    if not apart:
        return [_one_axis(size, designs, latin, generator) for size in sizes]
    total = math.prod(sizes)
    if designs == total or (not latin and designs > total // 2):
        # most combinations: the first of all of them, shuffled
        return _digits(generator.permutation(total)[:designs], sizes)
    codes = [_one_axis(size, designs, latin, generator) for size in sizes]
    if latin:
        _trade(codes, sizes, generator)
    return _replace_duplicates(codes, sizes, generator)


def _one_axis(size: int, designs: int, latin: bool, generator: np.random.Generator) -> Codes:
    if not latin:
        return generator.integers(size, size=designs, dtype=np.int64)
    if designs < size:
        # one value of each of as many strata of whole values
        strata = np.arange(designs + 1)
        exact = designs * size < _LARGEST_CODE
        edges = strata * size // designs if exact else np.floor(strata * (size / designs)).astype(np.int64)
        edges[-1] = size
        codes = generator.integers(edges[:-1], edges[1:], dtype=np.int64)
    else:
        extra = generator.choice(size, designs % size, replace=False)
        codes = np.concatenate([np.tile(np.arange(size, dtype=np.int64), designs // size), extra.astype(np.int64)])
    return generator.permutation(codes)


def _digits(chosen: Codes, sizes: Sequence[int]) -> list[Codes]:
    """Combinations, counted with the last axis fastest, as a code for each axis."""
    codes = []
    for size in reversed(sizes):
        codes.append(chosen % size)
        chosen = chosen // size
    return codes[::-1]


def _labels(codes: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    """A number for each design, equal where all codes are."""
    label, room = codes[0], sizes[0]
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        if room * size > _LARGEST_CODE:
            known, label = np.unique(label, return_inverse=True)
            room = known.size
        label, room = label * size + column, room * size
    return label


def _repeats(codes: Sequence[Codes], sizes: Sequence[int]) -> NDArray[np.intp]:
    """Designs that are as an earlier one."""
    labels = _labels(codes, sizes)
    designs = labels.size
    if int(labels.max()) < _LARGEST_CODE // designs:
        # one sort of numbers that hold both, many times as fast as sorting positions
        both = np.sort(labels * designs + np.arange(designs))
        ordered, order = np.divmod(both, designs)
    else:
        order = np.argsort(labels, kind="stable")
        ordered = labels[order]
    return np.sort(order[1:][ordered[1:] == ordered[:-1]])


def _trade(codes: list[Codes], sizes: Sequence[int], generator: np.random.Generator) -> None:
    """Designs that come twice trade their value of one axis with another design's, in place."""
    for turn in range(_ROUNDS):
        repeats = _repeats(codes, sizes)
        if not repeats.size:
            return
        column = codes[turn % len(sizes)]
        others = generator.integers(column.size, size=repeats.size)
        for one, other in zip(repeats.tolist(), others.tolist(), strict=True):
            column[one], column[other] = column[other], column[one]


def _replace_duplicates(codes: list[Codes], sizes: Sequence[int], generator: np.random.Generator) -> list[Codes]:
    """Draws designs that come twice anew until none does. At least one combination is free for each."""
    for _ in range(_ROUNDS):
        repeats = _repeats(codes, sizes)
        if not repeats.size:
            return codes
        for column, size in zip(codes, sizes, strict=True):
            column[repeats] = generator.integers(size, size=repeats.size)
    # the axes are nearly full, so that their combinations can be counted through
    free = np.setdiff1d(np.arange(math.prod(sizes)), _labels(codes, sizes))
    repeats = _repeats(codes, sizes)
    drawn = generator.choice(free, repeats.size, replace=False)
    for column, digits in zip(codes, _digits(drawn, sizes), strict=True):
        column[repeats] = digits
    return codes


# -- Whether the parts of a study fit together. Each part by itself was checked where it was read.

KINDS = (GRID, RANDOM, LATIN_HYPERCUBE)
NOWHERE: Mapping[str, str] = MappingProxyType({})


def check_study(study: Study, places: Mapping[str, str] = NOWHERE) -> None:
    """Refuses a study whose parts contradict each other. `places` says where keys were given, as `axes.sm_count` or `kernels.2`.

    Raises UsageError: no kernels or two of one name, no models, a key that is twice an axis, overridden or derived, a continuous
    axis in a grid, no number of designs for a sample or too many, an expression of the wrong kind, one that reads what is derived
    later or what only launches have, launch axes for a trace, a derived GPU.
    """
    _check_kernels(study.kernels, places)
    _once(study.models, "models", "model", places)
    if not study.models and study.simulator is None:
        raise UsageError("there are no models to run", place=places.get("models", "models"), remedy="write models: [mdm]")
    if study.accuracy is not None:
        check_accuracy(study.accuracy, places.get("accuracy", "accuracy"))
    _check_keys(study, places)
    _check_sampling(study, places)
    _check_expressions(study)
    varied = [*(axis.key for axis in study.axes), *(key for key, _ in study.derived)]
    launched = [key for key in varied if key.startswith("launch.")]
    traces = [kernel.name for kernel in study.kernels if kernel.request.is_trace]
    if launched and traces:
        what = f"{launched[0]} varies the launch, and {traces[0]} is a trace folder, whose launch cannot change"
        place = places.get(f"axes.{launched[0]}", places.get(f"derived.{launched[0]}", launched[0]))
        raise UsageError(what, place=place, remedy="give the kernel itself, or leave the axis out")


def _check_kernels(kernels: tuple[StudyKernel, ...], places: Mapping[str, str]) -> None:
    if not kernels:
        remedy = "write kernels: [saxpy.yaml], or suite: warpsight"
        raise UsageError("there are no kernels", place=places.get("kernels", "kernels"), remedy=remedy)
    first: dict[str, int] = {}
    for index, kernel in enumerate(kernels):
        place = places.get(f"kernels.{index}", "kernels")
        if not kernel.name.strip() or not kernel.name.isprintable():
            remedy = "give it a plain name: {path: ..., name: ...}, or NAME=KERNEL on the command line"
            raise UsageError(f"the kernel {_path(kernel)} has no name that can be printed", place=place, remedy=remedy)
        if kernel.name in first:
            what = f'two kernels are called "{kernel.name}": {_path(kernels[first[kernel.name]])} and {_path(kernel)}'
            remedy = "give one of them a name of its own: {path: ..., name: ...}, or NAME=KERNEL on the command line"
            raise UsageError(what, place=place, remedy=remedy)
        first[kernel.name] = index


def _path(kernel: StudyKernel) -> str:
    text = str(kernel.request.path)
    return text if "\n" not in text else "a source text"


def _once(values: Iterable[str], where: str, what: str, places: Mapping[str, str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            place = places.get(f"{where}.{value}", places.get(where, where))
            raise UsageError(f'the {what} "{value}" is given twice', place=place, remedy="remove one of the two")
        seen.add(value)


def _check_keys(study: Study, places: Mapping[str, str]) -> None:
    """A key has one origin."""
    keys = [(override.partition("=")[0].strip(), "set") for override in study.overrides]
    keys += [(axis.key, "axes") for axis in study.axes] + [(key, "derived") for key, _ in study.derived]
    words = {"set": "set", "axes": "an axis", "derived": "derived"}
    origin: dict[str, str] = {}
    for key, where in keys:
        place = places.get(f"{where}.{key}", f"{where}: {key}")
        if where == "derived" and key == GPU:
            remedy = "make it an axis: axes: {gpu: [a100, l4]}"
            raise UsageError("the GPU of a design cannot be derived", place=place, remedy=remedy)
        if where == "set" and (key.startswith(("launch.", "method.")) or key == GPU):
            remedy = f"make it an axis of one value: axes: {{{key}: ...}}"
            raise UsageError(f"{key} is not a key of the GPU", place=place, remedy=remedy)
        study_key(key, place)
        if key in origin:
            again = "twice" if origin[key] == where else f"and also {words[where]}"
            what = f"{key} is {words[origin[key]]} {again}"
            raise UsageError(what, place=place, remedy="remove one of the two")
        origin[key] = where


def _check_sampling(study: Study, places: Mapping[str, str]) -> None:
    sampling, place = study.sampling, places.get("sampling", "sampling")
    if sampling.kind not in KINDS:
        what = f'"{sampling.kind}" is not known{suggestion(sampling.kind, KINDS)}'
        raise UsageError(what, place=place, remedy=f"known: {', '.join(KINDS)}")
    remedy = f"use {RANDOM} or {LATIN_HYPERCUBE} with designs: 1000, or list the values"
    if sampling.kind == GRID:
        for axis in study.axes:
            if axis.continuous:
                what = f"{axis.key} is a continuous range, which a grid cannot have"
                raise UsageError(what, place=places.get(f"axes.{axis.key}", axis.key), remedy=remedy)
        if sampling.designs:
            raise UsageError("a grid has every combination, not a number of designs", place=place, remedy=remedy)
        designs = combinations(study.axes) or 0
    else:
        designs = sampling.designs
        if designs < 1:
            raise UsageError(f"{sampling.kind} needs a number of designs", place=place, remedy="write designs: 1000")
        if not study.axes:
            raise UsageError(f"{sampling.kind} has no axes to draw from", place=place, remedy="write axes: {sm_count: 15:80:5}")
        most = combinations(study.axes)
        if most is not None and most < designs:
            what = f"{designs:,} designs are requested, but the axes have {most:,} combinations"
            raise UsageError(what, place=place, remedy="use a grid, which has all of them, or fewer designs")
    if designs > MOST_DESIGNS:
        what = f"these are {designs:,} designs"
        raise UsageError(what, place=place, remedy=f"keep to {MOST_DESIGNS:,}: fewer values on an axis, or a sample")


def _check_expressions(study: Study) -> None:
    available = {axis.key for axis in study.axes}
    derived = [key for key, _ in study.derived]
    for key, expression in study.derived:
        sort = sort_of_key(study_key(key, expression.place))
        if expression.sort != sort:
            what = f'{key} is a {_kind(sort)}, but "{expression.text}" evaluates to a {_kind(expression.sort)}'
            raise UsageError(what, place=expression.place, remedy=f"write an expression that gives a {_kind(sort)}")
        _check_reads(expression, available, derived)
        available.add(key)
    where = study.simulator.where if study.simulator is not None else None
    for condition in (*study.constraints, *([] if where is None else [where])):
        if condition.sort != TRUTH:
            what = f'"{condition.text}" evaluates to a {_kind(condition.sort)}, not to true or false'
            raise UsageError(what, place=condition.place, remedy="compare it: l1.mshrs >= sm.max_warps")
        _check_reads(condition, available, derived)


def _kind(sort: str) -> str:
    return {TRUTH: "condition", NUMBER: "number"}.get(sort, "word")


def _check_reads(expression: Expression, available: set[str], derived: list[str]) -> None:
    for name in sorted(expression.names - available):
        if name in derived:
            what = f'"{expression.text}" reads {name}, which is derived later or depends on itself'
            raise UsageError(what, place=expression.place, remedy="derive the keys that it reads first")
        if name in LAUNCH or study_key(name, expression.place).kind == ARGUMENT:
            what = f'"{expression.text}" reads {name}, which is not an axis: it differs between kernels'
            raise UsageError(what, place=expression.place, remedy=f"make {name} an axis")
