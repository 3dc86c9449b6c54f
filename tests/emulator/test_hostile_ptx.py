"""Does any PTX, however broken, end in an answer or a clear error, and never in a crash or a traceback?

Valid kernels are damaged line by line: instructions dropped, doubled, swapped, given other types, opcodes, registers and literals.
What still parses is compiled and run on a small launch.
"""

from __future__ import annotations

import os
import random
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import warpsight
from warpsight.base.errors import WarpsightError
from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.property
EXAMPLES = int(os.environ.get("WARPSIGHT_TEST_EXAMPLES", "25"))

SOURCE = """
__device__ int twice(int x) { return 2 * x; }
__device__ int thrice(int x) { return 3 * x; }
__device__ int (*table[2])(int) = {twice, thrice};
__constant__ float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
extern "C" __global__ void victim(float* out, const int* in, int n)
{
    __shared__ float tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = in[i % n] * weights[i & 7];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < (in[i % n] & 7); ++k) {
        sum += tile[(threadIdx.x + k) & 63];
        if (sum > 100.0f) { sum = sqrtf(sum); continue; }
        sum += __shfl_xor_sync(~0u, sum, 1 << (k & 3));
    }
    int local[4] = {i, 2, 3, 4};
    local[i & 3] += table[i & 1](in[i % n]);
    atomicAdd(&out[i % n], sum + local[(i + 1) & 3]);
    if (in[i % n] == 12345) printf("%d", i);
}
"""
TYPES = [
    "pred", "b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "f32", "f64",
    "bf16", "f16x2", "b128", "v2", "v4",
]  # fmt: skip
OPCODES = [
    "add", "sub", "mul", "mad", "fma", "div", "rem", "min", "max", "and", "or", "xor", "not", "shl", "shr", "setp",
    "selp", "cvt", "ld", "st", "atom", "red", "bar", "bra", "call", "ret", "exit", "mov",
]  # fmt: skip
LITERALS = [
    "0", "-1", "1", "31", "32", "255", "0x7fffffff", "0xffffffff", "4294967296", "-9223372036854775808", "0f7fc00000",
    "1.5",
]  # fmt: skip


def damaged(text: str, seed: int) -> str:
    """The text with one to four random changes in the body of its kernel."""
    rng = random.Random(seed)
    lines = text.splitlines()
    body = [k for k, line in enumerate(lines) if line.startswith("\t") and line.rstrip().endswith(";")]
    for _ in range(rng.randint(1, 4)):
        at = rng.choice(body)
        line, other = lines[at], lines[rng.choice(body)]
        change = rng.randrange(7)
        if change == 0:
            lines[at] = ""
        elif change == 1:
            lines[at] = line + "\n" + other
        elif change == 2:
            lines[at] = other
        elif change == 3:
            lines[at] = re.sub(r"\.[a-z]+\d+\b", "." + rng.choice(TYPES), line, count=1)
        elif change == 4:
            lines[at] = re.sub(r"^(\t(?:@!?%p\d+ )?)[a-z]+", lambda m: m[1] + rng.choice(OPCODES), line)
        elif change == 5:
            names = re.findall(r"%[a-z]+\d+", other) or ["%r1"]
            lines[at] = re.sub(r"%[a-z]+\d+", rng.choice(names), line, count=rng.randint(1, 3))
        else:
            lines[at] = re.sub(r"\b\d+\b", rng.choice(LITERALS), line, count=1)
    return "\n".join(lines) + "\n"


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(st.integers(0, 1 << 30), st.sampled_from([1, 33, 64]))
def test_damaged_kernel_runs_or_is_refused_with_a_clear_error(seed: int, threads: int) -> None:
    text = damaged(load_source(SOURCE, name="victim.cu").ptx, seed)
    note(text)
    out, data = np.zeros(100, np.float32), np.arange(100, dtype=np.int32)
    given_launch = {"kernel": "victim", "grid": 2, "block": threads, "args": [out, data, 100], "registers": 32}
    try:
        warpsight.trace(text, max_instructions=20_000, **given_launch)
    except WarpsightError as error:
        assert error.what
        assert "\n" not in error.what
