"""Kernel arguments as text (`i32:1024`, `f32[1<<20]:uniform`, `@points.npy`, `hex:0a00ff`) and the scalar types behind them."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.base.errors import FormatError, UsageError, suggestion
from warpsight.base.inputs import open_input
from warpsight.isa.ptx.program import Variable
from warpsight.kernels.arrays import make_array, memory_shortage
from warpsight.kernels.launch import Argument, ArrayArgument, ScalarArgument
from warpsight.kernels.values import parse_integer, parse_size

_NUMPY_CODES = {"i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "i32": "i4", "u32": "u4", "i64": "i8", "u64": "u8",
                "f16": "f2", "f32": "f4", "f64": "f8", "bool": "?"}  # fmt: skip
TYPES: dict[str, np.dtype[Any]] = {name: np.dtype(code) for name, code in _NUMPY_CODES.items()}
# Without the point, exponent, inf or nan of a floating-point number.
_INTEGER = re.compile(r"0[xX].*|[^.eEnN]*|true|false", re.IGNORECASE)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def type_name(dtype: np.dtype[Any]) -> str:
    """`f32` of float32; NumPy's own name for what has none here."""
    return next((name for name, known in TYPES.items() if known == dtype), dtype.name)


def pack(value: str | float | bool, dtype: np.dtype[Any], place: str) -> bytes:
    """The little-endian bytes of `value` as `dtype`. Raises UsageError when it does not fit or is not a number of that type."""
    name = type_name(dtype)
    if dtype == np.bool_:
        word = str(value).strip().lower()
        if word not in _BOOLEANS:
            raise UsageError(f"{value!r} is neither true nor false", place=place, remedy="write bool:true or bool:false")
        return bytes([_BOOLEANS[word]])
    if dtype.kind == "f":
        return _pack_float(value, dtype, name, place)
    if isinstance(value, str):
        integer = parse_integer(value, place)
    elif math.isfinite(value) and value == int(value):
        integer = int(value)
    else:
        raise UsageError(f"{value} is not a whole number, and the parameter is {name}", place=place, remedy="pass an integer")
    limits = np.iinfo(dtype)
    if not limits.min <= integer <= limits.max:
        remedy = f"give a number in that range, or make it wider than {name} in the kernel"
        raise UsageError(f"{integer} does not fit in {name} ({limits.min} to {limits.max})", place=place, remedy=remedy)
    return integer.to_bytes(dtype.itemsize, "little", signed=dtype.kind == "i")


def _pack_float(value: str | float | bool, dtype: np.dtype[Any], name: str, place: str) -> bytes:
    try:
        number = float(value)
    except ValueError as error:
        raise UsageError(f"{value!r} is not a number", place=place, remedy=f"write e.g. {name}:0.5") from error
    except OverflowError:
        number = math.inf
    with np.errstate(over="ignore"):
        packed = np.asarray(number).astype(dtype)
    if np.isinf(packed) and not str(value).strip().lower().lstrip("+-").startswith("inf"):
        raise UsageError(f"{value} does not fit in {name}", place=place, remedy="use a wider type")
    return packed.tobytes()


def parameter_text(parameter: Variable) -> str:
    """A parameter as errors list it: `u32`, `u64 (or array)`, `16-byte struct`."""
    if is_struct(parameter):
        return f"{parameter.size}-byte struct"
    return f"{parameter.type} (or array)" if takes_array(parameter) else parameter.type


def is_struct(parameter: Variable) -> bool:
    """Whether PTX declares it as an array of bytes, `.b8 name[12]`: a struct, or a class such as `half`, by value."""
    return parameter.type == "b8" and parameter.size > 1


def takes_array(parameter: Variable) -> bool:
    """Whether it can hold a device address."""
    return parameter.is_pointer or (parameter.size == 8 and parameter.type in ("u64", "b64", "s64"))


def pack_for(value: str | float | bool, parameter: Variable, place: str) -> bytes:
    """The bytes of a number without a type, as `parameter` declares it.

    Raises UsageError where the number does not fit, or where number and parameter together do not determine the type.
    """
    is_integer = isinstance(value, int) or (isinstance(value, str) and _INTEGER.fullmatch(value.strip()) is not None)
    kind, bits = parameter.type[:1], parameter.size * 8
    if is_struct(parameter):
        raise _untyped(parameter, place, "give its bytes, hex:00ff..., or pass bytes in Python")
    word = str(value).strip().lower()
    number = int(word == "true") if word in ("true", "false") else value
    if kind == "f":
        return pack(number, _counterpart(f"f{bits}", parameter, place), place)
    if kind == "b" and not is_integer:
        raise _untyped(parameter, place, f"write f{bits}:{value}, or pass a NumPy scalar in Python")
    if not is_integer:
        what = f"{value} is not a whole number, and the parameter is {parameter.type}"
        raise UsageError(what, place=place, remedy="pass an integer")
    # nvcc declares `int` as .u32, so a negative number must be taken as well.
    negative = parse_integer(str(number), place) < 0
    return pack(number, _counterpart(f"{'i' if kind == 's' or negative else 'u'}{bits}", parameter, place), place)


def _counterpart(name: str, parameter: Variable, place: str) -> np.dtype[Any]:
    """The type of that name, where a number alone can be what `parameter` declares: not a vector, nor 128 bits, nor bf16."""
    if name not in TYPES or parameter.type[1:] not in ("8", "16", "32", "64"):
        raise _untyped(parameter, place, "give its bytes, hex:00ff..., or pass bytes in Python")
    return TYPES[name]


def _untyped(parameter: Variable, place: str, remedy: str) -> UsageError:
    return UsageError(f"a bare number has no type for a parameter of type {parameter_text(parameter)}", place=place, remedy=remedy)


def require_scalar(dtype: np.dtype[Any], parameter: Variable, place: str) -> None:
    """Raise UsageError when a scalar of `dtype` is not what `parameter` is: another size, or float for integer."""
    name, declared, kind = type_name(dtype), parameter_text(parameter), parameter.type[:1]
    if dtype.itemsize != parameter.size:
        what = f"{name} has {dtype.itemsize} bytes, and the parameter ({declared}) has {parameter.size}"
    elif (kind == "f") != (dtype.kind == "f") and kind != "b":
        what = f"{name} is given, and the parameter is {declared}"
    else:
        return
    raise UsageError(what, place=place, remedy="give the type that the kernel declares")


def require_bytes(data: bytes, parameter: Variable, place: str) -> None:
    """Raise UsageError when raw bytes are more or fewer than `parameter` has."""
    if len(data) != parameter.size:
        what = f"{len(data)} bytes are given, and the parameter ({parameter_text(parameter)}) has {parameter.size}"
        raise UsageError(what, place=place, remedy="give as many bytes as the kernel declares")


def require_array(parameter: Variable, place: str) -> None:
    """Raise UsageError when `parameter` cannot hold a device address."""
    if not takes_array(parameter):
        what = f"an array is given, and the parameter is {parameter_text(parameter)}, which holds no address"
        raise UsageError(what, place=place, remedy="give a scalar, e.g. i32:1024")


# -- Kernel arguments as text.

_ARRAY = re.compile(r"(?P<type>\w+)\[(?P<shape>[^\]]*)\](?::(?P<rule>.*))?", re.DOTALL)
_TYPED = re.compile(r"(?P<type>[A-Za-z]\w*):(?P<value>.*)", re.DOTALL)
_NUMBER = re.compile(r"[-+.\d(]|(?:true|false|inf|nan)$", re.IGNORECASE)
_HELP = "write a scalar (i32:1024), an array (f32[1048576]:uniform, i32[1Mi]:randint(0,100)), @file.npy or hex:00ff"
_MAX_BYTES = 1 << 40


def read_npy(file: str, place: str) -> ArrayArgument:
    """The array in a `.npy` file, as device memory. Raises FormatError for a file that is missing, cut or has no usable array."""
    remedy = "write it with numpy.save(path, numpy.ascontiguousarray(array))"
    path = Path(file)
    if not os.path.isfile(path):
        near = suggestion(path.name, [each.name for each in path.parent.glob("*.npy")] if os.path.isdir(path.parent) else [])
        raise FormatError(f"there is no file {file}{near}", place=place, remedy=remedy)
    try:
        with open_input(path) as opened:
            array = np.load(opened, allow_pickle=False)
    except MemoryError:
        what = f"{file} says that it has an array larger than this machine's memory"
        raise FormatError(what, place=place, remedy=remedy) from None
    except Exception as error:  # NumPy parses the header as Python: anything may come of a damaged one
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
        what = "the array is not C-contiguous, and a copy could not be written back"
        raise UsageError(what, place=place, remedy="pass numpy.ascontiguousarray(array)")
    if array.size == 0:
        raise UsageError("the array has no elements", place=place, remedy="for a null pointer pass u64:0")
    return ArrayArgument(array, written_back=bool(array.flags.writeable))


def _type_named(name: str, place: str) -> np.dtype[Any]:
    if name not in TYPES:
        what = f'"{name}" is not a type{suggestion(name, TYPES)}'
        raise UsageError(what, place=place, remedy=f"the types are: {' '.join(TYPES)}")
    return TYPES[name]


def _array(match: re.Match[str], seed: int, position: int, place: str) -> ArrayArgument:
    dtype = _type_named(match["type"], place)
    if dtype == np.bool_:
        dtype = np.dtype(np.uint8)
    if not match["shape"].strip():
        raise UsageError("the array has no size", place=place, remedy=f"write {match['type']}[1024]:zeros")
    shape = tuple(parse_size(part, place) for part in match["shape"].split(","))
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    shortage = f"more than {_MAX_BYTES >> 30:,} GiB" if size > _MAX_BYTES else memory_shortage(size)
    if shortage:
        raise UsageError(f"the array needs {shortage}", place=place, remedy="use a smaller array")
    if match["rule"] is None:
        remedy = f"write e.g. {match['type']}[{match['shape']}]:zeros"
        raise UsageError("the array has no rule that fills it", place=place, remedy=remedy)
    return ArrayArgument(make_array(match["rule"], shape, dtype, (seed, position), place))


def parse_argument(text: str, parameter: Variable | None = None, seed: int = 0, *, position: int = 0) -> Argument:
    """One argument from `text`; `(seed, position)` seed the arrays made at random.

    `parameter`, when given, is what the kernel declares: a bare number takes its type, anything else must agree with it.
    Raises UsageError or FormatError that name the position (counted from 1) and the text.
    """
    place, stripped = f"argument {position + 1} ({text.strip()})", text.strip()
    match = _ARRAY.fullmatch(stripped)
    if match or stripped.startswith("@") or (stripped.endswith(".npy") and not _TYPED.fullmatch(stripped)):
        if parameter is not None:
            require_array(parameter, place)
        return _array(match, abs(seed), position, place) if match else read_npy(stripped.removeprefix("@"), place)
    return ScalarArgument(_scalar(stripped, parameter, place))


def scalar_number(value: Any) -> int | None:
    """The whole number that a scalar argument or a macro is, given as text (`i32:1024`, `1Mi`) or as a number; None for others."""
    if isinstance(value, str):
        typed = _TYPED.fullmatch(value.strip())
        try:
            return parse_integer(typed["value"] if typed and typed["type"] in TYPES else value, "")
        except UsageError:
            return None
    return int(value) if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else None


def _scalar(text: str, parameter: Variable | None, place: str) -> bytes:
    if match := _TYPED.fullmatch(text):
        if match["type"] == "hex":
            try:
                data = bytes.fromhex(match["value"])
            except ValueError as error:
                raise UsageError(f"hex: {error}", place=place, remedy="give two hexadecimal digits a byte: hex:00ff") from error
            if parameter is not None:
                require_bytes(data, parameter, place)
            return data
        dtype = _type_named(match["type"], place)
        if parameter is not None:
            require_scalar(dtype, parameter, place)
        return pack(match["value"], dtype, place)
    if _NUMBER.match(text) is None:
        raise UsageError("is not an argument", place=place, remedy=_HELP)
    if parameter is None:
        raise UsageError("has no type", place=place, remedy=f"write it as i32:{text} or f32:{text}")
    return pack_for(text, parameter, place)
