"""Does a grid follow the block, the macros and the arguments of its launch, exactly, and does a slip in it get one clear error?"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from warpsight.base.errors import UsageError
from warpsight.kernels.launch import Launch
from warpsight.kernels.launch_check import parse_dim3
from warpsight.kernels.launch_file import LaunchSpec, prepare
from warpsight.kernels.values import has_names, parse_integer

pytestmark = pytest.mark.unit
PTX = """.version 8.0
.target sm_75
.address_size 64
.visible .entry fill(.param .u64 out, .param .u32 n) { ret; }
"""


@pytest.mark.parametrize(
    ("text", "value"),
    [("ceil(n / block.x)", 8), ("n / 250", 4), ("floor(n / 256) * 2", 6), ("cdiv(n, TILE * 2)", 32), ("-(-n // 256)", 4),
     ("max(n, 7, TILE) - min(3, 2)", 998), ("(n + block.x - 1) // block.x", 8), ("2**33 * ceil((TILE + 2**33) / 2**33)", 2**34)],
)  # fmt: skip
def test_expressions_are_exact(text: str, value: int) -> None:
    assert parse_integer(text, "grid", {"n": 1000, "block.x": 128, "TILE": 16}) == value


@pytest.mark.parametrize(
    ("text", "what"),
    [("ceil(m / 2)", 'm is not known; did you mean "'), ("n / 3", "it is 1000/3, and ceil"), ("ceil(n / 0)", "is not a whole"),
     ("cdiv(n)", "cdiv takes 2"), ("cdiv(n, 0)", "is not a whole"),
     ("max(n)", "max takes two or more"), ("ceil(n / 2", "a parenthesis is not closed"),
     ("n n", "unexpected"), ("ceil(1e0 * n)", "unexpected")],
)  # fmt: skip
def test_slip_in_an_expression_is_named(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=re.escape(what)):
        parse_integer(text, "grid", {"n": 1000, "TILE": 16})


@pytest.mark.parametrize("text", ["16x64", "16 x 64", "16X64", "4Ki", "0x10", "(16, 16)", "1 << 20", "2**20"])
def test_numbers_and_dimensions_have_no_names(text: str) -> None:
    assert not has_names(text)


def test_dimensions_are_told_apart_by_commas_outside_of_parentheses() -> None:
    assert parse_dim3("ceil(n / 16), max(n, 2), 4", "grid", {"n": 33}) == (3, 33, 4)
    assert parse_dim3(["ceil(n / 16)", 5], "grid", {"n": 33}) == (3, 5, 1)  # type: ignore[list-item]
    assert parse_dim3("[n, 4]", "grid", {"n": 33}) == (33, 4, 1)


def launched(tmp_path: Path, **settings: object) -> Launch:
    path = tmp_path / "fill.ptx"
    path.write_text(PTX)
    spec = LaunchSpec(**{"source": str(path), "args": ("f32[64]:zeros", 1000), **settings})  # type: ignore[arg-type]
    return prepare(spec)[1]


def test_launch_reads_arguments_by_name_and_number_and_the_block(tmp_path: Path) -> None:
    one = launched(tmp_path, grid="ceil(n / block.x)", block=64, shared="4 * block")
    assert (one.grid, one.block, one.shared_bytes) == ((16, 1, 1), (64, 1, 1), 256)
    assert launched(tmp_path, grid="ceil(arg.2 / block)", block=(8, 8)).grid == (16, 1, 1)
    assert launched(tmp_path, grid="ceil(n / block.y), 2", block="32x4", args=("f32[64]:zeros", np.int32(9))).grid == (3, 2, 1)


def test_block_reads_no_block_and_an_array_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"block: .*block\.x is not known"):
        launched(tmp_path, grid=1, block="block.x")
    with pytest.raises(UsageError, match=r"grid: .*out is not known"):
        launched(tmp_path, grid="out", block=32)


def test_macros_of_cuda_and_names_of_its_parameters_are_read(tmp_path: Path) -> None:
    path = tmp_path / "tiled.cu"
    path.write_text("__global__ void tiled(float* out, const int elements) { out[threadIdx.x] = elements; }\n")
    args, grid = ("f32[64]:zeros", "i32:100"), "ceil(elements / (SIDE * SIDE))"
    spec = LaunchSpec(str(path), grid, "SIDE, SIDE", args=args, defines=("SIDE=4", "U"))
    one = prepare(spec)[1]
    assert (one.grid, one.block) == ((7, 1, 1), (4, 4, 1))
