"""Is the outcome the same in other orders of blocks, warps and lanes? A kernel, or a whole program, runs again in each of them.

A GPU promises none of these orders, so that a kernel whose results depend on them is wrong, or adds up floating-point numbers. Such
sums differ in their last bits: they are warnings, where all differences are that small. What depends on an order that was not tried
stays unknown.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy
import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LaunchFault, UsageError, WarpsightError
from warpsight.base.findings import ORDER, Finding
from warpsight.base.progress import Watch, stage
from warpsight.kernels.mangling import display_name

if TYPE_CHECKING:
    from warpsight.emulator.run.memory import Memory
    from warpsight.pipeline.kernel_input import ReadyLaunch

emulator = lazy.load("warpsight.emulator.run.launch", suppress_warning=True)  # compilers take long to load

MOST_ORDERS = 1000
# Two sums of the same numbers in different orders: this many units in the last place of the larger one. Rounding errors of independent
# additions grow with the square root of their number, so it is what a few thousand additions leave.
ROUNDING_UNITS = 64
NON_DETERMINISTIC, NOT_COMPARED = "non-deterministic", "not-compared"
_RACE = "find what two threads do to the same memory with `--tool racecheck`, and order it by a barrier, or use atomics"
_ROUNDING = "this is how sums of floating-point numbers by atomics behave; sum in a fixed order where each bit matters"


@dataclass(frozen=True)
class Content:
    """One allocation after a launch: its name, device address, bytes, and what its elements are, None if that is not known."""

    name: str
    address: int
    bytes: npt.NDArray[np.uint8]
    elements: np.dtype[Any] | None = None


@dataclass(frozen=True)
class Difference:
    """Where two contents differ first, as an index of elements; both values as text; how many elements differ; is it rounding."""

    index: int
    values: tuple[str, str]
    count: int
    elements: np.dtype[Any]
    is_rounding: bool


def compare_orders(ready: ReadyLaunch, orders: int, *, watch: Watch | None = None) -> list[Finding]:
    """Run a launch in the usual order and in `orders` others: a finding for each array or variable that is not the same in all.

    The caller's arrays stay as they are. Raises UsageError for a number of orders that is out of range, and what running raises,
    but for a fault: then there is nothing to compare, which is a finding too.
    """
    check_number(orders)
    name = display_name(ready.launch.kernel)
    try:
        usual = _outcome(ready, 0)
    except LaunchFault as error:
        return [_not_compared(f"the launch ends with: {error.what}", name)]
    found: dict[int, Finding] = {}
    progress = stage(watch, "running other orders")
    for seed in range(1, orders + 1):
        try:
            other = _outcome(ready, seed)
        except LaunchFault as error:
            text = f"kernel {name} ends in order {seed} with: {error.what}; in the usual order it does not"
            found.setdefault(0, Finding(ORDER, NON_DETERMINISTIC, text, name, remedy=_RACE))
            continue
        for address, content in usual.items():
            difference = first_difference(content, other[address].bytes)
            before = found.get(address)
            if difference is not None and (before is None or (before.severity == "warning" and not difference.is_rounding)):
                found[address] = _finding(content, difference, name, seed)
        if progress is not None:
            progress(seed, orders)
    return [found[address] for address in sorted(found)]


def check_number(orders: int) -> None:
    """Raise UsageError unless so many orders can be tried."""
    if not 1 <= orders <= MOST_ORDERS:
        raise UsageError(f"{orders} other orders cannot be tried", place="order", remedy=f"give 1 to {MOST_ORDERS:,}")


def _outcome(ready: ReadyLaunch, seed: int) -> dict[int, Content]:
    """What the launch leaves in device memory, by address, in the order of a seed; 0 is the usual one."""
    checks = frozenset({ORDER}) if seed else frozenset[str]()
    prepared = emulator.prepare_kernel(ready.source, ready.launch.kernel, architecture=ready.architecture, checks=checks)
    options = replace(ready.options, check=checks, found=None, order=seed, output=io.StringIO())
    left: dict[int, Content] = {}
    emulator.execute(
        prepared, ready.launch, None, max_instructions=ready.max_instructions, options=options,
        inspect=lambda memory: left.update(contents_of(memory)),
    )
    return left


def contents_of(memory: Memory, chosen: Sequence[int] | None = None) -> dict[int, Content]:
    """A copy of device memory, by address: of all that can be written, or of the allocations at `chosen` addresses."""
    types: Mapping[int, np.dtype[Any]] = memory.element_types
    return {
        allocation.address: Content(allocation.name, allocation.address, data.copy(), types.get(allocation.address))
        for allocation, data in memory.contents()
        if chosen is None or allocation.address in chosen
    }


def _finding(content: Content, difference: Difference, kernel: str, seed: int) -> Finding:
    usual, other = difference.values
    more = f"; {difference.count:,} elements differ" if difference.count > 1 else ""
    what = f"element {difference.index:,} ({difference.elements}) of the {content.name} is {usual} in the usual order of blocks, warps"
    remedy, severity = (_ROUNDING, "warning") if difference.is_rounding else (_RACE, "error")
    size = difference.elements.itemsize
    return Finding(
        ORDER, NON_DETERMINISTIC, f"kernel {kernel}: {what} and lanes, and {other} in order {seed}{more}", kernel, severity=severity,
        space="global", bytes=size, address=content.address + size * difference.index, allocation=content.name, distance=0,
        count=difference.count, remedy=remedy,
    )  # fmt: skip


def _not_compared(why: str, kernel: str) -> Finding:
    message = f"other orders were not tried: {why}"
    return Finding(ORDER, NOT_COMPARED, message, kernel, severity="warning", remedy="mend that first")


# -- Two contents of one allocation.


def first_difference(content: Content, other: npt.NDArray[np.uint8]) -> Difference | None:
    """Where the bytes of `content` and `other` differ first; None where they are the same.

    Elements of an unknown type are compared as words of 4 bytes, and taken for floats or doubles where that makes all differences
    rounding.
    """
    differing = np.flatnonzero(content.bytes != other)
    if not len(differing):
        return None
    guesses = [np.dtype(t) for t in ("float32", "float64", "uint32", "uint8")]
    kinds = guesses if content.elements is None else [content.elements]
    kinds = [kind for kind in kinds if len(content.bytes) % kind.itemsize == 0]
    rounding = next((kind for kind in kinds if _all_rounding(content.bytes, other, differing, kind)), None)
    known = content.elements or next(kind for kind in kinds if kind.kind == "u")
    elements = rounding or known
    index = np.unique(differing // elements.itemsize)
    first = int(index[0])
    values = [_text(data.view(elements)[first]) for data in (content.bytes, other)]
    return Difference(first, (values[0], values[1]), len(index), elements, rounding is not None)


def _all_rounding(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8], differing: npt.NDArray[Any], kind: np.dtype[Any]) -> bool:
    """Do the elements that differ, taken as `kind`, differ by no more than sums in other orders do?"""
    if kind.kind == "c":
        kind = np.dtype(f"f{kind.itemsize // 2}")
    if kind.kind != "f":
        return False
    index = np.unique(differing // kind.itemsize)
    a, b = one.view(kind)[index], other.view(kind)[index]
    if not (np.isfinite(a) & np.isfinite(b)).all():
        return False
    larger = np.maximum(np.abs(a), np.abs(b))
    with np.errstate(over="ignore"):
        return bool((np.abs(a.astype(np.longdouble) - b) <= ROUNDING_UNITS * np.spacing(larger).astype(np.longdouble)).all())


def _text(value: Any) -> str:
    return f"{value.item()!r}" if value.dtype.kind in "iufc" else str(value)
