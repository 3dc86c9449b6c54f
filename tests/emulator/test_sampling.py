"""Does a sample of the blocks hold those blocks as the whole trace has them, and is it said that it is a sample?"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from emulator_launch import launch, whole

import warpsight
from warpsight.base.errors import UsageError
from warpsight.emulator.run.launch import choose_blocks
from warpsight.kernels.sources import load_source
from warpsight.pipeline.kernel_input import sample_size
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

SOURCE = """
extern "C" __global__ void sums(float* out, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < (blockIdx.x % 5) + 1; ++k) sum += in[(i + 131 * k) % n];
    if (i < n) out[i] = sum;
}
"""
BLOCKS, THREADS = 200, 96
WARPS = THREADS // 32


def arrays() -> tuple[np.ndarray, np.ndarray, np.int32]:
    data = np.random.default_rng(5).random(BLOCKS * THREADS, np.float32)
    return np.zeros_like(data), data, np.int32(len(data))


def stream(trace: KernelTrace, warp: int) -> list[np.ndarray]:
    """What a warp of a trace recorded: events, sectors, basic blocks."""
    chunk, paths = whole(trace), trace.paths
    path = chunk.path[warp]
    return [
        chunk.events[chunk.event_offset[warp] : chunk.event_offset[warp + 1]],
        chunk.sectors[chunk.sector_offset[warp] : chunk.sector_offset[warp + 1]],
        paths.block[paths.offset[path] : paths.offset[path + 1]],
    ]


@pytest.mark.parametrize("threads", [1, 2])
def test_sampled_trace_holds_the_chosen_blocks_of_the_whole_one(threads: int) -> None:
    source = load_source(SOURCE, name="sums.cu")
    out, sampled_out = arrays()[0], arrays()[0]
    _, data, n = arrays()
    full = launch(source, "sums", (BLOCKS, 1, 1), (THREADS, 1, 1), [out, data, n])
    some = launch(source, "sums", (BLOCKS, 1, 1), (THREADS, 1, 1), [sampled_out, data, n], sample=30, seed=7, threads=threads)
    np.testing.assert_array_equal(sampled_out, out)
    chosen = np.flatnonzero(choose_blocks(BLOCKS, 30, 7))
    assert len(chosen) == 30
    for place, block in enumerate(chosen):
        for warp in range(WARPS):
            for a, b in zip(stream(full, block * WARPS + warp), stream(some, place * WARPS + warp), strict=True):
                np.testing.assert_array_equal(a, b)
    assert some.header.warp_instructions == full.header.warp_instructions
    assert 0 < some.header.sampled_instructions < full.header.warp_instructions
    assert some.header.thread_instructions == pytest.approx(full.header.thread_instructions, rel=0.05)


def test_prediction_from_a_sample_is_near_that_from_all_and_says_the_share(tmp_path: Path) -> None:
    given = {"kernel": "sums", "grid": BLOCKS, "block": THREADS}
    full = warpsight.predict(warpsight.trace(SOURCE, args=[*arrays()], **given))
    stored = warpsight.trace(SOURCE, args=[*arrays()], sample="50%", seed=3, out=tmp_path / "sample", **given)
    some = warpsight.predict(stored)
    assert stored.header.recorded_blocks == 100
    assert json.loads((tmp_path / "sample" / "header.json").read_text())["sampled_blocks"] == 100
    assert some.cycles == pytest.approx(full.cycles, rel=0.15)
    assert some.warp_instructions == full.warp_instructions
    assert any("100 of 200 blocks (50 %)" in note for note in some.provenance["notes"])
    assert not any("blocks (" in note for note in full.provenance["notes"])


@pytest.mark.parametrize(("sample", "count"), [(None, 0), (12, 12), ("1_000", 0), ("5%", 10), ("0.1 %", 1), ("100%", 0), (200, 0)])
def test_sample_is_a_number_or_a_share_of_the_blocks(sample: str | int | None, count: int) -> None:
    assert sample_size(sample, BLOCKS) == count


@pytest.mark.parametrize("sample", ["0", "0%", "101%", "some", "-3", "5 blocks", ""])
def test_sample_that_is_neither_is_refused(sample: str) -> None:
    with pytest.raises(UsageError, match="number of blocks nor a share"):
        sample_size(sample, BLOCKS)
