"""One test of a PTX instruction suite: a kernel, its inputs, and the expected contents of its output buffer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import warpsight
from warpsight.base.errors import CompileError, FormatError, LaunchFault, UnsupportedError, WarpsightError

Array = NDArray[np.generic]
Same = Callable[[Array, Array], NDArray[np.bool_]]
# ptxas assembles PTX ISA 3.1 and later; the instructions of older versions are the same in it.
OLD_VERSION, OLDEST_VERSION = re.compile(r"\.version (?:[12]\.\d|3\.0)"), ".version 3.1"
PASSED, FAILED, REFUSED = "passed", "failed", "refused"


@dataclass(frozen=True)
class Case:
    """`arguments` holds the inputs and, at `output`, the zeroed output, which may be longer than `expected`.

    `same` compares element by element, what was found first. A test that is run with several inputs is several cases of one name.
    """

    name: str
    ptx: str
    kernel: str
    arguments: tuple[Array, ...]
    output: int
    expected: Array
    same: Same
    block: int = 1
    grid: int = 1
    shared: int = 0


@dataclass
class Outcome:
    """What became of one test: `kind` is passed, failed or refused, `why` says what differed or what was refused."""

    name: str
    kind: str
    why: str = ""


def run_case(case: Case, gpu: str | None = None) -> Outcome:
    """Run the case through the public interface, as machine code of `gpu` or as PTX, and compare what it wrote."""
    arguments = [array.copy() for array in case.arguments]
    ptx = case.ptx if gpu is None else OLD_VERSION.sub(OLDEST_VERSION, case.ptx)
    try:
        warpsight.trace(
            ptx, kernel=case.kernel, grid=case.grid, block=case.block, args=arguments, shared=case.shared or None, gpu=gpu
        )
    except (UnsupportedError, CompileError, FormatError) as error:
        return Outcome(case.name, REFUSED, _first_line(error))
    except LaunchFault as error:
        return Outcome(case.name, FAILED, _first_line(error))
    except WarpsightError as error:
        return Outcome(case.name, REFUSED, _first_line(error))
    found = arguments[case.output][: len(case.expected)]
    wrong = np.flatnonzero(~np.atleast_1d(case.same(found, case.expected)))
    if not len(wrong):
        return Outcome(case.name, PASSED)
    at = int(wrong[0])
    why = f"element {at} of {len(found)}: found {_text(found[at])}, expected {_text(case.expected[at])}"
    return Outcome(case.name, FAILED, why)


def _first_line(error: Exception) -> str:
    """The first line, and of the assembler's refusal its own words."""
    first, *rest = str(error).strip().splitlines()
    return f"{first} {rest[0].partition(': ')[2].strip()}" if "refuses it:" in first and rest else first


def _text(value: np.generic) -> str:
    """The value and its bits."""
    return f"{value} (0x{value.tobytes()[::-1].hex()})"
