from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpsight.base.errors import UsageError
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.launch_check import make_launch, parse_dim3
from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("value", "dims"),
    [
        ("128", (128, 1, 1)),
        ("16x64", (16, 64, 1)),
        ("12,12,1", (12, 12, 1)),
        ("(16, 16)", (16, 16, 1)),
        ("[8,4,2]", (8, 4, 2)),
        ("1<<10 x 2", (1024, 2, 1)),
        ("0x10", (16, 1, 1)),
        ("(1<<4)*2", (32, 1, 1)),
        (7, (7, 1, 1)),
        ((3, 2), (3, 2, 1)),
        ([np.int64(3)], (3, 1, 1)),
    ],
)
def test_parse_dim3_in_any_spelling_fills_up_with_ones(value: Any, dims: tuple[int, int, int]) -> None:
    assert parse_dim3(value, "grid") == dims


@pytest.mark.parametrize("value", ["", "x", "1,2,3,4", "16x", "1.5", "a", (), (1, 2, 3, 4), 1.5, True, None, (1.0,), "(1,2"])
def test_parse_dim3_of_what_is_none_is_refused(value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        parse_dim3(value, "grid")
    assert caught.value.place == "grid"


@pytest.mark.parametrize(
    ("grid", "block", "place", "complaint"),
    [
        (0, 32, "grid", r"\(0,1,1\) has 0 in x"),
        ("4x0", 32, "grid", "has 0 in y"),
        (-1, 32, "grid", "has -1 in x"),
        (2**31, 32, "grid", "2,147,483,648 in x, above CUDA's limit of 2,147,483,647"),
        ("1x65536", 32, "grid", "65,536 in y"),
        ("1x1x65536", 32, "grid", "65,536 in z"),
        (1, 0, "block", "has 0 in x"),
        (1, 2048, "block", "2,048 threads, above CUDA's limit of 1,024"),
        (1, "64x32", "block", "2,048 threads"),
        (1, "1x1x65", "block", "65 in z, above CUDA's limit of 64"),
        (1, "-1x-32", "block", "has -1 in x"),
    ],
)
def test_make_launch_beyond_the_limits_of_cuda_is_refused(
    small: KernelSource, grid: Any, block: Any, place: str, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        make_launch(small, "bounded", grid, block, [np.zeros(1)])
    assert caught.value.place == place


def test_make_launch_at_the_limits_is_made(small: KernelSource) -> None:
    launch = make_launch(small, "saxpy", (2**31 - 1, 65535, 65535), (4, 4, 64), [1.0, np.zeros(1), np.zeros(1), 1, 1], shared="2Ki")
    assert launch.kernel == "_Z5saxpyfPKfPfix"
    assert (launch.grid, launch.block, launch.shared_bytes) == ((2**31 - 1, 65535, 65535), (4, 4, 64), 2048)
    assert launch.threads_per_block == 1024


def test_make_launch_above_the_bounds_of_the_kernel_is_refused(small: KernelSource) -> None:
    assert make_launch(small, "bounded", 1, 128, [np.zeros(1)]).threads_per_block == 128
    with pytest.raises(UsageError, match=r"160 threads, and bounded was compiled for at most 128 \(\.maxntid\)"):
        make_launch(small, "bounded", 1, 160, [np.zeros(1)])


def test_make_launch_with_another_block_than_required_is_refused() -> None:
    ptx = ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry f()\n.reqntid 16, 8, 1\n{\n\tret;\n}\n"
    source = load_source(ptx)
    assert make_launch(source, None, 1, "16x8").block == (16, 8, 1)
    with pytest.raises(UsageError, match=r"compiled for \(16,8,1\) only") as caught:
        make_launch(source, None, 1, 128)
    assert "`block='16x8x1'`" in caught.value.remedy


@pytest.mark.parametrize(
    ("shared", "complaint"), [(-1, "is negative"), ("-4", "is negative"), ("lots", "not a whole number"), (1.5, "not a")]
)
def test_make_launch_with_shared_memory_that_cannot_be_is_refused(small: KernelSource, shared: Any, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        make_launch(small, "bounded", 1, 32, [np.zeros(1)], shared=shared)
    assert caught.value.place == "shared"
