"""Builds and runs the programs of this folder: once each per test session."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

import warpsight
from warpsight.cli.main import DEFECT, main

SOURCES = Path(__file__).parent / "sources"
PTX = "-gencode=arch=compute_75,code=compute_75"

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
_FOLDER = tempfile.TemporaryDirectory(prefix="warpsight-programs-")


@functools.cache
def build(*sources: str, options: tuple[str, ...] = (PTX,)) -> Path:
    """A program from sources of this folder."""
    program = Path(_FOLDER.name) / f"{Path(sources[0]).stem}-{abs(hash(options)):x}"
    files = [SOURCES / name for name in sources]
    # The headers of C++17 take half as long again. Only cooperative groups need them.
    standard = "c++17" if any("cooperative_groups" in file.read_text() for file in files) else "c++14"
    command = ["nvcc", "-cudart", "shared", f"-std={standard}", *options, "-o", str(program), *map(str, files)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return program


def run(program: Path | str, *arguments: str, options: tuple[str, ...] = (), path: str = "") -> tuple[int, str, str]:
    """Exit code, output and errors of `warpsight run`; `path` is another folder of Python's modules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{Path(warpsight.__file__).parents[1]}:{path}".rstrip(":"))
        return command_line("run", *options, "--", str(program), *arguments)


def command_line(*words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of `warpsight WORDS` in this process, with what the programs print that it starts."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        with _redirected("stdout", 1, out), _redirected("stderr", 2, errors):
            code = main(list(words))
        for file in (out, errors):
            file.seek(0)
        printed, said = out.read().decode(), errors.read().decode()
    assert code != DEFECT, said
    return code, printed, said


@contextmanager
def _redirected(name: str, number: int, file: IO[bytes]) -> Iterator[None]:
    """`sys.NAME` and the file descriptor `number` write to `file`."""
    before, kept = getattr(sys, name), os.dup(number)
    before.flush()
    os.dup2(file.fileno(), number)
    try:
        with open(number, "w", closefd=False) as stream:
            setattr(sys, name, stream)
            yield
    finally:
        setattr(sys, name, before)
        os.dup2(kept, number)
        os.close(kept)


def run_json(program: Path, *arguments: str, options: tuple[str, ...] = ()) -> tuple[int, dict[str, Any], str]:
    """Exit code, result document, and what the program printed (to stderr, with --json)."""
    code, output, errors = run(program, *arguments, options=("--json", *options))
    return code, json.loads(output), errors
