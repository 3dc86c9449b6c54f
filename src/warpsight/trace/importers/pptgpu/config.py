"""`app_config.py`: the launches of a program, written as Python. It is read as data and never executed."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from warpsight.base.errors import FormatError

_MOST_BYTES = 1 << 26
_LIST = "app_kernels_id"
_REMEDY = "give it as the tracer wrote it: kernel_1 = {...} and app_kernels_id = [...], literals alone"


@dataclass(frozen=True)
class KernelConfig:
    """What stands in ``kernel_<number> = {...}``, at `line`.

    `blocks` in the grid and `threads` of a block are totals; `shared_bytes` static and dynamic together; `cluster` blocks in a
    cluster, 0 where nothing is said.
    """

    number: int
    line: int
    name: str
    registers: int
    shared_bytes: int
    blocks: int
    threads: int
    stream: int
    cluster: int


def read_config(path: Path) -> list[KernelConfig]:
    """The traced kernels in the order of ``app_kernels_id``. Raises FormatError, with file and line, for anything but literals."""
    values: dict[str, tuple[int, Any]] = {}
    for name, line, value in _assignments(path):
        if name in values:
            _refuse(path, line, f"{name} is given twice; which one is meant?")
        values[name] = (line, value)
    if _LIST not in values:
        _refuse(path, 0, f"it has no {_LIST}, which is its last line: the file may be cut")
    line, numbers = values[_LIST]
    if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n < 10**9 for n in numbers):
        _refuse(path, line, f"{_LIST} is no list of whole numbers")
    if len(set(numbers)) < len(numbers):
        _refuse(path, line, f"{_LIST} names a kernel twice")
    found = []
    for number in numbers:
        if f"kernel_{number}" not in values:
            _refuse(path, line, f"{_LIST} names kernel {number}, and there is no kernel_{number}")
        found.append(_kernel(path, number, *values[f"kernel_{number}"]))
    return found


def _assignments(path: Path) -> list[tuple[str, int, Any]]:
    """(name, line, value) of each assignment in the file."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            _refuse(path, 0, "it is larger than any list of kernels")
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", place=str(path), remedy="check the path") from None
    except UnicodeDecodeError:
        _refuse(path, 0, "it is not UTF-8 text")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in strings
            tree = ast.parse(text)
    except SyntaxError as error:
        _refuse(path, error.lineno or 0, f"it is no Python: {error.msg}")
    except (ValueError, RecursionError, MemoryError):
        _refuse(path, 0, "it is no Python that a tracer writes")
    found = []
    for node in tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            _refuse(path, node.lineno, "this is no assignment of a literal to a name, and nothing of the file is executed")
        try:
            value = ast.literal_eval(node.value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            _refuse(path, node.lineno, "the value is no literal, and nothing of the file is executed")
        found.append((node.targets[0].id, node.lineno, value))
    return found


def _kernel(path: Path, number: int, line: int, value: Any) -> KernelConfig:
    if not isinstance(value, dict):
        _refuse(path, line, f"kernel_{number} is no dictionary")

    def count(key: str, least: int, most: int, default: int | None = None) -> int:
        given = value.get(key, default)
        if type(given) is not int or not least <= given <= most:
            shown = "missing" if given is None else repr(given)[:40]
            _refuse(path, line, f"{key} of kernel_{number} is {shown}, not a whole number from {least:,} to {most:,}")
        return given

    name = value.get("kernel_name")
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        _refuse(path, line, f"kernel_name of kernel_{number} is missing, or is no text")
    return KernelConfig(
        number, line, name, count("num_registers", 0, 255), count("shared_mem_bytes", 0, 1 << 30), count("grid_size", 1, 1 << 40),
        count("block_size", 1, 1024), count("cuda_stream_id", -(1 << 63), 1 << 64, 0), count("cluster_size", 0, 1 << 20, 0),
    )  # fmt: skip


def _refuse(path: Path, line: int, what: str) -> NoReturn:
    raise FormatError(what, place=f"{path}:{line}" if line else str(path), remedy=_REMEDY)
