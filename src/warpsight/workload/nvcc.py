"""CUDA C++ with host code to PTX, with the user's nvcc. Only used when it is on PATH."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from warpsight.base.errors import CompileError
from warpsight.workload.nvrtc import CompiledCuda, CompileOptions

_TIMEOUT_S = 600


def find_nvcc() -> str | None:
    """The nvcc on PATH, or None."""
    return shutil.which("nvcc")


def version(nvcc: str) -> str:
    """All that `nvcc --version` says; part of the key of a cached compilation."""
    return _run([nvcc, "--version"], nvcc).stdout


def _run(command: list[str], place: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False)
    except OSError as error:
        raise CompileError(f"nvcc cannot be run: {error}", place=place, remedy="repair it or take it off PATH") from error
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"nvcc ran longer than {_TIMEOUT_S} s", place=place) from error


def compile_with_nvcc(nvcc: str, text: str, path: str, options: CompileOptions) -> CompiledCuda:
    """Compile `text`, known to messages as `path`, to PTX: `nvcc -ptx -lineinfo -O3 -arch=compute_XX`.

    nvcc reads the file itself when `path` is one, so that its headers are found as the user's build finds them.
    Raises CompileError with nvcc's own words.
    """
    with tempfile.TemporaryDirectory(prefix="warpsight-") as scratch:
        source, output = Path(path), Path(scratch) / "out.ptx"
        if not source.is_file():
            source = Path(scratch) / "input.cu"
            source.write_text(text, encoding="utf-8")
        command = [nvcc, "-ptx", "-O3", f"-arch={options.architecture.virtual}", *options.flags()]
        done = _run([*command, "-x", "cu", "-o", str(output), str(source)], path)
        said = (done.stderr + done.stdout).replace(str(source), path).strip()
        if done.returncode != 0 or not output.is_file():
            raise CompileError(f"nvcc refuses it:\n{said}", place=path)
        return CompiledCuda(output.read_text(encoding="utf-8", errors="replace"), {}, said)
