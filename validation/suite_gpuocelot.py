"""Reads the PTX tests of GPUOcelot: C++ functions that make PTX, random inputs and, in C++, the expected results.

The suite's test file is compiled here, with our driver (`gpuocelot_driver.cpp`) that prints the results of its functions; the
rest of GPUOcelot is neither built nor run.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite_case import Array, Case

DRIVER = Path(__file__).with_name("gpuocelot_driver.cpp")
SEEDS = 10
_TYPES = tuple(np.dtype(name) for name in ("i1", "i2", "i4", "i8", "f4", "f8"))
_IR = "ocelot/ocelot/ir"
_HYDRAZINE = "ocelot/hydrazine/hydrazine/implementation"
_SOURCES = (
    *(f"{_IR}/implementation/{name}.cpp" for name in ("PTXInstruction", "PTXOperand", "Instruction")),
    *(
        f"{_HYDRAZINE}/{name}.cpp"
        for name in ("math", "FloatingPoint", "debug", "string", "Exception", "Timer", "LowLevelTimer", "Test", "ArgumentParser")
    ),
)
_GENERATOR = """#pragma once
#include <random>
namespace boost { namespace random {
template <typename word, int, int, int, int, word, int, int, word, int, word, int, word> struct mersenne_twister : std::mt19937 {};
} }
"""
_HEADERS = {  # what the suite includes of its launches, its build and Boost
    "boost/random/mersenne_twister.hpp": _GENERATOR,
    "ocelot/api/interface/ocelot.h": "",
    "ocelot/cuda/interface/cuda_runtime.h": "",
    "configure.h": "",
}


def read_cases(root: Path) -> list[Case]:
    """The tests of the checkout `root`, with its submodule `ocelot/hydrazine`, each with `SEEDS` random inputs."""
    with tempfile.TemporaryDirectory() as folder:
        program = _build(root.resolve(), Path(folder))
        text = subprocess.run([program, str(SEEDS)], check=True, capture_output=True, text=True).stdout
    return [case for line in text.splitlines() for case in _cases(line.split(" "))]


def _build(root: Path, folder: Path) -> Path:
    for name, text in _HEADERS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    program, suite = folder / "tests", root / _IR / "test/TestPTXAssembly.cpp"
    flags = ["-std=c++11", "-O1", "-w", "-fpermissive", "-fno-access-control", "-frounding-math", f'-DSUITE_FILE="{suite}"']
    includes = [f"-I{path}" for path in (folder, root / "ocelot", root / "ocelot/hydrazine")]
    sources = [str(DRIVER), *(str(root / name) for name in _SOURCES)]
    subprocess.run(["g++", *flags, *includes, *sources, "-o", str(program)], check=True)
    return program


def _cases(fields: list[str]) -> Iterator[Case]:
    """The cases of one line of the driver: name, threads, blocks, epsilon, output types, PTX, pairs of input and expectation."""
    name, threads, blocks, epsilon, kinds, ptx, *data = fields
    types = [_TYPES[int(kind)] for kind in kinds]
    if len(set(types)) != 1:
        raise ValueError(f"{name}: outputs of several types")
    for given, expected in zip(data[::2], data[1::2], strict=True):
        wanted: Array = np.frombuffer(bytes.fromhex(expected), types[0])
        arguments = (np.zeros_like(wanted), np.frombuffer(bytes.fromhex(given), np.uint8))
        same = _Same(int(epsilon))
        yield Case(name, bytes.fromhex(ptx).decode(), "test", arguments, 0, wanted, same, int(threads), int(blocks))


class _Same:
    """Equal integers; of floats, as the suite's own harness has it, a difference of 2^`power` machine epsilons at most."""

    def __init__(self, power: int) -> None:
        self.power = power

    def __call__(self, found: Array, expected: Array) -> NDArray[np.bool_]:
        if found.dtype.kind != "f":
            return np.asarray(found == expected)
        limit = float(np.finfo(np.float32 if found.itemsize == 4 else np.float64).eps) * 2.0**self.power
        with np.errstate(all="ignore"):
            x, y = found.astype(np.float64), expected.astype(np.float64)
            small = np.abs(x) < (1e4 if found.itemsize == 4 else 1e15)
            difference = np.where(small, np.abs(x - y), np.abs(1 - x / y))
        return np.asarray((np.isnan(x) & np.isnan(y)) | (x == y) | (difference <= limit))
