"""Do kernels that synchronise through cooperative groups run: a whole grid, a block, tiles of a warp?"""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from emulator_launch import cuda, launch

from warpsight.base.errors import WarpsightError
from warpsight.kernels.launch import KernelSource

pytestmark = pytest.mark.unit
I32 = np.int32


@pytest.fixture(scope="module")
def source() -> KernelSource:
    try:
        return cuda("cooperative.cu")
    except WarpsightError as error:
        pytest.skip(f"the compiler has no cooperative groups: {error}")


@pytest.mark.parametrize(("grid", "block", "rounds"), [(1, 64, 2), (30, 96, 5)])
def test_grid_sync_shows_each_thread_what_all_wrote(source: KernelSource, grid: int, block: int, rounds: int) -> None:
    n = grid * block
    a, out = np.zeros(2 * n, I32), np.zeros(n, I32)
    launch(source, "grid_sync", grid, block, [a, out, rounds], max_instructions=10**8)
    x = np.arange(n)
    for r in range(rounds):
        x = (np.roll(x, -33) if r else x) * 2 + r
    assert out.tolist() == x[::-1].tolist()


def test_tiles_of_a_warp_vote_and_exchange_apart(source: KernelSource) -> None:
    x, out = np.random.default_rng(5).integers(0, 12, 96, dtype=I32), np.zeros(96, I32)
    launch(source, "tiles", 1, 96, [x, out])
    wanted = []
    for t in range(96):
        mine = [int(v) for v in x[t // 8 * 8 : t // 8 * 8 + 8]]
        ballot = sum((v & 1) << k for k, v in enumerate(mine))
        wanted.append(ballot + 1000 * mine[3] + 100000 * (7 in mine) + 200000 * (9 not in mine))
    assert out.tolist() == wanted


def _resident_bytes() -> int:
    """What the process has in memory (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_blocks_that_wait_for_a_grid_give_their_memory_back_without_the_collector(source: KernelSource) -> None:
    # 96 blocks of 32 warps, whose states take more than 4 MB each, though little of it is ever written
    grid, block = 96, 1024
    a, out = np.zeros(2 * grid * block, I32), np.zeros(grid * block, I32)
    gc.collect()
    gc.disable()
    try:
        launch(source, "grid_sync", grid, block, [a, out, 1], max_instructions=10**8)
        before = _resident_bytes()
        for _ in range(3):
            launch(source, "grid_sync", grid, block, [a, out, 1], max_instructions=10**8)
        grown = _resident_bytes() - before
    finally:
        gc.enable()
    assert grown < 32 << 20
