"""Runs a kernel of a suite and compares what it wrote with what its check file computes from the same inputs.

The check file, plain Python, has a function `expected` that takes the kernel's arguments in order, under names of its own, as they
were before the run (arrays as copies, scalars as NumPy scalars), and returns the right contents by these names. Where the order of
what was written is not defined, as with atomics, it also has `comparable(outputs)`, which gives a form that has none.
"""

from __future__ import annotations

import inspect
import runpy
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError, WarpsightError
from warpsight.isa.ptx.program import Variable
from warpsight.kernels.launch import Argument, ArrayArgument, ScalarArgument
from warpsight.kernels.values import shown
from warpsight.pipeline.kernel_input import ReadyLaunch, prepare
from warpsight.pipeline.suites import SuiteKernel
from warpsight.pipeline.tracing import run_ready
from warpsight.traces.schema import KernelTrace

Array = npt.NDArray[Any]
Outputs = dict[str, Array]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Difference:
    """An output that is not as expected: `wrong` of its `elements` differ, the first at `index`: `found` for `expected`."""

    output: str
    elements: int
    wrong: int
    index: int
    found: float
    expected: float

    def __str__(self) -> str:
        """One line."""
        first = f"{self.output}[{self.index}] is {self.found:.9g} and should be {self.expected:.9g}"
        return f"{first}; {self.wrong:,} of {self.elements:,} elements differ"


@dataclass(frozen=True)
class CheckedRun:
    """One run of `kernel`: its trace, how many elements of which outputs were compared, and what is wrong with them."""

    kernel: SuiteKernel
    trace: KernelTrace
    elements: Mapping[str, int]
    differences: tuple[Difference, ...]

    @property
    def right(self) -> bool:
        """Everything is as expected."""
        return not self.differences


def check_kernel(kernel: SuiteKernel) -> CheckedRun:
    """Run `kernel` once and compare its outputs with those of its check file.

    Integers must be equal, floats within `tolerance` times the sum of their size and the output's root mean square; an infinity or
    a NaN equals itself alone. Raises UsageError, with file and line, for a check file that does not do its part, and what a run
    raises.
    """
    ready = prepare(kernel.request())
    return CheckedRun(kernel, *check_run(kernel, ready, lambda: run_ready(ready)))


def check_run(
    kernel: SuiteKernel, ready: ReadyLaunch, run: Callable[[], Result]
) -> tuple[Result, dict[str, int], tuple[Difference, ...]]:
    """Call `run`, which does to the arguments of `ready` what the kernel does; its result, elements and differences as there.

    Raises as `check_kernel`.
    """
    expected, comparable = _functions(kernel)
    names, takes = list(inspect.signature(expected).parameters), len(ready.launch.arguments)
    if len(names) != takes:
        message = f"expected() takes {len(names)} argument(s), the kernel {takes}"
        _refuse(kernel, message, "name each argument of the kernel, in order")
    returned = _call(kernel, expected, *_values(ready))
    result = run()
    after = dict(zip(names, _values(ready), strict=True))
    right = _arrays(kernel, "expected", returned)
    _require_outputs(kernel, right, after)
    written = {name: after[name] for name in right}
    if comparable is not None:
        right, written = (_arrays(kernel, "comparable", _call(kernel, comparable, outputs)) for outputs in (right, written))
        if right.keys() != written.keys():
            _refuse(kernel, "comparable() returned different names for the two results", "return the same names every time")
    differences = [_difference(name, written[name], right[name], kernel.tolerance) for name in right]
    elements = {name: output.size for name, output in right.items()}
    return result, elements, tuple(difference for difference in differences if difference is not None)


def _refuse(kernel: SuiteKernel, message: str, remedy: str) -> NoReturn:
    raise UsageError(message, place=kernel.check, remedy=remedy)


def _functions(kernel: SuiteKernel) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    names = _call(kernel, lambda: runpy.run_path(kernel.check, run_name="warpsight_check"))
    expected, comparable = names.get("expected"), names.get("comparable")
    if not callable(expected):
        _refuse(kernel, "has no function expected()", "define expected(ARGUMENTS), which returns the outputs by name")
    return expected, comparable if callable(comparable) else None


def _call(kernel: SuiteKernel, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the check file's own code: an error that it raises names its line."""
    try:
        return function(*arguments)
    except WarpsightError:
        raise
    except (Exception, SystemExit) as error:
        own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == kernel.check]
        line = error.lineno if isinstance(error, SyntaxError) else own[-1] if own else None
        place = f"{kernel.check}:{line}" if line else kernel.check
        raise UsageError(f"{type(error).__name__}: {error}", place=place, remedy="correct the check file") from error


def _values(ready: ReadyLaunch) -> list[Any]:
    """A copy of each argument as it is now."""
    parameters = ready.source.module.kernels[ready.launch.kernel].parameters
    return [_value(each, parameter) for each, parameter in zip(ready.launch.arguments, parameters, strict=True)]


def _value(argument: Argument, parameter: Variable) -> Any:
    if isinstance(argument, ArrayArgument):
        return argument.array.copy()
    if not isinstance(argument, ScalarArgument):
        return argument
    # PTX does not tell signed integers from others; sizes and counts, which kernels of a suite are given, are small.
    kind = {"f": "f", "s": "i", "u": "i"}.get(parameter.type[0])
    return np.frombuffer(argument.data, f"<{kind}{parameter.size}")[0] if kind else argument.data


def _arrays(kernel: SuiteKernel, function: str, outputs: Any) -> Outputs:
    """What a function of the check file returned, as arrays of numbers by name."""
    remedy = "return a dict from the names of arrays among its arguments to their expected contents"
    if not isinstance(outputs, dict) or not outputs:
        _refuse(kernel, f"{function}() returned {shown(outputs)} and no outputs", remedy)
    arrays = {str(name): _call(kernel, np.asarray, contents) for name, contents in outputs.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            _refuse(kernel, f'{function}() returned "{name}" of {array.dtype}, but only numbers can be compared', remedy)
    return arrays


def _require_outputs(kernel: SuiteKernel, outputs: Outputs, after: Mapping[str, Any]) -> None:
    arrays = [name for name, value in after.items() if isinstance(value, np.ndarray)]
    remedy = f"the arrays among its arguments are: {', '.join(arrays)}"
    for name, contents in outputs.items():
        if name not in arrays:
            _refuse(kernel, f'expected() returned "{name}", which is not an array among its arguments', remedy)
        if contents.shape != after[name].shape:
            message = f'expected() returned "{name}" of shape {contents.shape}; it has {after[name].shape}'
            _refuse(kernel, message, "return an array of the shape that the launch gives")


def _difference(name: str, written: Array, right: Array, tolerance: float) -> Difference | None:
    if written.shape != right.shape:
        # of comparable(): not as many things were written
        return Difference(f"size of {name}", right.size, abs(written.size - right.size), 0, written.size, right.size)
    written, right = written.ravel(), right.ravel()
    if written.dtype.kind == "f":
        finite = right[np.isfinite(right)].astype(np.float64)
        scale = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
        equal = np.isclose(written.astype(np.float64), right, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    else:
        equal = written == right
    if equal.all():
        return None
    first = int(np.argmin(equal))
    return Difference(name, right.size, int(np.count_nonzero(~equal)), first, float(written[first]), float(right[first]))
