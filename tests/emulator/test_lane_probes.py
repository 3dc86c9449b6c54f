"""Do probes find the addresses of exactly the access that is looked for, and is code without them as it always was?"""

from __future__ import annotations

import numpy as np
import pytest

from warpsight.emulator.codegen.kernel_builder import KernelBuilder
from warpsight.emulator.codegen.lanes import KernelModule
from warpsight.emulator.codegen.recording import LaneAddresses, ProbedAccess
from warpsight.emulator.codegen.symbols import SymbolTable
from warpsight.emulator.ptx.instruction_set import PTX
from warpsight.emulator.run.launch import lane_addresses
from warpsight.isa.ptx.cfg import build_cfg
from warpsight.isa.ptx.rules import memory_access
from warpsight.pipeline.kernel_input import ReadyLaunch, prepare
from warpsight.pipeline.request import KernelRequest

pytestmark = pytest.mark.unit

SOURCE = """
extern "C" __global__ void probed(const float* in, float* out, unsigned* bins, int turns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) sum += in[i * (turn + 1)];
  if (threadIdx.x % 4 == 1) atomicAdd(&bins[threadIdx.x], 1u);
  out[i] = sum;
}
"""


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> ReadyLaunch:
    path = tmp_path_factory.mktemp("probed") / "probed.cu"
    path.write_text(SOURCE)
    arguments = ("f32[4096]:uniform", "f32[512]:zeros", "u32[128]:zeros", 5)
    return prepare(KernelRequest(str(path), grid=4, block=128, args=arguments, arch="sm_75"))


def _pc(ready: ReadyLaunch, access: str) -> int:
    function = ready.source.module.functions[ready.launch.kernel]
    found = {i.index: memory_access(i) for i in function.instructions if i.opcode in ("ld", "st", "atom", "red")}
    return next(pc for pc, a in found.items() if a is not None and a.access == access and a.space == "global")


def _one(ready: ReadyLaunch, wanted: ProbedAccess) -> LaneAddresses:
    (found,) = lane_addresses(ready.source, ready.launch, [wanted])
    assert found is not None
    return found


@pytest.mark.parametrize(("warp", "before"), [(0, 0), (3, 4), (13, 2)])
def test_lanes_of_a_load_are_those_of_that_warp_and_turn(ready: ReadyLaunch, warp: int, before: int) -> None:
    pc = _pc(ready, "load")
    first = int(_one(ready, ProbedAccess(pc, 0, 0)).addresses[0])  # in[0]
    found = _one(ready, ProbedAccess(pc, warp, before))
    assert found.mask == 0xFFFFFFFF
    assert (found.addresses - first).tolist() == [4 * (32 * warp + lane) * (before + 1) for lane in range(32)]


def test_mask_has_the_lanes_that_take_the_branch(ready: ReadyLaunch) -> None:
    found = _one(ready, ProbedAccess(_pc(ready, "atomic"), 5, 0))
    assert found.mask == sum(1 << lane for lane in range(32) if lane % 4 == 1)
    active = found.addresses[[lane for lane in range(32) if lane % 4 == 1]]
    assert np.diff(active).tolist() == [16] * 7


def test_access_that_is_not_made_is_not_found_and_arrays_stay_as_they_are(ready: ReadyLaunch) -> None:
    before = [np.array(argument.array) for argument in ready.launch.arguments if hasattr(argument, "array")]
    pc = _pc(ready, "load")
    found = lane_addresses(ready.source, ready.launch, [ProbedAccess(pc, 2, 5), ProbedAccess(pc, 2, 4)])
    assert [each is None for each in found] == [True, False]
    after = [argument.array for argument in ready.launch.arguments if hasattr(argument, "array")]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def test_more_probes_than_an_instruction_has_are_refused(ready: ReadyLaunch) -> None:
    pc = _pc(ready, "load")
    with pytest.raises(ValueError, match="2 probes"):
        lane_addresses(ready.source, ready.launch, [ProbedAccess(pc, warp, 0) for warp in range(3)])


def test_code_without_probes_has_nothing_of_them(ready: ReadyLaunch) -> None:
    function = ready.source.module.functions[ready.launch.kernel]
    texts = []
    for probes in (frozenset[int](), frozenset(range(len(function.instructions)))):
        module = KernelModule("kernel")
        symbols = SymbolTable(ready.source.module, function)
        KernelBuilder(module, function, build_cfg(function), symbols, "k", PTX, probes=probes).build()
        texts.append(str(module))
    plain, probing = texts
    assert "probe" not in plain
    assert probing.count('call void @"probe"') == 3  # a load, an atomic and a store
