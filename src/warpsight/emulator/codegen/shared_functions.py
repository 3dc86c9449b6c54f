"""Functions that kernels share: taken out of a kernel's module, compiled once by their text, and kept on disk between runs.

The slow paths of memory accesses, atomics, barriers and the loop over blocks are functions that most kernels have in common. LLVM
takes longer for these than for a small kernel itself. So each is an object of its own, whose symbol has a hash of its text, and the
kernel's object calls it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from warpsight._version import __version__
from warpsight.base import diskcache
from warpsight.base.compile_budget import check, compiling
from warpsight.base.errors import UnsupportedError
from warpsight.emulator.codegen import object_code
from warpsight.emulator.codegen.driver import DRIVER, build_driver
from warpsight.emulator.codegen.lanes import KernelModule
from warpsight.kernels.elf import MAGIC, Elf

LOCK = threading.Lock()
"""Held while symbols are entered and objects are loaded."""
_SYMBOL = "warpsight.shared."
_REFERENCE = re.compile(r'@"([^"]+)"')
_WEIGHTS = re.compile(r"!prof !(\d+)")
_LOADED: dict[str, Any] = {}  # engines, by symbol
EFFORT = 2  # they are few and run often


@dataclass(frozen=True)
class SharedFunction:
    """A function in a module of its own: its symbol, the text of the module, and what it calls by its name in a kernel's module."""

    symbol: str
    text: str
    calls: tuple[str, ...]


# -- From a module to modules of its functions.

def separate(module: KernelModule) -> tuple[str, dict[str, SharedFunction]]:
    """The text of `module` without its internal functions, and these with all that they call, each after those that it calls."""
    ours = {function.name: function for function in module.functions if function.linkage == "internal"}
    taken: dict[str, SharedFunction] = {}

    def symbols_for(text: str) -> str:
        return _REFERENCE.sub(lambda found: f'@"{taken[found[1]].symbol}"' if found[1] in taken else found[0], text)

    def take(name: str) -> None:
        if name in taken:
            return
        known = module.known.get(name)
        if known is not None:
            for other in known.calls:
                if other in module.known:
                    take(other)
            taken[name] = known
            return
        text = _weights_in_place(module, str(ours[name]))
        called = sorted({called for called in _REFERENCE.findall(text) if called != name})
        for other in called:
            if other in ours:
                take(other)
        text = symbols_for(text).replace("define internal ", "define ", 1)
        symbol = f"{_SYMBOL}{name}.{hashlib.sha256(text.encode()).hexdigest()[:24]}"
        needed = [
            _declaration(ours[other], taken[other].symbol) if other in ours else str(module.globals[other]) for other in called
        ]
        own = text.replace(f'@"{name}"', f'@"{symbol}"')
        taken[name] = SharedFunction(symbol, "\n".join([_head(module), *needed, own]), tuple(called))

    for name in ours:
        take(name)
    kept = [
        _declaration(value, taken[name].symbol) if name in ours else symbols_for(_weights_in_place(module, str(value)))
        for name, value in module.globals.items()
    ]
    return "\n".join([_head(module), *kept]), taken


def _head(module: ir.Module) -> str:
    return f'target triple = "{module.triple}"'


def _weights_in_place(module: ir.Module, text: str) -> str:
    """`text` with its branch weights themselves in place of their numbers in the module."""
    return _WEIGHTS.sub(lambda found: "!prof " + str(module.metadata[int(found[1])]).partition(" = ")[2], text)


def _declaration(function: ir.Function, symbol: str) -> str:
    kind = function.ftype
    return f'declare {kind.return_type} @"{symbol}"({", ".join(map(str, kind.args))})'


@functools.cache
def known_functions(level: str, checks: frozenset[str], clustered: bool) -> dict[str, SharedFunction]:
    """The functions of the kernels of this process so far, by name. Besides the name, the arguments alone determine the text."""
    return {}


@functools.cache
def driver_functions(independent: bool, checks: frozenset[str]) -> tuple[SharedFunction, ...]:
    """The loop over blocks (`driver.py`), which is the last, and what it calls."""
    module = KernelModule(DRIVER)
    build_driver(module, independent, checks)
    return tuple(separate(module)[1].values())


# -- From a module to an object file.

# Longer modules are compiled in a process of their own, which can be ended. It takes 0.2 s to start, and LLVM a second and more.
_LONG = 1_500_000


def emit(text: str, effort: int, quickly: bool, place: str) -> bytes:
    """The object file of a module, within the budget for compiling. Raises LimitError."""
    check("generating code")
    if len(text) < _LONG or not sys.executable:
        return object_code.object_code(text, effort, quickly)
    effort = 0 if quickly else effort  # good registers take time by the square of the code: 15 s for 3 MB; any registers, 0.8 s
    command = [sys.executable, object_code.__file__, str(effort), str(int(quickly))]
    path = os.pathsep.join(filter(None, sys.path))  # it finds LLVM where this process has
    with compiling(place) as limits:
        process = limits.run(command, text.encode(), "making native code", {**os.environ, "PYTHONPATH": path})
    if process.returncode != 0:
        said = process.stderr.decode(errors="replace").strip().splitlines()
        what = f"LLVM cannot compile it: {said[-1] if said else f'it ended with code {process.returncode}'}"
        raise UnsupportedError(what, place=place, remedy="make the kernel smaller, or compile it with optimisation")
    return process.stdout


def undefined_functions(code: bytes) -> list[str]:
    """Names of the symbols that an ELF-64 object uses and does not define; nothing for another format."""
    if code[:5] != MAGIC + b"\x02":
        return []
    return sorted(symbol.name for symbol in Elf(code, "native code").symbols if symbol.name and symbol.section == 0)


def check_resolved(code: bytes, kernel: str, path: str) -> None:
    """Raise UnsupportedError when the object calls a function that this process does not have."""
    missing = [name for name in undefined_functions(code) if not name.startswith("_GLOBAL_") and not llvm.address_of_symbol(name)]
    if missing:
        raise UnsupportedError(
            f"kernel {kernel} needs an operation that neither this processor nor the C library has ({', '.join(missing)})",
            place=path,
            remedy="run it on an x86-64 processor with AVX2, FMA and F16C",
        )


# -- From an object file to code that can be called.

def load(code: bytes, machine: Any) -> Any:
    """The engine that holds the code of an object file."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def provide(symbol: str, kernel: str, path: str, build: Callable[[], str | None], announce: Callable[[bytes], None]) -> bool:
    """Let native code find the function `symbol`: from the disk cache, or compiled from the text that `build` gives.

    `announce` enters the symbols that an object may call. False if the function has not been kept, and there is no text.
    """
    if symbol in _LOADED:
        return True
    machine, host = object_code.target_machine(EFFORT)
    key = kept_key(host, symbol)
    code = diskcache.get("native", key)
    if code is None:
        text = build()
        if text is None:
            return False
        code = emit(text, EFFORT, False, path)
        announce(code)
        check_resolved(code, kernel, path)
        diskcache.put("native", key, code)
    else:
        announce(code)
    with LOCK:
        if symbol not in _LOADED:
            _LOADED[symbol] = load(code, machine)
            llvm.add_symbol(symbol, _LOADED[symbol].get_function_address(symbol))
    return True


def is_shared(symbol: str) -> bool:
    """Whether `symbol` is that of a shared function, and not of the library."""
    return symbol.startswith(_SYMBOL)


def kept_key(host: str, *identity: str) -> str:
    """The key in the disk cache of code made for this host by this version."""
    parts = (__version__, str(llvm.llvm_version_info), host, _generator(), *identity)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _generator() -> str:
    """Identity of the code that generates code, so that a changed emulator never runs old machine code."""
    root = Path(__file__).parents[2]
    files = sorted(f for part in ("emulator", "isa") for f in (root / part).rglob("*.py"))
    assert files, root
    return repr([(f.relative_to(root).as_posix(), f.stat().st_size, f.stat().st_mtime_ns) for f in files])
