"""Do probes of machine code find the addresses that those of PTX find, at the same accesses of the same kernel?"""

from __future__ import annotations

import pytest

from warpsight.emulator.codegen.recording import ProbedAccess
from warpsight.emulator.run.launch import lane_addresses, prepare_kernel
from warpsight.isa.ptx.rules import memory_access
from warpsight.kernels.toolkit import Architecture
from warpsight.pipeline.kernel_input import ReadyLaunch, prepare
from warpsight.pipeline.request import KernelRequest

pytestmark = pytest.mark.unit

# Each access to memory has a width and state space of its own, so that it is found at both levels, however they are ordered.
SOURCE = """
extern "C" __global__ void probed(const float4* wide, const float* table, const int* at, double* out, unsigned* bins, short* low) {
  __shared__ float2 tile[64];
  __shared__ float2 back[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 four = wide[3 * i];
  tile[threadIdx.x ^ 5].x = four.x;
  *(float2*)&back[threadIdx.x] = make_float2(four.y, four.z);
  unsigned to = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x & 31].y);
  if (threadIdx.x & 2) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(table + 7 * i) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  if (threadIdx.x % 4 == 1) atomicAdd(&bins[at[2 * i] & 7], 1u);
  if (threadIdx.x < 9) atomicExch(&((unsigned*)tile)[threadIdx.x], 3u);
  low[5 * i] = (short)i;
  out[i] = tile[threadIdx.x ^ 1].y + back[63 - threadIdx.x].x + four.w;
}
"""
SHAPES = [
    ("global", "load", 16), ("global", "load", 4), ("global", "store", 2), ("global", "store", 8), ("global", "atomic", 4),
    ("shared", "load", 4), ("shared", "store", 4), ("shared", "store", 8), ("shared", "atomic", 4),
]  # fmt: skip


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> ReadyLaunch:
    path = tmp_path_factory.mktemp("probed") / "probed.cu"
    path.write_text(SOURCE)
    arguments = ("f32[3072]:uniform", "f32[2048]:uniform", "i32[512]:randint(0,99)", "f64[256]:zeros", "u32[8]:zeros",
                 "i16[1280]:zeros")  # fmt: skip
    return prepare(KernelRequest(str(path), grid=4, block=64, args=arguments, arch="sm_80"))


# Machine code of 9.0 finds a block's variables behind 1 KB that the system has for itself.
RESERVED = {80: 0, 90: 1024}


def _found(ready: ReadyLaunch, number: int, warp: int) -> dict[tuple[str, str, int], list[object]]:
    """By state space, access and bytes per lane the addresses of the lanes of one warp at each such instruction, in any order.

    Those of arrays are counted from the first one, before which machine code has constant banks that PTX lacks.
    """
    architecture = Architecture(number) if number else None
    prepared = prepare_kernel(ready.source, ready.launch.kernel, architecture=architecture)
    # the assembler puts loads that never take place, `@!PT LDS RZ, [RZ]`, before a copy
    instructions = [i for i in prepared.function.instructions if not i.native or not i.native.text.startswith("@!PT ")]
    accesses = {i.index: memory_access(i) for i in instructions}
    shapes = {pc: (a.space, a.access, a.bytes_per_lane) for pc, a in accesses.items() if a and a.space in ("global", "shared")}
    lanes = lane_addresses(
        ready.source, ready.launch, [ProbedAccess(pc, warp, 0) for pc in shapes], architecture=architecture
    )
    found: dict[tuple[str, str, int], list[object]] = {}
    arrays = prepared.native.symbols.arena_start
    for shape, each in zip(shapes.values(), lanes, strict=True):
        if each is None:  # no lane takes the branch to it
            continue
        first = RESERVED[number] if number and shape[0] == "shared" else 0
        addresses = [int(address) - first for address in each.addresses]
        if shape[0] == "global":
            addresses = [address - arrays if address >= arrays else address for address in addresses]
        active = [address if each.mask >> lane & 1 else None for lane, address in enumerate(addresses)]
        found.setdefault(shape, []).append(active)
    return {shape: sorted(each, key=str) for shape, each in found.items()}


@pytest.mark.parametrize("number", [80, 90])
def test_both_levels_find_the_same_lanes(ready: ReadyLaunch, number: int) -> None:
    for warp in (0, 4, 5):
        ptx, native = _found(ready, 0, warp), _found(ready, number, warp)
        assert warp == 5 or set(SHAPES) <= set(ptx)  # lanes 0 to 8 of a block alone exchange
        assert native == ptx
