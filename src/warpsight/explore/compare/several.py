"""A program's trace with several launches, each of which is compared by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

from warpsight.explore.request import KernelRequest


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
    from warpsight.explore.imported import launches_of

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
