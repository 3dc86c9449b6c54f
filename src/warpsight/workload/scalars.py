"""Scalars of kernels: the types' names, numbers to bytes, and which PTX parameter type takes which."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from warpsight.base.errors import UsageError
from warpsight.isa.program import Variable
from warpsight.workload.sizes import parse_integer

TYPES: dict[str, np.dtype[Any]] = {
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "i16": np.dtype(np.int16),
    "u16": np.dtype(np.uint16),
    "i32": np.dtype(np.int32),
    "u32": np.dtype(np.uint32),
    "i64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bool": np.dtype(np.bool_),
}
# Without the point, exponent, inf or nan of a floating-point number.
_INTEGER = re.compile(r"0[xX].*|[^.eEnN]*|true|false", re.IGNORECASE)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def type_name(dtype: np.dtype[Any]) -> str:
    """`f32` of float32; NumPy's own name for what has none here."""
    return next((name for name, known in TYPES.items() if known == dtype), dtype.name)


def pack(value: str | float | bool, dtype: np.dtype[Any], place: str) -> bytes:
    """The little-endian bytes of `value` as `dtype`. Raises UsageError when it does not fit or is no such number."""
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
    elif value == int(value) if math.isfinite(value) else False:
        integer = int(value)
    else:
        raise UsageError(f"{value} is not a whole number, and the parameter is {name}", place=place, remedy="pass an integer")
    limits = np.iinfo(dtype)
    if not limits.min <= integer <= limits.max:
        raise UsageError(f"{integer} does not fit in {name} ({limits.min} to {limits.max})", place=place, remedy="use a wider type")
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
    asked_for_infinity = str(value).strip().lower().lstrip("+-").startswith("inf")
    if np.isinf(packed) and not asked_for_infinity:
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

    Raises UsageError where the number does not fit, or where number and parameter together do not tell the type.
    """
    is_integer = isinstance(value, int) or (isinstance(value, str) and _INTEGER.fullmatch(value.strip()) is not None)
    kind, bits = parameter.type[:1], parameter.size * 8
    if is_struct(parameter):
        raise _untyped(parameter, place, "give its bytes, hex:00ff..., or pass bytes in Python")
    if isinstance(value, bool) or str(value).strip().lower() in ("true", "false"):
        number: str | float = int(str(value).strip().lower() == "true")
    else:
        number = value
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
    given, wanted = type_name(dtype), parameter_text(parameter)
    if dtype.itemsize != parameter.size:
        what = f"{given} has {dtype.itemsize} bytes, and the parameter ({wanted}) has {parameter.size}"
        raise UsageError(what, place=place, remedy="give the type that the kernel declares")
    kind = parameter.type[:1]
    if (kind == "f") != (dtype.kind == "f") and kind != "b":
        what = f"{given} is given, and the parameter is {wanted}"
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
