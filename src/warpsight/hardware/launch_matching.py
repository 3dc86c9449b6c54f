"""Which launch of a profiler's file is the launch that was traced: by kernel name, grid, block and place in the program."""

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
    """A launch is number `place`, from 0, of the `of` launches of its kernel, grid and block in the program's order."""

    place: int
    of: int


@dataclass(frozen=True)
class Part:
    """One launch to compare, called `shown` ("": by its kernel); `turn` is None where the input is no program's trace."""

    request: KernelRequest
    shown: str = ""
    turn: Turn | None = None


def launches_apart(request: KernelRequest, label: str) -> list[Part]:
    """The launches that a request chooses, of a trace of another tool; else the request alone.

    With a `label`, which is of one launch, several are left together, for the reader to refuse. Raises what reading them raises.
    """
    if not request.is_foreign:
        return [Part(request)]
    program = launches_of(replace(request, kernels=None, launches=None))
    chosen = launches_of(request)
    sizes = {launch.number: (launch.header.name, launch.header.grid, launch.header.block) for launch in program}
    parts = []
    for launch in chosen:
        alike = [number for number, size in sizes.items() if size == sizes[launch.number]]
        one = replace(request, path=str(launch.path), kernels=None, launches=None)
        parts.append(Part(one, f"launch {launch.number}", Turn(alike.index(launch.number), len(alike))))
    if len(parts) > 1:
        return [Part(request)] if label else parts
    return [replace(parts[0], request=request, shown="")]


# -- Which launch of a profiler's file is the launch that was traced: by its kernel's name, its grid and its block.

_CLOSING = {")": "(", ">": "<"}
_CAST = re.compile(r"\((?:unsigned )?(?:int|long|long long|short|char|signed char|bool)\)(?=-?\d)")
_UNNAMED = re.compile(r"(?:\(anonymous namespace\)|<unnamed>)::")
_SHOWN = 6


def bare_name(kernel: str) -> str:
    """A kernel's name without return type, parameters and blanks, and template arguments in one form: `saxpy<float,3>`."""
    text = _UNNAMED.sub("", display_name(kernel.strip())).removeprefix("void ")
    text = re.sub(r"\s*\[clone [^\]]*\]$", "", text)
    text = _CAST.sub("", _without_last(text, ")"))
    return normalised(re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", text)))


def base_name(kernel: str) -> str:
    """The function's name alone, as `ncu --kernel-name-base function` has it: no namespace, no template arguments."""
    text = _without_last(bare_name(kernel), ">")
    return text.rpartition("::")[2]


def match_measured(measurements: Measurements, header: TraceHeader, label: str, turn: Turn | None = None) -> MeasuredLaunch:
    """The launch of the trace with `header`. `label` is a kernel's name, with `#ID` for one of its launches. Raises UsageError.

    Where several launches fit and the program that was traced has as many (`turn`), they are taken in order.
    """
    wanted, _, number = label.rpartition("#") if re.search(r"#[\w]+$", label) else (label, "", "")
    named = _named(measurements.launches, (wanted,) if wanted else (header.kernel, header.mangled))
    shown = wanted or header.kernel
    if not named:
        known = sorted({base_name(launch.kernel) for launch in measurements.launches})
        what = f'no launch of "{shown}" was measured{suggestion(shown, known)}'
        raise UsageError(what, place=measurements.origin, remedy=f"NAME=KERNEL says which is meant; measured: {_listed(known)}")
    if number:
        chosen = [launch for launch in named if launch.number == number]
        if not chosen:
            what = f'"{shown}" has no launch #{number}'
            raise UsageError(what, place=measurements.origin, remedy=f"it has {_numbers(named)}")
        named = chosen
    return _fitting(named, header, shown, measurements.origin, turn)


def _fitting(
    named: Sequence[MeasuredLaunch], header: TraceHeader, shown: str, origin: str, turn: Turn | None
) -> MeasuredLaunch:
    """The one launch of `named` that has the grid and the block of the trace."""
    ours = f"grid {_shown(header.grid)} block {_shown(header.block)}"
    fitting = [launch for launch in named if launch.grid in (None, header.grid) and launch.block in (None, header.block)]
    if not fitting:
        sizes = dict.fromkeys(f"grid {_shown(launch.grid)} block {_shown(launch.block)}" for launch in named)
        what = f"{shown} was measured with {_listed(list(sizes))}"
        remedy = f"{header.kernel} was launched with {ours}; launch it as it was measured"
        raise UsageError(what, place=named[0].place, remedy=remedy)
    if turn is not None and turn.of == len(fitting):
        return fitting[turn.place]
    if len(fitting) > 1:
        what = f"{len(fitting)} launches are {shown} with {ours}: {_numbers(fitting)}"
        remedy = f"say which, as '{base_name(fitting[0].kernel)}#{fitting[0].number}=KERNEL'"
        raise UsageError(what, place=origin, remedy=remedy)
    return fitting[0]


def _named(launches: Sequence[MeasuredLaunch], names: Sequence[str]) -> list[MeasuredLaunch]:
    """The launches of any of `names`: written alike, else alike but for parameters and blanks, else of the same function."""
    exact = [launch for launch in launches if launch.kernel in names]
    if exact:
        return exact
    bare = {bare_name(name) for name in names}
    alike = [launch for launch in launches if bare_name(launch.kernel) in bare]
    if alike:
        return alike
    base = {base_name(name) for name in names}
    near = [launch for launch in launches if base_name(launch.kernel) in base]
    # of two instances of a template one may be meant, and not the other: a name with arguments is only met by one without
    return [launch for launch in near if not (_has_arguments(launch.kernel) and all(map(_has_arguments, names[:1])))]


def _has_arguments(kernel: str) -> bool:
    return bare_name(kernel).endswith(">")


def _without_last(text: str, closing: str) -> str:
    """`text` less the pair of brackets that it ends with, if any, and what they hold."""
    if not text.endswith(closing):
        return text
    depth = 0
    for place in range(len(text) - 1, 0, -1):
        # an arrow or a comparison is no bracket
        if text[place] == closing and text[place - 1] not in "-=":
            depth += 1
        elif text[place] == _CLOSING[closing]:
            depth -= 1
            if depth == 0:
                return text[:place].rstrip()
    return text


def _numbers(launches: Sequence[MeasuredLaunch]) -> str:
    return _listed([f"#{launch.number}" for launch in launches])


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:_SHOWN]) + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")


def _shown(size: tuple[int, ...] | None) -> str:
    return "not said" if size is None else "x".join(map(str, size))
