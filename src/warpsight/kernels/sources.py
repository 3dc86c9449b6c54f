"""From what a user has, a `.cu` or `.ptx` file, text or standard input, to kernels ready to run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO
from weakref import WeakKeyDictionary

from warpsight.base.errors import FormatError, UsageError, suggestion
from warpsight.isa.ptx.parser import parse_module
from warpsight.kernels.cuda import CompileOptions, compile_cached
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.mangling import base_name, display_name, normalised
from warpsight.kernels.toolkit import DEFAULT_ARCHITECTURE, parse_architecture

_PTX_HEADER = re.compile(r"^[ \t]*\.version\s", re.MULTILINE)
_CUDA_HINT = re.compile(r"__global__|__device__|^[ \t]*#[ \t]*include", re.MULTILINE)
_KINDS = "a .cu (CUDA C++) or .ptx file"
_LISTED = 20
_STDIN: WeakKeyDictionary[BinaryIO, bytes] = WeakKeyDictionary()


def _is_text(source: str | Path) -> bool:
    return isinstance(source, str) and ("\n" in source or _PTX_HEADER.search(source) is not None or "__global__" in source)


def _stdin() -> bytes:
    """The bytes of standard input, which are kept: a kernel may run a second time, and the stream gives them once."""
    stream = sys.stdin.buffer
    if stream not in _STDIN:
        _STDIN[stream] = stream.read()
    return _STDIN[stream]


def _read_bytes(name: str) -> bytes:
    """The bytes of the file `name`, or of standard input for `-`."""
    if name == "-":
        return _stdin()
    path = Path(name)
    if not os.path.exists(name):  # unlike a Path's own method, this takes names that no file can have
        near = suggestion(path.name, [p.name for p in path.parent.glob("*")] if os.path.isdir(path.parent) else [])
        raise UsageError(f"no such file{near}", place=name, remedy=f"give {_KINDS}, or - for standard input")
    if path.is_dir():
        raise UsageError("is a folder, not a kernel source", place=name, remedy=f"give {_KINDS}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", place=name, remedy="give a file that you can read") from error


def _decode(data: bytes, name: str) -> str:
    if data.startswith(b"\x7fELF"):
        raise FormatError("is compiled machine code (ELF)", place=name, remedy=f"give the source it was made from: {_KINDS}")
    # NVRTC and some tools leave the C string's terminator at the end of PTX.
    data = data.rstrip(b"\x00")
    if b"\x00" in data:
        raise FormatError("is a binary file, not source text", place=name, remedy=f"give {_KINDS}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FormatError("is not UTF-8 text", place=f"{name}:{line}", remedy=f"give {_KINDS} saved as UTF-8") from error
    if not text.strip():
        raise FormatError("is empty: there is no kernel to run", place=name, remedy=f"give {_KINDS}")
    return text


def _is_ptx(text: str, name: str) -> bool:
    """Whether `text` is PTX, by extension where that is known and else by content. Raises FormatError when it is neither."""
    if name.endswith(".ptx"):
        return True
    if name.endswith((".cu", ".cuh")):
        return False
    if _PTX_HEADER.search(text):
        return True
    if _CUDA_HINT.search(text):
        return False
    raise FormatError("is neither PTX (no .version line) nor CUDA C++ (no __global__)", place=name, remedy=f"give {_KINDS}")


def _only_for_cuda(name: str, **options: object) -> None:
    for option, value in options.items():
        if value:
            what = f"{name} is PTX, which is compiled already: `{option}` cannot change it"
            raise UsageError(what, place=option, remedy="leave the option out, or give the .cu file")


def load_source(
    path_or_text: str | Path, *, arch: str | int | None = None, kernel_expressions: Sequence[str] = (), defines: Sequence[str] = (),
    include_dirs: Sequence[str] = (), name: str | None = None, default_arch: str = DEFAULT_ARCHITECTURE,
) -> KernelSource:
    """Read, compile if need be, and parse kernels.

    `path_or_text` is a `.cu` or `.ptx` path, `-` for standard input, or the text itself (anything with a line break). CUDA C++ is
    compiled for `arch` (`default_arch` unless given), with `defines` (`NAME=value`) and `include_dirs`. `kernel_expressions` such
    as `scale<float>` instantiate template kernels. `name` is shown for a text that has no file.
    Raises UsageError, FormatError, CompileError; UnsupportedError for PTX that is not modelled.
    """
    if _is_text(path_or_text):
        shown, data = name or "<text>", str(path_or_text).encode()
    else:
        path = str(path_or_text)
        shown, data = name or ("<stdin>" if path == "-" else path), _read_bytes(path)
    text = _decode(data, shown)
    if _is_ptx(text, shown):
        _only_for_cuda(shown, arch=arch, defines=tuple(defines), include_dirs=tuple(include_dirs))
        return KernelSource(shown, text, parse_module(text, shown))
    options = CompileOptions(
        parse_architecture(arch if arch is not None else default_arch), tuple(defines), tuple(include_dirs),
        tuple(expression for expression in kernel_expressions if "<" in expression),
    )
    compiled = compile_cached(text, shown, options)
    module = parse_module(compiled.ptx, f"{shown} (PTX)")
    return KernelSource(shown, compiled.ptx, module, dict(compiled.mangled_names), compiled.warnings)


def _listing(kernels: Iterable[str]) -> str:
    names = [display_name(kernel) for kernel in kernels]
    more = f", and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _candidates(kernels: Sequence[str], name: str) -> list[str]:
    """The kernels that `name` may mean, by the strictest reading that any kernel satisfies."""
    full = {kernel: normalised(display_name(kernel)) for kernel in kernels}
    plain = {kernel: base_name(display) for kernel, display in full.items()}
    for displayed in (full, plain):
        for matches in (str.__eq__, lambda display, name: display.endswith(f"::{name}")):
            if candidates := [kernel for kernel in kernels if matches(displayed[kernel], name)]:
                return candidates
    return []


def find_kernel(source: KernelSource, name: str | None = None) -> str:
    """The mangled name of the kernel that `name` means: mangled, or as in the source (`spmv_csr`, `ns::foo`, `scale<float>`).

    The end of a qualified name (`foo` for `ns::foo`) and a template without its arguments will do where only one kernel fits; None
    where there is only one kernel. Raises UsageError with the list of kernels otherwise.
    """
    kernels = list(source.module.kernels)
    if not kernels:
        remedy = "mark one `__global__` (not `static`); for a template give its instance: `kernel='name<float>'`"
        raise UsageError("it contains no kernel", place=source.path, remedy=remedy)
    if name is None:
        if len(kernels) == 1:
            return kernels[0]
        what = f"there are {len(kernels)} kernels in it: {_listing(kernels)}"
        raise UsageError(what, place=source.path, remedy="choose one with `kernel='NAME'`")
    if name in kernels:
        return name
    if (lowered := source.mangled_names.get(name)) in kernels:
        return str(lowered)
    candidates = _candidates(kernels, normalised(name))
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        # Overloads look alike without their parameters, so the mangled names distinguish them.
        alike = len({display_name(kernel) for kernel in candidates}) < len(candidates)
        what = f'"{name}" may mean {len(candidates)} kernels: {", ".join(candidates) if alike else _listing(candidates)}'
        raise UsageError(what, place=source.path, remedy="give one of these names in full")
    what = f'there is no kernel "{name}"{suggestion(name, [display_name(kernel) for kernel in kernels])}'
    raise UsageError(what, place=source.path, remedy=f"the kernels are: {_listing(kernels)}")
