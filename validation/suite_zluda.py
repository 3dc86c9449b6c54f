"""Reads the PTX tests of ZLUDA: `.ptx` files, and a Rust file that lists the inputs and the expected results of each."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite_case import Array, Case

FOLDER = Path("ptx/src/test/spirv_run")
OUTPUT_ROOM = 4096  # bytes after the expected output, as a GPU's allocation has: second warps store what nobody compares
WARP_BLOCK = 64
DYNAMIC_SHARED = 1024

_CALL = re.compile(r"^test_ptx(_warp|_with_32)?!\(", re.MULTILINE)
_NUMBER = re.compile(r"(-?)(0x[0-9A-Fa-f_]+?|0b[01_]+?|[0-9][0-9_]*(?:\.[0-9_]+)?)_*([iu](?:8|16|32|64)|f(?:32|64))?$")
_TYPES = {
    **{f"{kind}{bits}": np.dtype(f"{kind}{bits // 8}") for kind in "iu" for bits in (8, 16, 32, 64)},
    **{name: np.dtype(name.replace("f", "float")) for name in ("f16", "f32", "f64")},
}
_CONSTANTS = {"NAN": math.nan, "INFINITY": math.inf, "NEG_INFINITY": -math.inf, "PI": math.pi}


def read_cases(root: Path) -> tuple[list[Case], list[str]]:
    """The tests of the checkout `root` with an expectation, and the names of those without."""
    folder = root / FOLDER
    cases, without = [], []
    for name, kind, arrays in _tests((folder / "mod.rs").read_text()):
        if not arrays:
            without.append(name)
            continue
        ptx = (folder / f"{name}.ptx").read_text()
        expected = _array(arrays[-1])
        output: Array = np.zeros(len(expected) + OUTPUT_ROOM // expected.itemsize, expected.dtype)
        warp = kind == "_warp"
        arguments = (output,) * _parameters(ptx, name) if warp else (_array(arrays[0]), output)
        block = WARP_BLOCK if warp else 1
        cases.append(Case(name, ptx, name, arguments, len(arguments) - 1, expected, _same, block, shared=DYNAMIC_SHARED))
    return cases, without


def _same(found: Array, expected: Array) -> NDArray[np.bool_]:
    """Equal values, as the suite's own harness compares; no test of it expects a NaN."""
    return np.asarray(found == expected)


def _parameters(ptx: str, kernel: str) -> int:
    """How many parameters the kernel declares."""
    head = re.search(rf"\.entry\s+{kernel}\s*\((.*?)\)", ptx, re.DOTALL)
    return head[1].count(".param") if head else 0


def _tests(rust: str) -> Iterator[tuple[str, str, list[list[str]]]]:
    """Of every test: its name, the kind of its macro, and its arrays as lists of the elements' texts."""
    rust = re.sub(r"//[^\n]*", "", rust)
    for call in _CALL.finditer(rust):
        depth, end = 1, call.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(rust[end], 0)
            end += 1
        body = rust[call.end() : end - 1]
        arrays = [[item.strip() for item in text.split(",") if item.strip()] for text in re.findall(r"\[([^\]]*)\]", body)]
        yield body.split(",")[0].strip(), call[1] or "", arrays


def _array(items: list[str]) -> Array:
    """The elements as an array of the one type that any of them names; integers are i32 where none does."""
    values = [_value(item) for item in items]
    named = {kind for _, kind in values if kind}
    if len(named) > 1:
        raise ValueError(f"elements of several types: {items}")
    fallback = "f64" if any(isinstance(value, float) for value, _ in values) else "i32"
    return np.array([value for value, _ in values], _TYPES[named.pop() if named else fallback])


def _value(item: str) -> tuple[int | float, str]:
    """Value and type name (empty: not stated) of one Rust expression, as far as the suite uses them."""
    if number := _NUMBER.fullmatch(item):
        digits, kind = number[2].replace("_", ""), number[3] or ""
        value = float(digits) if "." in digits or kind.startswith("f") else int(digits, 0)
        return (-value if number[1] else value), kind
    if made := re.fullmatch(r"(?:half::)?(f16|f32|f64)::from_(bits|f32|f64)\((.*)\)", item):
        value = _value(made[3])[0]
        return (_from_bits(int(value), made[1]) if made[2] == "bits" else float(value)), made[1]
    if extreme := re.fullmatch(r"([iu]\d+)::(MAX|MIN|max_value\(\))", item):
        info = np.iinfo(_TYPES[extreme[1]])
        return (info.min if extreme[2] == "MIN" else info.max), extreme[1]
    if bits := re.fullmatch(r"(.*)\.to_bits\(\)", item):
        value, kind = _value(bits[1])
        return int.from_bytes(np.array(value, _TYPES[kind]).tobytes(), "little"), kind.replace("f", "u")
    if constant := re.fullmatch(r"(?:std::|half::)?(f16|f32|f64)::(?:consts::)?([A-Z_]+)(?: / (\w+))?", item):
        return _CONSTANTS[constant[2]] / (_value(constant[3])[0] if constant[3] else 1), constant[1]
    raise ValueError(f"not understood: {item}")


def _from_bits(bits: int, kind: str) -> float:
    """The value of a float type's bit pattern."""
    dtype = _TYPES[kind]
    return float(np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype)[0])
