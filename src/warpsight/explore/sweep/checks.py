"""Whether the parts of a study fit together. Each part by itself was checked where it was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from warpsight.base.errors import UsageError, suggestion
from warpsight.explore.sweep.drawing import MOST_DESIGNS, combinations
from warpsight.explore.sweep.expressions import Expression
from warpsight.explore.sweep.names import ARGUMENT, LAUNCH, NUMBER, TRUTH, sort_of_key, study_key
from warpsight.explore.sweep.study import GRID, LATIN_HYPERCUBE, RANDOM, Study, StudyKernel

KINDS = (GRID, RANDOM, LATIN_HYPERCUBE)
NOWHERE: Mapping[str, str] = MappingProxyType({})


def check_study(study: Study, places: Mapping[str, str] = NOWHERE) -> None:
    """Refuses a study whose parts contradict each other. `places` says where keys were given, as `axes.sm_count` or `kernels.2`.

    Raises UsageError: no kernels or two of one name, no models, a key that is twice an axis, overridden or derived, a continuous
    axis in a grid, no number of designs for a sample or too many, an expression of the wrong kind, one that reads what is derived
    later or what only launches have, launch axes for a trace.
    """
    _check_kernels(study.kernels, places)
    _once(study.models, "models", "model", places)
    if not study.models and study.referee is None:
        raise UsageError("there are no models to run", place=places.get("models", "models"), remedy="write models: [mdm]")
    _check_keys(study, places)
    _check_sampling(study, places)
    _check_expressions(study)
    launched = [axis.key for axis in study.axes if axis.key.startswith("launch.")]
    launched += [key for key, _ in study.derived if key.startswith("launch.")]
    traces = [kernel.name for kernel in study.kernels if kernel.request.is_trace]
    if launched and traces:
        what = f"{launched[0]} varies the launch, and {traces[0]} is a trace folder whose launch is already done"
        place = places.get(f"axes.{launched[0]}", places.get(f"derived.{launched[0]}", launched[0]))
        raise UsageError(what, place=place, remedy="give the kernel itself, or leave the axis out")


def _check_kernels(kernels: tuple[StudyKernel, ...], places: Mapping[str, str]) -> None:
    if not kernels:
        remedy = "write kernels: [saxpy.yaml], or suite: warpsight"
        raise UsageError("there are no kernels", place=places.get("kernels", "kernels"), remedy=remedy)
    first: dict[str, int] = {}
    for index, kernel in enumerate(kernels):
        if not kernel.name.strip() or not kernel.name.isprintable():
            remedy = "give it a plain name: {path: ..., name: ...}, or NAME=KERNEL on the command line"
            place = places.get(f"kernels.{index}", "kernels")
            raise UsageError(f"the kernel {_path(kernel)} has no name that can be printed", place=place, remedy=remedy)
        if kernel.name in first:
            what = f'two kernels are called "{kernel.name}": {_path(kernels[first[kernel.name]])} and {_path(kernel)}'
            remedy = "give one of them a name of its own: {path: ..., name: ...}, or NAME=KERNEL on the command line"
            raise UsageError(what, place=places.get(f"kernels.{index}", "kernels"), remedy=remedy)
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
    given = [(override.partition("=")[0].strip(), "set") for override in study.overrides]
    given += [(axis.key, "axes") for axis in study.axes] + [(key, "derived") for key, _ in study.derived]
    words = {"set": "set", "axes": "an axis", "derived": "derived"}
    origin: dict[str, str] = {}
    for key, where in given:
        place = places.get(f"{where}.{key}", f"{where}: {key}")
        if where == "set" and key.startswith(("launch.", "method.")):
            remedy = f"make it an axis of one value: axes: {{{key}: ...}}"
            raise UsageError(f"{key} is no key of the GPU", place=place, remedy=remedy)
        study_key(key, place)
        if key in origin:
            again = "twice" if origin[key] == where else f"and also {words[where]}"
            what = f"{key} is {words[origin[key]]} {again}; which one is meant?"
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
                what = f"{axis.key} is a continuous range, and a grid has none"
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
            what = f"{designs:,} designs are asked for, and the axes have {most:,} combinations"
            raise UsageError(what, place=place, remedy="ask for a grid, which has them all, or for fewer designs")
    if designs > MOST_DESIGNS:
        what = f"these are {designs:,} designs"
        raise UsageError(what, place=place, remedy=f"keep to {MOST_DESIGNS:,}: fewer values on an axis, or a sample")


def _check_expressions(study: Study) -> None:
    available = {axis.key for axis in study.axes}
    derived = [key for key, _ in study.derived]
    for key, expression in study.derived:
        wanted = sort_of_key(study_key(key, expression.place))
        if expression.sort != wanted:
            what = f'{key} is a {_kind(wanted)}, and "{expression.text}" comes out as a {_kind(expression.sort)}'
            raise UsageError(what, place=expression.place, remedy=f"write an expression that gives a {_kind(wanted)}")
        _check_reads(expression, available, derived)
        available.add(key)
    conditions = [*study.constraints]
    if study.referee is not None and study.referee.where is not None:
        conditions.append(study.referee.where)
    for condition in conditions:
        if condition.sort != TRUTH:
            what = f'"{condition.text}" comes out as a {_kind(condition.sort)}, not as true or false'
            raise UsageError(what, place=condition.place, remedy="compare it: l1.mshrs >= sm.max_warps")
        _check_reads(condition, available, derived)


def _kind(sort: str) -> str:
    return {TRUTH: "condition", NUMBER: "number"}.get(sort, "word")


def _check_reads(expression: Expression, available: set[str], derived: list[str]) -> None:
    for name in sorted(expression.names - available):
        if name in derived:
            what = f'"{expression.text}" reads {name}, which is derived later, or from itself'
            raise UsageError(what, place=expression.place, remedy="derive what is read first")
        if name in LAUNCH or study_key(name, expression.place).kind == ARGUMENT:
            what = f'"{expression.text}" reads {name}, which is no axis: every kernel has its own'
            raise UsageError(what, place=expression.place, remedy=f"make {name} an axis")
