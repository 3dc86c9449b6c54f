"""The launch in a profiler's file that matches a traced launch: by kernel name, grid, block and order in the program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from warpsight.base.errors import UsageError, suggestion
from warpsight.hardware.measurements.launch import MeasuredLaunch, Measurements
from warpsight.kernels.mangling import display_name, normalised
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import launches_of
from warpsight.traces.schema import TraceHeader


@dataclass(frozen=True)
class Turn:
    """The launch has `index`, from 0, among the `of` launches with its kernel, grid and block, in program order."""

    index: int
    of: int


@dataclass(frozen=True)
class Part:
    """One launch to compare, called `shown` ("": by its kernel); `turn` is None unless the input is a program's trace."""

    request: KernelRequest
    shown: str = ""
    turn: Turn | None = None


def launches_apart(request: KernelRequest, label: str) -> list[Part]:
    """The launches that a request selects from a trace of another tool; else only the request.

    With a `label`, which names one launch, several launches stay together, and reading them raises an error.
    """
    if not request.is_foreign:
        return [Part(request)]
    program = launches_of(replace(request, kernels=None, launches=None))
    sizes = {launch.number: (launch.header.name, launch.header.grid, launch.header.block) for launch in program}
    parts = []
    for launch in launches_of(request):
        alike = [number for number, size in sizes.items() if size == sizes[launch.number]]
        one = replace(request, path=str(launch.path), kernels=None, launches=None)
        parts.append(Part(one, f"launch {launch.number}", Turn(alike.index(launch.number), len(alike))))
    if len(parts) > 1:
        return [Part(request)] if label else parts
    return [replace(parts[0], request=request, shown="")]


_CLOSING = {")": "(", ">": "<"}
_CAST = re.compile(r"\((?:unsigned )?(?:int|long|long long|short|char|signed char|bool)\)(?=-?\d)")
_UNNAMED = re.compile(r"(?:\(anonymous namespace\)|<unnamed>)::")
_SHOWN = 6


def bare_name(kernel: str) -> str:
    """A kernel's name without return type, parameters and spaces, with normalized template arguments: `saxpy<float,3>`."""
    text = _UNNAMED.sub("", display_name(kernel.strip())).removeprefix("void ")
    text = re.sub(r"\s*\[clone [^\]]*\]$", "", text)
    text = _CAST.sub("", _without_last(text, ")"))
    return normalised(re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", text)))


def base_name(kernel: str) -> str:
    """The function's name without namespace and template arguments, as by `ncu --kernel-name-base function`."""
    text = _without_last(bare_name(kernel), ">")
    return text.rpartition("::")[2]


def match_measured(measurements: Measurements, header: TraceHeader, label: str, turn: Turn | None = None) -> MeasuredLaunch:
    """The launch of the trace with `header`. `label` is a kernel's name, with `#ID` for one of its launches. Raises UsageError.

    If several launches match and the traced program has as many (`turn`), they are matched in order.
    """
    kernel, _, number = label.rpartition("#") if re.search(r"#[\w]+$", label) else (label, "", "")
    named = _named(measurements.launches, (kernel,) if kernel else (header.kernel, header.mangled))
    shown = kernel or header.kernel
    if not named:
        known = sorted({base_name(launch.kernel) for launch in measurements.launches})
        message = f'has no launch of "{shown}"{suggestion(shown, known)}'
        raise UsageError(message, place=measurements.origin, remedy=f"select a kernel with NAME=KERNEL; measured: {_listed(known)}")
    if number:
        chosen = [launch for launch in named if launch.number == number]
        if not chosen:
            message = f'"{shown}" has no launch #{number}'
            raise UsageError(message, place=measurements.origin, remedy=f"it has {_numbers(named)}")
        named = chosen
    return _fitting(named, header, shown, measurements.origin, turn)


def _fitting(named: Sequence[MeasuredLaunch], header: TraceHeader, shown: str, origin: str, turn: Turn | None) -> MeasuredLaunch:
    """The one launch of `named` that has the grid and the block of the trace."""
    ours = f"grid {_shown(header.grid)} block {_shown(header.block)}"
    fitting = [launch for launch in named if launch.grid in (None, header.grid) and launch.block in (None, header.block)]
    if not fitting:
        sizes = dict.fromkeys(f"grid {_shown(launch.grid)} block {_shown(launch.block)}" for launch in named)
        message = f"{shown} was measured with {_listed(list(sizes))}"
        raise UsageError(message, place=named[0].place, remedy=f"{header.kernel} was launched with {ours}; use the measured launch")
    if turn is not None and turn.of == len(fitting):
        return fitting[turn.index]
    if len(fitting) > 1:
        remedy = f"select one, as '{base_name(fitting[0].kernel)}#{fitting[0].number}=KERNEL'"
        raise UsageError(f"{len(fitting)} launches are {shown} with {ours}: {_numbers(fitting)}", place=origin, remedy=remedy)
    return fitting[0]


def _named(launches: Sequence[MeasuredLaunch], names: Sequence[str]) -> list[MeasuredLaunch]:
    """The launches of any of `names`: exact matches, else matches without parameters and spaces, else of the same function."""
    exact = [launch for launch in launches if launch.kernel in names]
    if exact:
        return exact
    bare = {bare_name(name) for name in names}
    alike = [launch for launch in launches if bare_name(launch.kernel) in bare]
    if alike:
        return alike
    base = {base_name(name) for name in names}
    near = [launch for launch in launches if base_name(launch.kernel) in base]
    # different instances of a template never match: a name with arguments only matches one without
    return [launch for launch in near if not (_has_arguments(launch.kernel) and all(map(_has_arguments, names[:1])))]


def _has_arguments(kernel: str) -> bool:
    return bare_name(kernel).endswith(">")


def _without_last(text: str, closing: str) -> str:
    """`text` without a final pair of brackets and its content, if any."""
    if not text.endswith(closing):
        return text
    depth = 0
    for index in range(len(text) - 1, 0, -1):
        # not the end of an arrow or a comparison
        if text[index] == closing and text[index - 1] not in "-=":
            depth += 1
        elif text[index] == _CLOSING[closing]:
            depth -= 1
            if depth == 0:
                return text[:index].rstrip()
    return text


def _numbers(launches: Sequence[MeasuredLaunch]) -> str:
    return _listed([f"#{launch.number}" for launch in launches])


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:_SHOWN]) + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")


def _shown(size: tuple[int, ...] | None) -> str:
    return "unknown" if size is None else "x".join(map(str, size))
