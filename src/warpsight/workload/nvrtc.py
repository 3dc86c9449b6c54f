"""CUDA C++ to PTX with NVRTC, NVIDIA's run-time compiler, from PyPI. Needs no driver, no GPU and no toolkit.

The library is loaded at the first compilation, not at import.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warpsight.base.errors import CompileError, UsageError
from warpsight.workload import libraries
from warpsight.workload.architecture import Architecture

PACKAGE = "nvidia-cuda-nvrtc"
_LIBRARY = "libnvrtc.so.13"
_PLACE = "NVRTC"


@dataclass(frozen=True)
class CompiledCuda:
    """What a compiler made: the PTX text, the mangled name of each kernel expression asked for, and its warnings."""

    ptx: str
    mangled_names: dict[str, str] = field(default_factory=dict)
    warnings: str = ""


@dataclass(frozen=True)
class CompileOptions:
    """What a compilation depends on besides the text. `defines` are `NAME` or `NAME=value`; `standard` as in `c++17`."""

    architecture: Architecture
    defines: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    kernel_expressions: tuple[str, ...] = ()
    standard: str = "c++17"

    def flags(self) -> list[str]:
        """The options that NVRTC and nvcc share, in the user's order."""
        return [
            "-lineinfo",
            f"--std={self.standard}",
            *(f"--define-macro={define}" for define in self.defines),
            *(f"--include-path={folder}" for folder in self.include_dirs),
        ]


def library_identity() -> str:
    """Which NVRTC this is, without loading it. Raises MissingLibraryError."""
    return libraries.identity(libraries.library_path(_LIBRARY, PACKAGE))


@functools.cache
def _nvrtc() -> ctypes.CDLL:
    path = libraries.library_path(_LIBRARY, PACKAGE)
    # NVRTC opens its builtins by bare name, which the dynamic linker finds only if they are loaded already.
    for builtins in sorted(path.parent.glob("libnvrtc-builtins.so.*")):
        libraries.load(builtins, with_globals=True)
    library = libraries.load(path)
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _check(status: int, doing: str) -> None:
    if status != 0:
        message = _nvrtc().nvrtcGetErrorString(status).decode()
        raise CompileError(f"{doing} failed: {message}", place=_PLACE, remedy=f"reinstall {PACKAGE} with pip")


def supported_architectures() -> list[int]:
    """The compute capabilities (times ten) that this NVRTC compiles for, ascending."""
    library, count = _nvrtc(), ctypes.c_int()
    _check(library.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "listing architectures")
    numbers = (ctypes.c_int * count.value)()
    _check(library.nvrtcGetSupportedArchs(numbers), "listing architectures")
    return sorted(numbers)


def require_supported(architecture: Architecture) -> None:
    """Raise UsageError when NVRTC cannot compile for `architecture`, listing those that it can."""
    known = supported_architectures()
    if architecture.number not in known:
        listed = ", ".join(str(number) for number in known)
        raise UsageError(
            f"{architecture.virtual} is not an architecture that this NVRTC compiles for ({listed})",
            place="--arch",
            remedy=f"use {min(known, key=lambda number: abs(number - architecture.number))}, or compile to .ptx elsewhere",
        )


class _Program:
    """One NVRTC program; a context manager, so that its memory is given back whatever happens."""

    def __init__(self, text: str, path: str) -> None:
        self._handle = ctypes.c_void_p()
        status = _nvrtc().nvrtcCreateProgram(ctypes.byref(self._handle), text.encode(), path.encode(), 0, None, None)
        _check(status, "reading the source")

    def __enter__(self) -> _Program:
        return self

    def __exit__(self, *exception: object) -> None:
        _nvrtc().nvrtcDestroyProgram(ctypes.byref(self._handle))

    def expect(self, expression: str) -> None:
        """Ask for the instantiation of a kernel expression."""
        status = _nvrtc().nvrtcAddNameExpression(self._handle, expression.encode())
        _check(status, f"adding the kernel expression {expression!r}")

    def compile(self, flags: Sequence[str]) -> bool:
        """True when it compiled; the log says why not."""
        array = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        return int(_nvrtc().nvrtcCompileProgram(self._handle, len(flags), array)) == 0

    def text(self, what: str) -> str:
        """`ProgramLog` or `PTX`."""
        library, size = _nvrtc(), ctypes.c_size_t()
        _check(getattr(library, f"nvrtcGet{what}Size")(self._handle, ctypes.byref(size)), f"reading the {what}")
        buffer = ctypes.create_string_buffer(size.value)
        _check(getattr(library, f"nvrtcGet{what}")(self._handle, buffer), f"reading the {what}")
        return buffer.value.decode(errors="replace")

    def mangled(self, expression: str) -> str:
        """The name in the PTX of a kernel expression that was expected."""
        name = ctypes.c_char_p()
        status = _nvrtc().nvrtcGetLoweredName(self._handle, expression.encode(), ctypes.byref(name))
        _check(status, f"naming the kernel expression {expression!r}")
        return (name.value or b"").decode()


def compile_cuda(text: str, path: str, options: CompileOptions) -> CompiledCuda:
    """Compile CUDA C++ `text` to PTX; `path` is its name in messages and `.loc` records, and its folder is searched for headers.

    Raises CompileError with the compiler's own words (file and line), UsageError for an architecture that NVRTC lacks, and
    MissingLibraryError when NVRTC is not installed.
    """
    require_supported(options.architecture)
    flags = [
        f"--gpu-architecture={options.architecture.virtual}",
        *options.flags(),
        f"--include-path={Path(path).parent}",
        *(f"--include-path={folder}" for folder in libraries.include_folders()),
    ]
    with _Program(text, path) as program:
        for expression in options.kernel_expressions:
            program.expect(expression)
        compiled = program.compile(flags)
        log = program.text("ProgramLog").strip()
        if not compiled:
            raise CompileError(f"the CUDA compiler (NVRTC) refuses it:\n{log}", place=path)
        names = {expression: program.mangled(expression) for expression in options.kernel_expressions}
        return CompiledCuda(program.text("PTX"), names, log)
