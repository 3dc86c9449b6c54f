"""What Numba compiles: how it is linked, and kept in the cache folder with a checksum, one entry for each function and signature.

Other modules load this one lazily: it imports Numba.
"""

from __future__ import annotations

import importlib
import os
import pickle
import secrets
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from numba.core import bytecode, caching, ccallback, codegen, serialize, sigutils, typeinfer, types
from numba.np import linalg

from warpsight._version import __version__
from warpsight.base import diskcache

# What an older form of this file has linked may be wrong (see `_Library`), so it is not loaded.
_VERSIONS = (numba.__version__, __version__, sys.version, Path(__file__).read_bytes())


class _Library(codegen.JITCodeLibrary):  # type: ignore[misc, unused-ignore]
    """Numba's library of a function, which callers link as it was written: it is optimised as a part of those that Python calls.

    Numba itself optimises each function with all that it calls, makes machine code of it, and then links it into its callers, where
    all this is done again: that takes twice the time. It is wrong, too. LLVM changes a module while it makes machine code of it.
    It may write an address `a + b` as `b` bytes behind a pointer made of `a`. The optimiser takes that for a use of a null pointer
    where `a` becomes 0 in a caller, and deletes the access.
    """

    _final_module: Any
    _shared_module: Any
    _linking_libraries: list[Any]
    _codegen: Any

    def add_linking_library(self, library: Any) -> None:
        """Add a callee."""
        self._linking_libraries.append(library)

    def _get_module_for_linking(self) -> Any:
        """The function alone, without its callees, for a module that may have it already."""
        if self._shared_module is None:
            self._shared_module = self._final_module.clone()
            for function in self._shared_module.functions:
                if not function.is_declaration and function.linkage == binding.Linkage.external:
                    function.linkage = binding.Linkage.linkonce_odr
        return self._shared_module

    def _optimize_functions(self, module: Any) -> None:
        """Leave a function as it was written until it is optimised with its callees."""
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Link all callees, optimise, and make machine code."""
        self._raise_if_finalized()
        self._get_module_for_linking()
        for library in _callees(self):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def get_pointer_to_function(self, name: str) -> int:
        """The address of machine code; 0 if there is no function of this `name`, such as a wrapper for calls from Python."""
        if not self._finalized and name not in [function.name for function in self._final_module.functions]:
            return 0
        return int(super().get_pointer_to_function(name))


def _callees(library: Any) -> list[Any]:
    """The libraries of all functions that a function calls, directly or not. Callers come first: LLVM links what is called."""
    seen, found = {library}, list[Any]()

    def visit(caller: Any) -> None:
        for each in caller._linking_libraries:
            if each not in seen:
                seen.add(each)
                visit(each)
                found.append(each)

    visit(library)
    return found[::-1]


def _set_environment(generator: Any, name: str, environment: Any) -> None:
    """As Numba's own, for a function of which there is machine code."""
    if generator._engine.is_symbol_defined(name):
        _numbas_own_set_env(generator, name, environment)


_numbas_own_set_env = codegen.JITCPUCodegen.set_env


class _Blas:
    """Whether SciPy has the linear algebra that Numba calls, found out when Numba asks for the first time."""

    def __bool__(self) -> bool:
        return bool(_array_functions()._check_blas())


def _array_functions() -> Any:
    return importlib.import_module("numba.np.arraymath")


def _leave_scipy_alone() -> None:
    """Numba imports SciPy, where it is installed, to see whether it has BLAS, which one function of NumPy's would use. That takes
    every process a third of the time in which it imports Numba itself.
    """
    if "numba.np.arraymath" in sys.modules:
        return

    def refuse() -> None:
        raise ImportError

    find = linalg.ensure_blas
    linalg.ensure_blas = refuse
    try:
        functions = _array_functions()
    finally:
        linalg.ensure_blas = find
    functions.ensure_blas, functions._HAVE_BLAS = find, _Blas()


def prepare_numba() -> None:
    """Before the first function is compiled: libraries as above, symbols that no other process has, and no import of SciPy.

    Numba numbers the functions of a process from 1. Two functions of one name that two processes have kept could have one symbol,
    and a process that loads both would call the first for the second.
    """
    codegen.JITCPUCodegen._library_class = _Library
    codegen.JITCPUCodegen.set_env = _set_environment
    _leave_scipy_alone()
    bytecode.FunctionIdentity._unique_ids = iter(partial(secrets.randbits, 64), -1)  # of the system, so after a fork too


def for_any_value(dispatcher: Any) -> Any:
    """A callee that is compiled once for all numbers of a type. Numba gives each constant a type of its own, so that it compiles
    `f(x, 0)`, `f(x, 1)` and `f(x, n)` apart.
    """
    resolve = dispatcher.get_call_template

    def get_call_template(arguments: Any, keywords: Any) -> Any:
        return resolve(tuple(map(_plain, arguments)), {name: _plain(each) for name, each in keywords.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


def _plain(kind: Any) -> Any:
    """The type of a number for that of a constant."""
    return kind.literal_type if isinstance(kind, (types.IntegerLiteral, types.BooleanLiteral)) else kind


class _Entries:
    """The entries of one function: `load` and `save` by signature, as Numba's `IndexDataCacheFile`.

    The name of an entry says which function of which file it is, so that a changed one takes its place; the first bytes say of
    which source, so that an entry of another one is not loaded.
    """

    def __init__(self, function: Callable[..., Any], stamp: str) -> None:
        code = function.__code__
        self._identity = (code.co_filename, function.__qualname__, str(code.co_firstlineno))
        self._stamp = stamp

    def _entry(self, key: Any) -> tuple[str, bytes]:
        signature, target, hashes = key
        name = diskcache.content_key(*self._identity, str(signature), str(target))
        return name, diskcache.content_key(repr(_VERSIONS), self._stamp, *hashes).encode()

    def load(self, key: Any) -> Any:
        """What `save` kept under `key`; None where there is nothing of this source, which is to be compiled now."""
        name, source = self._entry(key)
        found = self._stored(name, source)
        if found is None:
            diskcache.take_turn(diskcache.SIMULATORS, name)
            found = self._stored(name, source)
            if found is not None:
                diskcache.made()
        return found

    @staticmethod
    def _stored(name: str, source: bytes) -> Any:
        stored = diskcache.get(diskcache.SIMULATORS, name)
        return pickle.loads(stored[len(source) :]) if stored is not None and stored.startswith(source) else None

    def save(self, key: Any, data: Any) -> None:
        """Keep `data`, which Numba has reduced to what can be stored."""
        name, source = self._entry(key)
        diskcache.put(diskcache.SIMULATORS, name, source + serialize.dumps(data))
        diskcache.made()


class _Place:
    """What Numba asks for a folder, which `_Entries` does not need."""

    def __init__(self, file: str) -> None:
        self._py_file = file  # named in warnings

    def ensure_cache_path(self) -> None:
        """Nothing is to be made."""


class _Reduced(caching.CompileResultCacheImpl):  # type: ignore[misc, unused-ignore]
    """How Numba makes what it has compiled storable; without its own search for a folder."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lineno, self._locator = function.__code__.co_firstlineno, _Place(function.__code__.co_filename)


class _Kept(caching.FunctionCache):  # type: ignore[misc, unused-ignore]
    """Numba's cache of one function, with other files."""

    def __init__(self, function: Callable[..., Any], stamp: str) -> None:
        self._name, self._py_func, self._impl = repr(function), function, _Reduced(function)
        self._cache_path, self._cache_file = str(diskcache.folder() / diskcache.SIMULATORS), _Entries(function, stamp)
        self.enable()

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        """Nothing if what is kept takes other types. A class of a module that has been imported again is another one of the same
        name: Numba would not find the code by the types of the arguments, and load it at each call.
        """
        found = super()._load_overload(sig, target_context)
        return found if found is None or tuple(found.signature.args) == tuple(sigutils.normalize_signature(sig)[0]) else None


def kept_dispatcher(function: Callable[..., Any], signature: Any, sources: str, options: dict[str, Any]) -> Any:
    """Numba's dispatcher of a function that is kept until its file or the text `sources` changes; with a `signature`, compiled for
    that alone.
    """
    dispatcher = numba.njit(**options)(function)
    dispatcher._cache = _cache(function, sources)
    if signature is not None:
        with typeinfer.register_dispatcher(dispatcher):
            dispatcher.compile(signature)
            dispatcher.disable_compile()
    return dispatcher


def kept_c_function(function: Callable[..., Any], signature: Any, options: dict[str, Any]) -> Any:
    """A function for callers in native code, compiled now or taken from the cache folder."""
    made: Any = ccallback.CFunc(function, sigutils.normalize_signature(signature), locals={}, options=options)
    made._cache = _cache(function, "")
    made.compile()
    return made


def _cache(function: Callable[..., Any], sources: str) -> Any:
    """None is kept of a function whose file cannot be seen to change: in an archive, or typed in."""
    try:
        status = os.stat(function.__code__.co_filename)
    except OSError:
        return caching.NullCache()
    return _Kept(function, f"{status.st_mtime_ns} {status.st_size} {sources}")
