"""A kernel's arguments, from Python values and texts, checked against the parameters that it declares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warpsight.base.errors import UsageError
from warpsight.isa.program import Function, Variable
from warpsight.workload.arguments import array_argument, parse_argument
from warpsight.workload.images import Image
from warpsight.workload.launch import Argument, ArrayArgument, ScalarArgument
from warpsight.workload.mangling import display_name
from warpsight.workload.scalars import pack_for, parameter_text, require_array, require_bytes, require_scalar


def describe_parameters(function: Function) -> str:
    """`(u64 (or array), u32)`: what the kernel takes, in order."""
    return f"({', '.join(parameter_text(parameter) for parameter in function.parameters)})"


def _bind_one(value: Any, parameter: Variable, seed: int, position: int) -> Argument:
    place = f"argument {position + 1}"
    if isinstance(value, str):
        return parse_argument(value, parameter, seed, position=position)
    if isinstance(value, Image):
        require_array(parameter, place)
        return value
    if isinstance(value, (ArrayArgument, np.ndarray)):
        require_array(parameter, place)
        return value if isinstance(value, ArrayArgument) else array_argument(value, place)
    return ScalarArgument(_scalar_bytes(value, parameter, place))


def _scalar_bytes(value: Any, parameter: Variable, place: str) -> bytes:
    if isinstance(value, np.generic):
        require_scalar(value.dtype, parameter, place)
        return value.tobytes()
    if isinstance(value, (bool, int, float)):
        return pack_for(value, parameter, place)
    if isinstance(value, ScalarArgument):
        data = value.data
    elif isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
    else:
        raise UsageError(
            f"a {type(value).__name__} cannot be passed to a kernel",
            place=place,
            remedy="pass a NumPy array or scalar, an int, a float, a bool, bytes, or a text such as 'f32[1024]:uniform'",
        )
    require_bytes(data, parameter, place)
    return data


def bind(function: Function, arguments: Sequence[Any], *, seed: int = 0) -> tuple[Argument, ...]:
    """The arguments of a launch of `function`, in order.

    Arrays are device memory and are not copied here (written back after the run unless read-only); a Texture or Surface becomes an
    object and the parameter its handle; NumPy scalars go by their dtype, Python numbers take the parameter's type and must fit,
    bytes go as they are, texts are read by `parse_argument` with `seed`.
    Raises UsageError that names the position (counted from 1), or lists the parameters when the count is wrong.
    """
    expected, given = len(function.parameters), len(arguments)
    if expected != given:
        raise UsageError(
            f"{display_name(function.name)} takes {expected} argument(s), and the number given is {given}",
            place="arguments",
            remedy=f"its parameters are {describe_parameters(function)}",
        )
    pairs = zip(arguments, function.parameters, strict=True)
    return tuple(_bind_one(value, parameter, seed, position) for position, (value, parameter) in enumerate(pairs))
