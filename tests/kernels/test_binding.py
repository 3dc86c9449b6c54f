from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from warpsight.base.errors import UsageError
from warpsight.isa.ptx.program import Function
from warpsight.kernels.launch import ArrayArgument, KernelSource, ScalarArgument
from warpsight.kernels.launch_check import bind, describe_parameters
from warpsight.kernels.sources import find_kernel

pytestmark = pytest.mark.unit


@pytest.fixture
def saxpy(small: KernelSource) -> Function:
    return small.module.kernels[find_kernel(small, "saxpy")]


@pytest.fixture
def mixed(small: KernelSource) -> Function:
    return small.module.kernels[find_kernel(small, "mixed")]


def _data(arguments: tuple[Any, ...]) -> list[bytes]:
    return [argument.data for argument in arguments if isinstance(argument, ScalarArgument)]


def test_python_numbers_take_the_types_of_the_parameters(saxpy: Function) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    bound = bind(saxpy, [2, x, y, -1, -(1 << 40)])
    assert _data(bound) == [struct.pack("<f", 2.0), struct.pack("<i", -1), struct.pack("<q", -(1 << 40))]
    assert isinstance(bound[1], ArrayArgument) and bound[1].array is x and bound[1].written_back


def test_struct_bool_and_narrow_parameters_get_their_bytes(mixed: Function) -> None:
    out = np.zeros(1, np.int32)
    bound = bind(mixed, [struct.pack("<3f", 1, 2, 3), True, -5, np.int16(-300), 0.25, np.float32(1.5), out])
    assert [len(data) for data in _data(bound)] == [12, 1, 1, 2, 8, 4]
    assert _data(bound)[1:] == [b"\1", b"\xfb", struct.pack("<h", -300), struct.pack("<d", 0.25), struct.pack("<f", 1.5)]


def test_read_only_array_is_not_written_back(saxpy: Function) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    x.flags.writeable = False
    bound = bind(saxpy, [1.0, x, y, 4, 0])
    assert [argument.written_back for argument in bound if isinstance(argument, ArrayArgument)] == [False, True]


def test_texts_and_python_values_mix_and_the_seed_reaches_the_rules(saxpy: Function) -> None:
    first, same, other = (bind(saxpy, ["0.5", "f32[8]:uniform", np.zeros(8), 8, 0], seed=seed) for seed in (1, 1, 2))
    assert isinstance(first[1], ArrayArgument) and isinstance(same[1], ArrayArgument) and isinstance(other[1], ArrayArgument)
    np.testing.assert_array_equal(first[1].array, same[1].array)
    assert not np.array_equal(first[1].array, other[1].array)


def test_null_pointer_is_a_number(saxpy: Function) -> None:
    assert _data(bind(saxpy, [1.0, 0, np.zeros(1), 1, 1]))[1] == bytes(8)


def test_wrong_number_of_arguments_lists_the_parameters(saxpy: Function) -> None:
    with pytest.raises(UsageError, match=r"saxpy takes 5 argument\(s\), 2 given") as caught:
        bind(saxpy, [1, 2])
    assert describe_parameters(saxpy) == "(f32, u64 (or array), u64 (or array), u32, u64 (or array))"
    assert describe_parameters(saxpy) in caught.value.remedy


@pytest.mark.parametrize(
    ("position", "value", "complaint"),
    [
        (0, np.zeros(4), "an array is given, and the parameter is f32"),
        (0, np.float64(1), "f64 has 8 bytes"),
        (0, np.int32(1), "i32 is given, and the parameter is f32"),
        (0, 1e300, "does not fit in f32"),
        (1, np.zeros((4, 4))[:, 1], "not C-contiguous"),
        (1, np.zeros(0), "no elements"),
        (1, np.array([{}], dtype=object), "Python objects"),
        (1, np.zeros(2, ">f4"), "big-endian"),
        (1, [1, 2, 3], "a list cannot be passed"),
        (3, 2**32, "does not fit in u32"),
        (3, -(2**31) - 1, "does not fit in i32"),
        (3, 1.5, "not a whole number"),
        (3, float("nan"), "not a whole number"),
        (3, np.int64(1), "i64 has 8 bytes"),
        (3, b"\0\0", "2 bytes are given"),
        (3, None, "a NoneType cannot be passed"),
        (3, "i64:1", "i64 has 8 bytes"),
        (3, ScalarArgument(b"\0"), "1 bytes are given"),
        (3, ArrayArgument(np.zeros(1)), "holds no address"),
    ],
)
def test_wrong_argument_names_its_position(saxpy: Function, position: int, value: object, complaint: str) -> None:
    arguments: list[object] = [1.0, np.zeros(4), np.zeros(4), 4, 0]
    arguments[position] = value
    with pytest.raises(UsageError, match=complaint) as caught:
        bind(saxpy, arguments)
    assert caught.value.place.startswith(f"argument {position + 1}")
