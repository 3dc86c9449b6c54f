"""Is the outcome the same in other orders of blocks, warps and lanes? A kernel, or a whole program, runs again in each of them.

A GPU promises none of these orders, so that a kernel whose results depend on them is wrong, or adds up floating-point numbers. Such
sums differ in their last bits: they are warnings, where all differences are that small. What depends on an order that was not tried
stays unknown.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LaunchFault, UsageError, WarpsightError
from warpsight.base.findings import ORDER, Finding
from warpsight.base.progress import Watch, stage
from warpsight.base.temporary import TemporaryFolder
from warpsight.emulator.run.launch import execute, prepare_kernel
from warpsight.emulator.run.memory import Memory
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.mangling import display_name
from warpsight.kernels.toolkit import Architecture
from warpsight.pipeline.kernel_input import ReadyLaunch
from warpsight.pipeline.request import DEFAULT_MAX_INSTRUCTIONS
from warpsight.programs.host import run_program
from warpsight.programs.session import Observer

MOST_ORDERS = 1000
# Two sums of the same numbers in different orders: this many units in the last place of the larger one. Rounding errors of
# independent additions grow with the square root of their number, so it is what a few thousand additions leave.
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


# -- A program.

MOST_BYTES = 2 << 30  # of device memory that are looked at after each launch


class _Enough(Exception):
    """What was to be seen of a program has been seen."""


@dataclass
class _Left:
    """What a launch has left: the name, size and hash of each allocation, by address."""

    kernel: str
    digests: dict[int, tuple[str, int, bytes]]


@dataclass
class _Onlooker(Observer):
    """The observer of a program that runs in the order of a seed. It compares what launches leave with `expected`, and stops at the
    first difference, or at launch number `last`; `copies` then holds the allocations that differ, or those at `wanted`.
    """

    order: int = 0
    expected: list[_Left] | None = None
    last: int = 0
    wanted: tuple[int, ...] = ()
    check: frozenset[str] = frozenset()
    left: list[_Left] = field(default_factory=list)
    copies: dict[int, Content] = field(default_factory=dict)
    refusals: dict[int, str] = field(default_factory=dict)  # by number of the launch
    usual_refusals: frozenset[int] = frozenset()
    too_large: int = 0

    def refused(self, number: int, kernel: str, error: WarpsightError) -> None:
        """A launch has failed: it leaves nothing to compare."""
        self.refusals[number] = error.what
        self.left.extend([_Left(kernel, {})] if number else [])
        if self.expected is not None and number and number not in self.usual_refusals:
            raise _Enough

    def inspect(self, number: int, kernel: str, memory: Memory) -> None:
        """Look at what a launch has left."""
        digests = {}
        total = 0
        for allocation, data in memory.contents():
            total += allocation.size
            if total > MOST_BYTES:
                self.too_large = number
                raise _Enough
            digest = hashlib.blake2b(data.data, digest_size=16).digest()
            digests[allocation.address] = allocation.name, allocation.size, digest
        self.left.append(_Left(kernel, digests))
        if number == self.last:
            self.copies = contents_of(memory, self.wanted)
            raise _Enough
        if self.expected is None:
            return
        if number > len(self.expected) or self.expected[number - 1].kernel != kernel:
            raise _Enough
        usual = self.expected[number - 1].digests
        differing = tuple(a for a, seen in digests.items() if a in usual and usual[a] != seen)
        if differing:
            self.last, self.wanted, self.copies = number, differing, contents_of(memory, differing)
            raise _Enough


def compare_program_orders(
    command: Sequence[str], gpu: GpuSpec, orders: int, *, architecture: Architecture | None = None,
    max_instructions: int = DEFAULT_MAX_INSTRUCTIONS,
) -> list[Finding]:
    """Run a program in the usual order and in `orders` others: where a launch first leaves other memory, and whether its output is
    the same.

    The machine code of `architecture` is executed, or PTX. The program must do the same each time that it runs: if it does not do
    so in the usual order either, that is said, and nothing is compared. Raises UsageError as for kernels and as `run_program`.
    """
    check_number(orders)

    def run(observer: _Onlooker) -> bytes | None:
        """Its output; None where it was stopped."""
        with TemporaryFolder() as folder, open(folder / "output", "w+b") as output:
            try:
                run_program(command, gpu, observer, architecture=architecture, max_instructions=max_instructions, stdout=output)
            except _Enough:
                return None
            output.seek(0)
            return output.read()

    usual = _Onlooker()
    text = run(usual)
    if usual.too_large:
        return [_not_compared(f"launch {usual.too_large:,} has more than {MOST_BYTES >> 30} GiB of device memory", "")]
    refused = frozenset(usual.refusals)
    found: list[Finding] = []
    for seed in range(1, orders + 1):
        other = _Onlooker(seed, usual.left, check=frozenset({ORDER}), usual_refusals=refused)
        output = run(other)
        if other.copies:
            again = _Onlooker(last=other.last, wanted=other.wanted)
            run(again)
            found += _launch_findings(other, again, usual)
        elif output is None:
            found.append(_other_launch(other, usual))
        elif output != text and run(_Onlooker()) == text:
            found.append(_output_finding(text or b"", output, seed))
        if found:
            break
    return found


def _launch_findings(other: _Onlooker, again: _Onlooker, usual: _Onlooker) -> list[Finding]:
    """The findings of the launch that first left something else; `again` is the usual order once more, up to there."""
    number, kernel = other.last, other.left[-1].kernel
    if len(again.left) != number or again.left[-1] != usual.left[number - 1]:
        why = f"in the usual order, launch {number:,} leaves something else each time that the program runs"
        return [_not_compared(why, kernel)]
    findings = []
    for address, content in sorted(again.copies.items()):
        difference = first_difference(content, other.copies[address].bytes)
        if difference is not None:
            findings.append(replace(_finding(content, difference, kernel, other.order), launch=number))
    return findings


def _other_launch(other: _Onlooker, usual: _Onlooker) -> Finding:
    """A launch fails only in another order, or the program launches something else."""
    number = len(other.left)
    if number in other.refusals:
        text = f"kernel {other.left[-1].kernel} ends in order {other.order} with: {other.refusals[number]}; in the usual order not"
        return Finding(ORDER, NON_DETERMINISTIC, text, other.left[-1].kernel, remedy=_RACE, launch=number)
    return _not_compared(f"launch {number:,} is not the same each time that the program runs", other.left[-1].kernel)


def _output_finding(usual: bytes, other: bytes, seed: int) -> Finding:
    pairs = zip_longest(usual.splitlines(), other.splitlines(), fillvalue=b"")
    line, (one, two) = next((k, pair) for k, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    shown = [repr(text.decode("utf-8", "replace")[:80]) for text in (one, two)]
    what = f"the program prints {shown[0]} in line {line:,} in the usual order of blocks and warps, {shown[1]} in order {seed}"
    remedy = "lines that a kernel prints may come in any order; if it is a result, look for what it is computed from"
    return Finding(ORDER, NON_DETERMINISTIC, what, severity="warning", remedy=remedy)


def check_number(orders: int) -> None:
    """Raise UsageError unless so many orders can be tried."""
    if not 1 <= orders <= MOST_ORDERS:
        raise UsageError(f"{orders} other orders cannot be tried", place="order", remedy=f"give 1 to {MOST_ORDERS:,}")


def _outcome(ready: ReadyLaunch, seed: int) -> dict[int, Content]:
    """What the launch leaves in device memory, by address, in the order of a seed; 0 is the usual one."""
    checks = frozenset({ORDER}) if seed else frozenset[str]()
    prepared = prepare_kernel(
        ready.source, ready.launch.kernel, architecture=ready.architecture, checks=checks,
        clustered=ready.launch.cluster_blocks > 1,
    )  # fmt: skip
    options = replace(ready.options, check=checks, found=None, order=seed, output=io.StringIO())
    left: dict[int, Content] = {}
    execute(
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
    where = f"element {difference.index:,} ({difference.elements}) of the {content.name}"
    what = f"{where} is {usual} in the usual order of blocks, warps and lanes, and {other} in order {seed}{more}"
    remedy, severity = (_ROUNDING, "warning") if difference.is_rounding else (_RACE, "error")
    size = difference.elements.itemsize
    return Finding(
        ORDER, NON_DETERMINISTIC, f"kernel {kernel}: {what}", kernel, severity=severity,
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


Bytes = npt.NDArray[np.uint8]


def _all_rounding(one: Bytes, other: Bytes, differing: npt.NDArray[Any], kind: np.dtype[Any]) -> bool:
    """Do the elements that differ, taken as `kind`, differ by no more than sums of normal numbers in other orders do?"""
    if kind.kind == "c":
        kind = np.dtype(f"f{kind.itemsize // 2}")
    if kind.kind != "f":
        return False
    index = np.unique(differing // kind.itemsize)
    a, b = one.view(kind)[index], other.view(kind)[index]
    if not (np.isfinite(a) & np.isfinite(b)).all():
        return False
    larger = np.maximum(np.abs(a), np.abs(b))
    if (larger < np.finfo(kind).tiny).any():  # rather small integers
        return False
    with np.errstate(over="ignore"):
        return bool((np.abs(a.astype(np.longdouble) - b) <= ROUNDING_UNITS * np.spacing(larger).astype(np.longdouble)).all())


def _text(value: Any) -> str:
    return f"{value.item()!r}" if value.dtype.kind in "iufc" else str(value)
