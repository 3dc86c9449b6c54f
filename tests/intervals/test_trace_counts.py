"""Are the instruction counts of a launch exact, and do they survive the interchange JSON?"""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import warpsight
from warpsight.base.errors import FormatError, UsageError
from warpsight.gpu.loader import load_gpu
from warpsight.intervals.interchange import read_profile, write_profile
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import get_model
from warpsight.pipeline.evaluate import profile_trace

pytestmark = pytest.mark.unit

SOURCE = """
extern "C" __global__ void strided(const float* in, float* out, int stride, int n) {
  __shared__ float tile[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = in[i * stride];
  __syncthreads();
  if (i < n) out[i] = tile[63 - threadIdx.x];
}
"""


def _profile(stride: int, n: int, gpu: str) -> IntervalProfile:
    arrays = [np.ones(8 * 64 * 32, np.float32), np.zeros(512, np.float32)]
    trace = warpsight.trace(SOURCE, kernel="strided", grid=(8,), block=(64,), args=[*arrays, stride, n])
    return profile_trace(trace, load_gpu(gpu)).profile


@pytest.mark.parametrize(
    ("stride", "gpu", "coalesced", "uncoalesced", "transactions"),
    [
        (1, "fx5600", 2, 0, 1), (2, "fx5600", 1, 1, 32), (2, "gtx280", 1, 1, 2), (32, "gtx280", 1, 1, 32),
        (32, "mdm-pascal", 1, 1, 32),
    ],
)
def test_counts_of_a_strided_kernel_follow_the_rule_of_the_gpu(
    stride: int, gpu: str, coalesced: float, uncoalesced: float, transactions: float
) -> None:
    profile = _profile(stride, 512, gpu)
    counts = profile.counts
    assert counts is not None
    assert (counts.coalesced_instructions, counts.uncoalesced_instructions) == (coalesced, uncoalesced)
    assert counts.transactions == transactions
    assert (counts.synchronizations, counts.load_bytes, counts.blocks, counts.warps_per_block) == (1, 128, 8, 2)
    assert counts.instructions * 16 == profile.total_warp_instructions


def test_memory_instruction_that_no_lane_executes_is_none() -> None:
    counts = _profile(1, 32 * 10, "fx5600").counts
    assert counts is not None
    assert counts.coalesced_instructions == (16 + 10) / 16


def test_counts_survive_the_interchange_json() -> None:
    profile = _profile(2, 512, "gtx280")
    again = read_profile(write_profile(profile), origin="p.json")
    assert again.counts == profile.counts
    assert get_model("mwp-cwp").predict(again, load_gpu("gtx280")) == get_model("mwp-cwp").predict(profile, load_gpu("gtx280"))


def test_profile_without_counts_is_refused_with_a_remedy() -> None:
    profile = dataclasses.replace(_profile(1, 512, "fx5600"), counts=None)
    with pytest.raises(UsageError, match='model "mwp-cwp" needs counts'):
        get_model("mwp-cwp").predict(profile, load_gpu("fx5600"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"transactions": 0.5}, r"counts\.transactions: is 0\.5"),
        ({"coalescing": "cc2.0"}, r'counts\.coalescing: is "cc2\.0"'),
        ({"blocks": 9}, r"counts\.blocks: is 9, and launch\.blocks is 8"),
        ({"load_bytes": 0}, r"counts\.load_bytes: is 0"),
        ({"computation_instructions": 0, "coalesced_instructions": 0, "uncoalesced_instructions": 0}, "executes at least one"),
    ],
)
def test_counts_that_cannot_be_meant_are_refused_with_their_place(change: dict[str, object], told: str) -> None:
    document = json.loads(write_profile(_profile(2, 512, "gtx280")))
    document["counts"] |= change
    with pytest.raises(FormatError, match=told):
        read_profile(json.dumps(document), origin="p.json")
