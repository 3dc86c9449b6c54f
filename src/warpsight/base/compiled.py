"""Functions that Numba compiles: plain Python to the type checker, native code when called.

Importing Numba takes a second, which a command that simulates nothing must not pay. A function here is handed to Numba when it is
first called, from Python or from another compiled function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from typing import Any, TypeVar, cast

import lazy_loader as lazy

from warpsight.base.signals import leave_if_asked

numba = lazy.load("numba")
kept_code: Any = lazy.load("warpsight.base.kept_code", suppress_warning=True)  # as the next, it imports Numba
record_types: Any = lazy.load("warpsight.base.record_types", suppress_warning=True)

Function = TypeVar("Function", bound=Callable[..., Any])
Item = TypeVar("Item")


class Compiled:
    """A function that Numba compiles at its first call. The Python original stays as `py_func`."""

    def __init__(
        self, function: Callable[..., Any], signature: str | None = None, sources: tuple[str, ...] = (), **options: Any
    ) -> None:
        self.py_func = function
        self._signature, self._sources, self._options = signature, sources, options
        update_wrapper(self, function)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher of the function, made at the first use."""
        leave_if_asked()  # compiling them all takes half a minute
        _introduce_to_numba()
        options = {**self._options, "no_cfunc_wrapper": True}
        if options.pop("cache", False):
            sources = source_hash(self._sources) if self._sources else ""
            dispatcher = kept_code.kept_dispatcher(self.py_func, self._signature, sources, options)
        else:
            dispatcher = numba.njit(*() if self._signature is None else (self._signature,), **options)(self.py_func)
        _used.append(dispatcher)
        return dispatcher

    @cached_property
    def callee(self) -> Any:
        """Numba's dispatcher for callers that are compiled themselves: it cannot be called from Python, and is not kept."""
        leave_if_asked()  # as above: all callees are compiled with what Python calls
        _introduce_to_numba()
        options = {name: value for name, value in self._options.items() if name != "cache"}
        return kept_code.for_any_value(numba.njit(**options, no_cpython_wrapper=True, no_cfunc_wrapper=True)(self.py_func))

    def __call__(self, *arguments: Any) -> Any:
        """Run the native code."""
        return self.dispatcher(*arguments)


_used: list[Any] = []  # the dispatchers made so far


def compilations() -> tuple[int, int]:
    """How many functions this process has read from Numba's cache, and how many it has compiled."""
    statistics = [dispatcher.stats for dispatcher in _used]
    read = sum(sum(each.cache_hits.values()) for each in statistics)
    return read, sum(len(dispatcher.signatures) for dispatcher in _used) - read


class Intrinsic:
    """A function that gives Numba the machine code of an operation; only compiled functions call it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    @cached_property
    def function_type(self) -> Any:
        """Numba's type of the operation, made at the first use: what `numba.extending.intrinsic` registers when it decorates."""
        templates = numba.core.typing.templates
        template = templates.make_intrinsic_template(self, self.py_func, self.py_func.__name__)
        templates.infer(template)
        return numba.types.Function(template)


@cache
def _introduce_to_numba() -> None:
    """Teach Numba to take `Compiled` and `Intrinsic` objects for what they stand for, before anything is compiled."""
    kept_code.prepare_numba()
    record_types.register(Compiled, "callee")
    record_types.register(Intrinsic, "function_type")


def jit(signature: str | None = None, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator with the options of `numba.njit`; with a `signature`, for arguments of these types alone."""
    return lambda function: Compiled(function, signature, **options)


# error_model: divisors are checked where they come in, so the test for zero is left out. forceinline: a callee for which it is not
# said would take it from the first of its callers that is compiled.
_UNCHECKED: dict[str, Any] = {"nogil": True, "error_model": "numpy", "forceinline": False}


def compiled(function: Function) -> Function:
    """Compile at the first call, without the interpreter lock and without a test for division by zero."""
    return cast(Function, Compiled(function, **_UNCHECKED))


def inlined(function: Function) -> Function:
    """As `compiled`, and always expanded where it is called: for what is small, or called from one place."""
    return cast(Function, Compiled(function, **{**_UNCHECKED, "forceinline": True}))


def compiled_and_kept(function: Function) -> Function:
    """As `compiled`, and kept on disk until its own file changes."""
    return cast(Function, Compiled(function, **_UNCHECKED, cache=True))


def kept_until_changed(*sources: str) -> Callable[[Function], Function]:
    """As `compiled_and_kept`, and only until one of `sources` changes: packages or files of Warpsight, besides this package."""

    def decorate(function: Function) -> Function:
        return cast(Function, Compiled(function, sources=("base", *sources), **_UNCHECKED, cache=True))

    return decorate


def source_hash(sources: tuple[str, ...]) -> str:
    """A hash of the text of all modules in `sources`. Numba itself compares the function's own file, not those of its callees."""
    paths = [Path(__file__).resolve().parents[1] / source for source in sources]
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def intrinsic(function: Callable[..., Any]) -> Any:
    """Numba's way to give the machine code of a function; see `numba.extending.intrinsic`."""
    return Intrinsic(function)


@intrinsic
def pointer(typing_context: Any, array: Any) -> Any:
    """In compiled code: the address of a one-dimensional contiguous array's data, to be indexed as the array would be.

    Passing arrays on costs descriptors and reference counts at every call: most of the run time and of the compile time.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return numba.types.CPointer(array.dtype)(array), generate


@inlined
def copy_entries(source: Any, first: int, end: int, target: Any, at: int) -> None:
    """In compiled code: `target[at : at + end - first] = source[first:end]`, in bounds; Numba compiles that for half a second."""
    given, taken = pointer(source), pointer(target)
    for k in range(end - first):
        taken[at + k] = given[first + k]


def reference_to(record: type[Item]) -> Callable[[Any], Item]:
    """A function for compiled code: the `record` that lies where `Memory.address` of module `records` says."""

    @intrinsic
    def record_at(typing_context: Any, address: Any) -> Any:
        return record_types.record_at(address, record)

    return cast(Callable[[Any], Item], record_at)


@intrinsic
def ask_for(typing_context: Any, table: Any, row: Any) -> Any:
    """In compiled code: bring a row of a table to the host's nearest cache, without waiting for it."""
    return record_types.asked_for(table, row)


@intrinsic
def equal_among_8(typing_context: Any, table: Any, row: Any, value: Any) -> Any:
    """In compiled code: which of eight rows of a table of 32-bit numbers are `value`, as a mask. They are compared at once."""
    return record_types.equal_rows(table, row, value, 8)


@intrinsic
def equal_among_16(typing_context: Any, table: Any, row: Any, value: Any) -> Any:
    """The same of sixteen rows."""
    return record_types.equal_rows(table, row, value, 16)


def c_function(function: Callable[..., Any], signature: Any, **options: Any) -> Any:
    """Compile for callers in native code, now, and keep it on disk: the result's `address` is that of the C function."""
    _introduce_to_numba()
    return kept_code.kept_c_function(function, signature, options)
