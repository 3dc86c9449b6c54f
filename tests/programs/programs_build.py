"""Builds and runs the programs of this folder: once each per test session."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import warpsight

SOURCES = Path(__file__).parent / "sources"
PTX = "-gencode=arch=compute_75,code=compute_75"

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
_FOLDER = tempfile.TemporaryDirectory(prefix="warpsight-programs-")


@functools.cache
def build(*sources: str, options: tuple[str, ...] = (PTX,)) -> Path:
    """A program from sources of this folder."""
    program = Path(_FOLDER.name) / f"{Path(sources[0]).stem}-{abs(hash(options)):x}"
    command = ["nvcc", "-cudart", "shared", *options, "-o", str(program), *(str(SOURCES / name) for name in sources)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return program


def run(program: Path | str, *arguments: str, options: tuple[str, ...] = (), path: str = "") -> tuple[int, str, str]:
    """Exit code, output and errors of `warpsight run`; `path` is another folder of Python's modules."""
    command = [sys.executable, "-m", "warpsight", "run", *options, "--", str(program), *arguments]
    environment = os.environ | {"PYTHONPATH": f"{Path(warpsight.__file__).parents[1]}:{path}".rstrip(":")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    return done.returncode, done.stdout, done.stderr


def run_json(program: Path, *arguments: str, options: tuple[str, ...] = ()) -> tuple[int, dict[str, Any], str]:
    """Exit code, result document, and what the program printed (to stderr, with --json)."""
    code, output, errors = run(program, *arguments, options=("--json", *options))
    return code, json.loads(output), errors
