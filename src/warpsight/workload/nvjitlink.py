"""PTX to machine code with nvJitLink, NVIDIA's linker and assembler, from PyPI. Loaded at the first use."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from warpsight.base.errors import CompileError
from warpsight.workload import libraries
from warpsight.workload.architecture import Architecture

PACKAGE = "nvidia-nvjitlink"
_LIBRARY = "libnvJitLink.so.13"
_VERSION = "_13_0"
_PTX_INPUT = 2


def library_identity() -> str:
    """Which nvJitLink this is, without loading it. Raises MissingLibraryError."""
    return libraries.identity(libraries.library_path(_LIBRARY, PACKAGE))


@functools.cache
def _library() -> ctypes.CDLL:
    return libraries.load(libraries.library_path(_LIBRARY, PACKAGE))


def _call(name: str, *arguments: Any) -> int:
    # The header's functions are wrappers around exported names that carry the toolkit's version.
    return int(getattr(_library(), f"__nvJitLink{name}{_VERSION}")(*arguments))


def _log(handle: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    if _call("GetErrorLogSize", handle, ctypes.byref(size)) != 0 or size.value == 0:
        return "no message"
    buffer = ctypes.create_string_buffer(size.value + 1)
    _call("GetErrorLog", handle, buffer)
    return buffer.value.decode(errors="replace").strip()


def assemble(ptx: str, path: str, architecture: Architecture) -> bytes:
    """The cubin of `ptx` for `architecture`; `path` names it in messages.

    Raises CompileError with the assembler's words, MissingLibraryError when nvJitLink is not installed.
    """
    handle, option = ctypes.c_void_p(), f"-arch={architecture.real}".encode()
    status = _call("Create", ctypes.byref(handle), ctypes.c_uint32(1), (ctypes.c_char_p * 1)(option))
    if status != 0:
        raise CompileError(f"the assembler (nvJitLink) does not know {architecture.real}", place=path)
    try:
        text = ptx.encode() + b"\0"
        status = _call("AddData", handle, ctypes.c_int(_PTX_INPUT), text, ctypes.c_size_t(len(text)), path.encode())
        status = status or _call("Complete", handle)
        if status != 0:
            raise CompileError(f"the assembler (nvJitLink) refuses it:\n{_log(handle)}", place=path)
        size = ctypes.c_size_t()
        _call("GetLinkedCubinSize", handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        _call("GetLinkedCubin", handle, buffer)
        return buffer.raw
    finally:
        _call("Destroy", ctypes.byref(handle))
