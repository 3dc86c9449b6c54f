"""Whole CUDA kernels that hide copies behind work: the results are those of the plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import KERNELS, launch
from trace_reader import accesses

from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit
RNG = np.random.default_rng(3)


def test_two_stages_of_copies_give_the_sums() -> None:
    tiles = RNG.integers(0, 100, (5, 64, 4)).astype(np.float32)
    out = np.zeros(64, np.float32)
    source = load_source(KERNELS / "async_copies.cu", arch="compute_90")
    trace = launch(source, "two_stages", 1, 64, [tiles, out, 5])
    read = tiles.copy()
    read[:, 1::2, 2:] = 0
    np.testing.assert_array_equal(out, read.sum(axis=(0, 2))[::-1])
    # A warp's 32 copies of 16 bytes touch 16 sectors, tile after tile 1 KiB on.
    first = (1 << 32) // 32
    copies = [a.sectors for a in accesses(trace, 1) if a.opcode.startswith("cp.async")]
    assert copies == [tuple(range(first + 32 * k + 16, first + 32 * k + 32)) for k in range(5)]


def test_bulk_copies_and_an_mbarrier_move_each_round() -> None:
    data = RNG.integers(0, 1000, 7 * 256).astype(np.int32)
    wanted = data + 1
    wanted[6 * 256 :] -= 1
    launch(load_source(KERNELS / "async_copies.cu", arch="compute_90"), "bulk_rounds", 1, 256, [data, 6])
    np.testing.assert_array_equal(data, wanted)
