"""Kernels that `numba.cuda.jit` made, compiled to PTX without a GPU, and their arguments as Numba passes them.

An array becomes seven kernel parameters or more: two that stay null on a GPU (meminfo, parent), the number of elements, the bytes
of one, the data's address, and per dimension its size and its stride in bytes. Numba's package is not imported here: the kernel at
hand brings the one it was made with, `numba-cuda` or the older part of `numba`.
"""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from warpsight.base.errors import CompileError, UnsupportedError, UsageError
from warpsight.kernels.arguments import parse_argument
from warpsight.kernels.launch import ArrayArgument
from warpsight.kernels.toolkit import DEFAULT_ARCHITECTURE, parse_architecture

_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_FILE_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_OPTIONS = ("debug", "fastmath", "opt", "forceinline", "launch_bounds")  # of `cuda.jit`, as far as this Numba's compiler has them
_REMEDY = "pass NumPy arrays and scalars, Python numbers, or tuples of them"


def is_numba_kernel(kernel: Any) -> bool:
    """A `@cuda.jit` function, or one with its launch (`kernel[grid, block]`)."""
    dispatcher = getattr(kernel, "dispatcher", kernel)
    return type(dispatcher).__module__.startswith("numba.cuda") and hasattr(dispatcher, "py_func")


def launch_of(kernel: Any) -> dict[str, Any]:
    """`grid`, `block` and `shared` of `kernel[grid, block, stream, shared]`; nothing for a kernel alone."""
    if not hasattr(kernel, "dispatcher"):
        return {}
    shared = {"shared": int(kernel.sharedmem)} if kernel.sharedmem else {}
    return {"grid": tuple(kernel.griddim), "block": tuple(kernel.blockdim), **shared}


def compile_numba(kernel: Any, values: Sequence[Any], arch: str | int | None, seed: int) -> tuple[str, str, list[Any]]:
    """PTX of the kernel for arguments of these types, its name in it, and the arguments as its parameters take them.

    `values` as for the kernel itself; a text by rule (``f32[1024]:uniform``, made with `seed`) is an array. Line numbers are kept.
    Raises CompileError with Numba's words, UsageError and UnsupportedError for arguments that cannot be passed.
    """
    dispatcher = getattr(kernel, "dispatcher", kernel)
    name = str(dispatcher.py_func.__name__)
    values = [_array_of(value, seed, position) for position, value in enumerate(values)]
    parameters = list(inspect.signature(dispatcher.py_func).parameters)
    if len(values) != len(parameters):
        what = f"{name} takes {len(parameters)} argument(s), {len(values)} given"
        raise UsageError(what, place="arguments", remedy=f"its parameters are ({', '.join(parameters)})")
    options = dict(dispatcher.targetoptions)
    if options.get("link"):
        what = f"kernel {name} links other files, which is not modelled"
        raise UnsupportedError(what, place=name, remedy="write it in Python only")
    if options.get("extensions"):
        raise UnsupportedError(f"kernel {name} has extensions for its arguments", place=name, remedy=_REMEDY)
    ptx = _compile(dispatcher, name, values, options, arch)
    parts = [part for parameter, value in zip(parameters, values, strict=True) for part in _flattened(parameter, value)]
    return _renamed(ptx, name, [label for label, _ in parts]), name, [part for _, part in parts]


def _array_of(value: Any, seed: int, position: int) -> Any:
    argument = parse_argument(value, None, seed, position=position) if isinstance(value, str) else value
    if isinstance(value, str) and not isinstance(argument, ArrayArgument):
        raise UsageError(f'"{value}" is a scalar given as text', place=f"argument {position + 1}", remedy=_REMEDY)
    return argument.array if isinstance(argument, ArrayArgument) else argument


def _compile(dispatcher: Any, name: str, values: Sequence[Any], options: dict[str, Any], arch: str | int | None) -> str:
    target = parse_architecture(arch if arch is not None else DEFAULT_ARCHITECTURE)
    compile_ptx = importlib.import_module("numba.cuda").compile_ptx
    known = inspect.signature(compile_ptx).parameters
    chosen = {key: options[key] for key in _OPTIONS if key in known and options.get(key) is not None}
    chosen["debug"] = bool(chosen.get("debug"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on launches that would use a GPU badly, and on debug with optimisation
            types, capability = tuple(dispatcher.typeof_pyval(value) for value in values), divmod(target.number, 10)
            ptx, returns = compile_ptx(dispatcher.py_func, types, lineinfo=not chosen["debug"], cc=capability, **chosen)
    except Exception as error:  # Numba has no common base for what it raises on a wrong kernel
        raise _compile_error(name, error) from error
    if "none" not in str(returns):
        raise CompileError(f"{name} returns a value, which a kernel cannot", place=name, remedy="write it into an array")
    return str(ptx).rstrip("\0")


def _compile_error(name: str, error: Exception) -> CompileError:
    """Numba's own words, without its phases and colours, and the line that it names."""
    lines = [_COLOUR.sub("", line).strip() for line in str(error).splitlines()]
    message = next((line for line in lines if line and not line.startswith("Failed in ")), type(error).__name__)
    place = next((f"{match[1]}:{match[2]}" for line in lines if (match := _FILE_LINE.search(line))), name)
    remedy = "install its compiler: pip install 'numba-cuda[cu13]'" if "nvvm" in str(error).lower() else "correct the kernel"
    return CompileError(f"Numba cannot compile {name}: {message}", place=place, remedy=remedy)


def _flattened(name: str, value: Any) -> list[tuple[str, Any]]:
    """The kernel parameters that one argument becomes: (name, value)."""
    if isinstance(value, np.ndarray):
        return _array(name, value)
    if isinstance(value, (bool, np.bool_)):
        return [(name, np.uint8(value))]
    if isinstance(value, int):
        return [(name, np.int64(value))] if -(1 << 63) <= value < 1 << 63 else [(name, np.uint64(value))]
    if isinstance(value, float):
        return [(name, np.float64(value))]
    if isinstance(value, (complex, np.complexfloating)):
        part = np.float32 if isinstance(value, np.complex64) else np.float64
        return [(f"{name}_real", part(value.real)), (f"{name}_imag", part(value.imag))]
    if isinstance(value, tuple):
        return [part for k, each in enumerate(value) for part in _flattened(f"{name}_{k}", each)]
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return [(name, np.int64(value.astype(np.int64)))]
    if isinstance(value, np.number):
        return [(name, value)]
    what = f"a {type(value).__name__} cannot be passed to a Numba kernel here"
    raise UnsupportedError(what, place=f'argument "{name}"', remedy=_REMEDY)


def _array(name: str, array: np.ndarray[Any, Any]) -> list[tuple[str, Any]]:
    # The transpose of a Fortran array is C-contiguous and the same memory.
    memory = array if array.flags.c_contiguous else array.T
    if not memory.flags.c_contiguous:
        what = "the array is not contiguous, and a copy could not be written back"
        raise UsageError(what, place=f'argument "{name}"', remedy="pass numpy.ascontiguousarray(array)")
    return [
        (f"{name}_meminfo", np.uint64(0)),
        (f"{name}_parent", np.uint64(0)),
        (f"{name}_size", np.int64(array.size)),
        (f"{name}_itemsize", np.int64(array.itemsize)),
        (name, memory),
        *((f"{name}_shape{k}", np.int64(size)) for k, size in enumerate(array.shape)),
        *((f"{name}_stride{k}", np.int64(stride)) for k, stride in enumerate(array.strides)),
    ]


def _renamed(ptx: str, name: str, labels: list[str]) -> str:
    """The PTX with the kernel and its parameters named as in Python, so that messages name them."""
    entry = _ENTRY.search(ptx)
    if entry is None or not name.isascii():
        return ptx
    long = entry[1]

    def parameter(match: re.Match[str]) -> str:
        number = int(match[1])
        return f"{name}_{labels[number]}" if number < len(labels) and labels[number].isascii() else match[0]

    ptx = re.sub(rf"\b{re.escape(long)}_param_(\d+)\b", parameter, ptx)
    return re.sub(rf"(?<![\w$]){re.escape(long)}(?![\w$])", name, ptx)
