"""PTX to machine code with nvJitLink, NVIDIA's linker and assembler, from PyPI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from warpsight.base.errors import CompileError
from warpsight.workload import libraries, nvjitlink_process
from warpsight.workload.architecture import Architecture

PACKAGE = "nvidia-nvjitlink"
_LIBRARY = "libnvJitLink.so.13"
_TIMEOUT_S = 600


def library_identity() -> str:
    """Which nvJitLink this is, without loading it. Raises MissingLibraryError."""
    return libraries.identity(libraries.library_path(_LIBRARY, PACKAGE))


def assemble(ptx: str, path: str, architecture: Architecture) -> bytes:
    """The cubin of `ptx` for `architecture`; `path` names it in messages.

    Raises CompileError with the assembler's words, MissingLibraryError when nvJitLink is not installed.
    """
    library = libraries.library_path(_LIBRARY, PACKAGE)
    script = Path(nvjitlink_process.__file__)
    command = [sys.executable, "-I", "-S", str(script), str(library), architecture.real, path]
    try:
        done = subprocess.run(command, input=ptx.encode(), capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"the assembler (nvJitLink) cannot be run: {error}", place=path) from None
    if done.returncode == 0:
        return done.stdout
    if done.returncode == 2:
        raise CompileError(f"the assembler (nvJitLink) does not know {architecture.real}", place=path)
    if done.returncode == 1 and done.stdout:
        raise CompileError(f"the assembler (nvJitLink) refuses it:\n{done.stdout.decode(errors='replace').strip()}", place=path)
    raise CompileError("the assembler (nvJitLink) breaks down on it", place=path)
