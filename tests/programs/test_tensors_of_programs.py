"""Do kernels of a program reach memory that a library of the host has allocated, as PyTorch of the CPU does for tensors?"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from programs_build import SOURCES, run

from warpsight.programs import host
from warpsight.programs.script import is_script

pytestmark = pytest.mark.unit

TWICE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 data) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3]; add.u32 %r3, %r2, %r2; st.global.u32 [%rd3], %r3;
  ret;
}
.visible .entry nothing() { ret; }
"""
HEAD = """\
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
module, function, context = (ctypes.c_void_p() for _ in range(3))
cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)
assert cuda.cuModuleLoadData(ctypes.byref(module), open("twice.ptx", "rb").read() + bytes(1)) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"twice") == 0
def twice(address, count):
    value = ctypes.c_uint64(address)
    given = (ctypes.c_void_p * 1)(ctypes.addressof(value))
    assert cuda.cuLaunchKernel(function, 1, 1, 1, count, 1, 1, 0, None, given, None) == 0
    return cuda.cuCtxSynchronize()
"""
OF_A_LIBRARY = HEAD + """
library = ctypes.CDLL("./libc10.so")
for name in ("take", "take_here"):
    getattr(library, name).restype, getattr(library, name).argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.give.argtypes = [ctypes.c_void_p]
first, own = library.take(128), library.take_here(128)
words = (ctypes.c_uint32 * 32).from_address(first)
words[:] = range(32)
print("launched", twice(first, 32), list(words) == [2 * k for k in range(32)])
attributes = ctypes.c_int()
print("memory of the device", cuda.cuPointerGetAttribute(ctypes.byref(attributes), 2, ctypes.c_uint64(first)), attributes.value)
library.give(first), library.give(own)
print("again", library.take(64) == first)
count, kernels = ctypes.c_uint(), (ctypes.c_void_p * 3)()
print("kernels", cuda.cuModuleGetFunctionCount(ctypes.byref(count), module), count.value)
print(cuda.cuModuleEnumerateFunctions(kernels, 3, module), [bool(each) for each in kernels], function.value in kernels)
room = ctypes.c_size_t()
print("room", cuda.cuOccupancyAvailableDynamicSMemPerBlock(ctypes.byref(room), function, 2, 32), room.value)
print("outside", twice(library.take_here(128), 32))
"""
OF_TORCH = "import torch\n" + HEAD + """
x = torch.arange(32, dtype=torch.int32, device="cuda")
stream = torch.cuda.Stream()
before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
before.record()
assert twice(x.data_ptr(), 32) == 0 and x.is_cuda and torch.equal(x, 2 * torch.arange(32, dtype=torch.int32))
after.record()
assert before.elapsed_time(after) > 0 and isinstance(torch.cuda.current_stream(), torch.cuda.Stream)
name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
for capsule, offset in ((torch._C._to_dlpack(x), 0), (x.__dlpack__(stream=-1), 0), (x.__dlpack__(max_version=(1, 0)), 32)):
    place = pointer_of(capsule, name_of(capsule)) + offset  # DLPack: address, then the kind of the device, 2 for CUDA
    assert ctypes.c_uint64.from_address(place).value == x.data_ptr() and ctypes.c_int.from_address(place + 8).value == 2
print(torch.cuda.get_device_capability(), torch.cuda.get_device_properties(0).multi_processor_count, x.__dlpack_device__())
"""


def ran(folder: Path, program: str, monkeypatch: pytest.MonkeyPatch, path: str = "") -> tuple[int, str, str]:
    (folder / "twice.ptx").write_text(TWICE)
    (folder / "program.py").write_text(program)
    monkeypatch.chdir(folder)
    return run(sys.executable, "program.py", options=("--gpu", "h100-sxm"), path=path)


def test_memory_that_the_library_of_tensors_allocates_is_of_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of `malloc` is not: the launch faults, and the next call says so (CUDA_ERROR_ILLEGAL_ADDRESS is 700).

    An SM of an H100 has 228 KiB of shared memory, of which each block takes 1 KiB for the system.
    """
    command = [host.compiler(), "-shared", "-fPIC", "-o", str(tmp_path / "libc10.so"), str(SOURCES / "libc10.c")]
    subprocess.run(command, check=True, capture_output=True)
    code, output, errors = ran(tmp_path, OF_A_LIBRARY, monkeypatch)
    assert output.splitlines()[:7] == [
        "launched 0 True", "memory of the device 0 2", "again True", "kernels 0 2", "0 [True, True, False] True",
        f"room 0 {228 // 2 * 1024 - 1024}", "outside 700",
    ], errors  # fmt: skip
    assert code == 0 and "access out of bounds" in errors


def test_program_with_tensors_of_the_cpu_sees_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("PyTorch is not installed")
    code, output, errors = ran(tmp_path, OF_TORCH, monkeypatch, str(Path(found.origin).parents[1]))
    assert code == 0, errors
    assert output.splitlines()[0] == "(9, 0) 132 (2, 0)"


@pytest.mark.parametrize(
    ("imports", "here"),
    [("cuda.tile, torch", False), ("cutlass, torch", False), ("torch", True), ("torch, triton, cuda.bindings", True)],
)
def test_script_that_calls_the_driver_is_a_program_also_with_pytorch(imports: str, here: bool, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"import {imports}\n")
    assert is_script([str(tmp_path / "script.py")]) is here
