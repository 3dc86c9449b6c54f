"""Kernel arguments as text: `i32:1024`, `f32[1<<20]:uniform`, `@points.npy`, `hex:0a00ff`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.base.errors import FormatError, UsageError, suggestion
from warpsight.base.memory import lacks
from warpsight.isa.program import Variable
from warpsight.workload.array_rules import make_array
from warpsight.workload.launch import Argument, ArrayArgument, ScalarArgument
from warpsight.workload.scalars import TYPES, pack, pack_for, require_array, require_bytes, require_scalar
from warpsight.workload.sizes import parse_size

_ARRAY = re.compile(r"(?P<type>\w+)\[(?P<shape>[^\]]*)\](?::(?P<rule>.*))?", re.DOTALL)
_TYPED = re.compile(r"(?P<type>[A-Za-z]\w*):(?P<value>.*)", re.DOTALL)
_NUMBER = re.compile(r"[-+.\d(]|(?:true|false|inf|nan)$", re.IGNORECASE)
_HELP = "write a scalar (i32:1024), an array (f32[1048576]:uniform, i32[1Mi]:randint(0,100)), @file.npy or hex:00ff"
_MAX_BYTES = 1 << 40


def read_npy(file: str, place: str) -> ArrayArgument:
    """The array in a `.npy` file, as device memory.

    Raises FormatError when the file is missing, cut, holds Python objects or is in Fortran order.
    """
    remedy = "write it with numpy.save(path, numpy.ascontiguousarray(array))"
    path = Path(file)
    if not os.path.isfile(path):
        near = suggestion(path.name, [each.name for each in path.parent.glob("*.npy")] if os.path.isdir(path.parent) else [])
        raise FormatError(f"there is no file {file}{near}", place=place, remedy=remedy)
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise FormatError(f"{file} is not a readable .npy file: {error}", place=place, remedy=remedy) from error
    if not isinstance(array, np.ndarray):
        raise FormatError(f"{file} is an archive of several arrays", place=place, remedy=remedy)
    return array_argument(array, f"{place} ({file})")


def array_argument(array: np.ndarray[Any, np.dtype[Any]], place: str) -> ArrayArgument:
    """`array` as device memory: not copied, and written back unless it is read-only. Raises UsageError if it cannot be."""
    if array.dtype.hasobject:
        raise UsageError("an array of Python objects has no device representation", place=place, remedy="give it a numeric dtype")
    if array.dtype.byteorder == ">":
        remedy = "convert it: array.astype(array.dtype.newbyteorder('<'))"
        raise UsageError("the array is big-endian; GPUs are not", place=place, remedy=remedy)
    if not array.flags.c_contiguous:
        raise UsageError(
            "the array is not C-contiguous, and a copy could not be written back",
            place=place,
            remedy="pass numpy.ascontiguousarray(array)",
        )
    if array.size == 0:
        raise UsageError("the array has no elements", place=place, remedy="for a null pointer pass u64:0")
    return ArrayArgument(array, written_back=bool(array.flags.writeable))


def _type_named(name: str, place: str) -> np.dtype[Any]:
    if name not in TYPES:
        what = f'"{name}" is not a type{suggestion(name, TYPES)}'
        raise UsageError(what, place=place, remedy=f"the types are: {' '.join(TYPES)}")
    return TYPES[name]


def _array(found: re.Match[str], seed: int, position: int, place: str) -> ArrayArgument:
    dtype = _type_named(found["type"], place)
    if dtype == np.bool_:
        dtype = np.dtype(np.uint8)
    if not found["shape"].strip():
        raise UsageError("the array has no size", place=place, remedy=f"write {found['type']}[1024]:zeros")
    shape = tuple(parse_size(part, place) for part in found["shape"].split(","))
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if size > _MAX_BYTES:
        raise UsageError(f"the array would take more than {_MAX_BYTES >> 30:,} GiB", place=place, remedy="use a smaller array")
    if lacking := lacks(size):
        raise UsageError(f"the array would take {lacking}", place=place, remedy="use a smaller array")
    if found["rule"] is None:
        remedy = f"write e.g. {found['type']}[{found['shape']}]:zeros"
        raise UsageError("the array has no rule that fills it", place=place, remedy=remedy)
    return ArrayArgument(make_array(found["rule"], shape, dtype, (seed, position), place))


def _hex(value: str, place: str) -> bytes:
    try:
        return bytes.fromhex(value)
    except ValueError as error:
        raise UsageError(f"hex: {error}", place=place, remedy="give two hexadecimal digits a byte: hex:00ff") from error


def parse_argument(text: str, parameter: Variable | None = None, seed: int = 0, *, position: int = 0) -> Argument:
    """One argument from `text`; `(seed, position)` seed the arrays made at random.

    `parameter`, when given, is what the kernel declares: a bare number takes its type, anything else must agree with it.
    Raises UsageError or FormatError that name the position (counted from 1) and the text.
    """
    place, stripped = f"argument {position + 1} ({text.strip()})", text.strip()
    found = _ARRAY.fullmatch(stripped)
    if found or stripped.startswith("@") or (stripped.endswith(".npy") and not _TYPED.fullmatch(stripped)):
        if parameter is not None:
            require_array(parameter, place)
        return _array(found, abs(seed), position, place) if found else read_npy(stripped.removeprefix("@"), place)
    return ScalarArgument(_scalar(stripped, parameter, place))


def _scalar(text: str, parameter: Variable | None, place: str) -> bytes:
    if found := _TYPED.fullmatch(text):
        if found["type"] == "hex":
            data = _hex(found["value"], place)
            if parameter is not None:
                require_bytes(data, parameter, place)
            return data
        dtype = _type_named(found["type"], place)
        if parameter is not None:
            require_scalar(dtype, parameter, place)
        return pack(found["value"], dtype, place)
    if _NUMBER.match(text) is None:
        raise UsageError("is no argument", place=place, remedy=_HELP)
    if parameter is None:
        raise UsageError("has no type", place=place, remedy=f"write it as i32:{text} or f32:{text}")
    return pack_for(text, parameter, place)
