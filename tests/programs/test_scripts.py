"""Does `warpsight run` execute the Triton kernels of a Python script as it would on a GPU?"""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from warpsight.cli.main import main
from warpsight.gpu.loader import load_gpu
from warpsight.kernels.launch import ArrayArgument
from warpsight.kernels.toolkit import parse_architecture
from warpsight.kernels.triton_driver import TritonLaunch
from warpsight.programs import host
from warpsight.programs.script import ScriptDevice, is_script
from warpsight.programs.session import Observer

pytestmark = pytest.mark.unit
SCRIPT = """
import sys
import torch, triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.autotune(configs=[triton.Config({"BLOCK": size}, num_warps=1) for size in (32, 128)], key=["n"])
@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def through_addresses(addresses, n: tl.constexpr):
    x = tl.load(addresses).to(tl.pointer_type(tl.float32))
    y = tl.load(addresses + 1).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, n)
    tl.store(y + at, tl.load(x + at) + 1)


device = triton.runtime.driver.active.get_active_torch_device()
x = torch.rand(100, device="cuda")
assert x.is_cuda and torch.cuda.get_device_capability() == (8, 0)
assert torch.empty(1, device=torch.cuda.current_device()).to(0).device.type == "cpu"
with torch.cuda.device(x.device.index):
    assert torch.cuda.current_device() == 0
side: torch.cuda.Stream | None = torch.cuda.Stream(device=0)
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
begin.record(side)
y = torch.zeros_like(x)[10:]
ms = triton.testing.do_bench(lambda: scaled[lambda meta: (triton.cdiv(90, meta["BLOCK"]),)](x, y, 90))
assert torch.equal(y, 2 * x[:90]) and 0 < ms < 1
end.record()
side.wait_event(end)
assert isinstance(torch.cuda.current_stream(), torch.cuda.Stream) and side.query() and 0.999 * ms < begin.elapsed_time(end)
z = torch.zeros(64, device=device)
through_addresses[(1,)](torch.tensor([x.data_ptr(), z.data_ptr()], device="cuda"), 64)
assert torch.equal(z, x[:64] + 1)
print("all equal", sys.argv[1:])
sys.exit(3)
"""
# As Numba and cuTile call the driver; NVIDIA's runtime is loaded before, by its path, as cuda.pathfinder does it.
OF_THE_DRIVER = """
import ctypes, sys

def uses():
    import numba.cuda

ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
driver = ctypes.CDLL("libcuda.so.1")
wide, word = ctypes.c_uint64, ctypes.c_int

def found(name, version):
    function = ctypes.c_void_p()
    assert driver.cuGetProcAddress_v2(name, ctypes.byref(function), version, wide(0), None) == 0, name
    return ctypes.CFUNCTYPE(word)(function.value)

assert driver.cuInit(0) == 0
for name in (b"cuEventDestroy", b"cuStreamDestroy", b"cuIpcOpenMemHandle"):
    found(name, 4010)
context, number, memory, module, kernel = wide(), wide(), wide(), wide(), wide()
assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert driver.cuCtxGetId(None, ctypes.byref(number)) == 0 and number.value > 1
assert driver.cuGetExportTable(ctypes.byref(number), ctypes.byref(context)) == 500 and number.value == 0
assert driver.cuMemAlloc_v2(ctypes.byref(memory), wide(4096)) == 0
asked = (word * 4)(2, 4, 8, 9)  # kind of memory, address on the host, is it managed, device
for pointer, expected in ((memory.value + 8, [2, 0, 0, 0]), (id(driver), [0, 0, 0, -2])):
    answers = [word(7), wide(7), word(7), word(7)]
    places = (ctypes.c_void_p * 4)(*(ctypes.addressof(each) for each in answers))
    assert driver.cuPointerGetAttributes(4, asked, places, wide(pointer)) == 0
    assert [each.value for each in answers] == expected
assert driver.cuModuleLoadData(ctypes.byref(module), open(sys.argv[2], "rb").read() + bytes(1)) == 0
assert driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"fill") == 0
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
assert driver.cuLaunchKernel(kernel, 2, 1, 1, 1, 1, 1, 0, None, parameters, None) == 0
made = (word * 128)()
assert driver.cuMemcpyDtoH_v2(made, memory, wide(512)) == 0
assert list(made) == list(range(128))
print("all as on a GPU")
"""
TILES = """.version 8.0
.target sm_80
.address_size 64
.visible .global .align 8 .b8 ___NV_TILE_LAUNCH_META_DATA___[64];
.visible .entry fill(.param .u64 out) .reqntid 64 {
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r1, 64, %r2;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r3;
  ret;
}
"""


VARIABLES = """.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 launches = 5;
.visible .const .align 4 .u32 squares[4] = {1, 4, 9, 16};
.visible .entry k(.param .u64 out) .reqntid 32 {
  .reg .b32 %t, %i, %v, %n; .reg .b64 %a, %o; .reg .pred %p;
  mov.u32 %t, %tid.x; and.b32 %i, %t, 3;
  mul.wide.u32 %o, %i, 4; mov.u64 %a, squares; add.s64 %a, %a, %o; ld.const.u32 %v, [%a];
  ways: .branchtargets zero, one, two, three;
  brx.idx %i, ways;
zero: add.u32 %v, %v, 100; bra.uni done;
one: mul.lo.u32 %v, %v, 7; bra.uni done;
two: xor.b32 %v, %v, 64; bra.uni done;
three: shl.b32 %v, %v, 3;
done: ld.global.u32 %n, [launches]; bar.sync 0;
  setp.eq.u32 %p, %t, 0; add.u32 %i, %n, 1; @%p st.global.u32 [launches], %i;
  mad.lo.u32 %v, %n, 1000, %v;
  ld.param.u64 %a, [out]; mul.wide.u32 %o, %t, 4; add.s64 %a, %a, %o; st.global.u32 [%a], %v; ret;
}
"""


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_variables_and_jump_tables_of_a_scripts_kernels_are_in_memory(level: str) -> None:
    """A variable keeps its value from launch to launch; a second module has its own."""
    architecture = parse_architecture("90") if level == "sass" else None
    device = ScriptDevice(load_gpu("h100-sxm"), architecture, Observer(), 10_000)
    found = []
    for ptx in (VARIABLES, VARIABLES, VARIABLES.replace("launches = 5", "launches = 8"), VARIABLES):
        out = np.zeros(32, np.uint32)
        device.launch(TritonLaunch("k", ptx, "k", (1, 1, 1), 32, 0, None, (ArrayArgument(out),)))
        found.append(out.tolist())
    by_hand = [1 + 100, 4 * 7, 9 ^ 64, 16 << 3]
    assert found == [[1000 * launches + by_hand[i % 4] for i in range(32)] for launches in (5, 6, 8, 7)]


@pytest.mark.parametrize("words", [["script.py"], ["-m", "script"]], ids=["script", "module"])
def test_a_script_that_calls_the_driver_runs_as_a_program(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel is one of CUDA Tile: launched with one thread, it gets as many as it is compiled for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(OF_THE_DRIVER)
    (tmp_path / "tiles.ptx").write_text(TILES)
    other, code = tmp_path / "libcudart.so.13", "int cudaGetDeviceCount(int *n) { *n = 0; return 35; }"
    build = [host.compiler(), "-shared", "-fPIC", f"-Wl,-soname,{other.name}", "-x", "c", "-", "-o", str(other)]
    subprocess.run(build, input=code, text=True, check=True)
    options = ["--json", "--gpu", "a100", "--level", "ptx", "--kernels", "none"]
    assert main(["run", *options, *words, str(other), str(tmp_path / "tiles.ptx")]) == 0
    document = json.loads(capfd.readouterr().out)
    document = document[0] if isinstance(document, list) else document
    assert [(row["grid"], row["block"]) for row in document["launches"]] == [([2, 1, 1], [64, 1, 1])]


def test_files_among_the_arguments_of_a_module_say_what_it_uses(tmp_path: Path) -> None:
    for name, package in (("numba_kernels", "numba.cuda"), ("triton_kernels", "triton")):
        (tmp_path / f"test_{name}.py").write_text(f"import {package}\n")
    assert not is_script(["-m", "json.tool", f"{tmp_path}/test_numba_kernels.py::test_one", "-q"])
    assert is_script(["-m", "json.tool", f"{tmp_path}/test_triton_kernels.py"])
    assert is_script(["-m", "json.tool", "-q"])


def test_a_script_that_is_not_there_and_one_without_triton_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "none.py")]) == 2
    assert "no such script" in capsys.readouterr().err
    if importlib.util.find_spec("triton") is None:
        (tmp_path / "some.py").write_text("import triton\n")
        assert main(["run", str(tmp_path / "some.py")]) == 2
        assert "triton is not installed" in capsys.readouterr().err


def test_a_module_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words, place in ((["-m", "no_such_module.x", "-v"], "-m no_such_module.x: no such module"), (["-m"], "-m: no such module")):
        assert main(["run", *words]) == 2
        assert place in capsys.readouterr().err


def test_a_module_runs_with_its_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "__main__.py").write_text("import sys\nprint(sys.argv[1:], __name__)\nsys.exit(4)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert main(["run", "--gpu", "a100", "--level", "ptx", "-m", "shown", "-k", "x"]) == 4
    assert "['-k', 'x'] __main__" in capsys.readouterr().out


def test_a_script_sees_a_gpu_and_its_kernels_are_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    assert main(["run", "--json", "--gpu", "a100", "--level", "ptx", str(path), "--size", "1"]) == 3
    shown = capsys.readouterr()
    assert "all equal ['--size', '1']" in shown.err
    document = json.loads(shown.out)[0] if shown.out.startswith("[") else json.loads(shown.out)
    rows = document["launches"]
    assert [row["kernel"] for row in rows] == ["scaled"] * 3 + ["through_addresses"]
    assert rows[2]["block"] == [32, 1, 1]
    assert all(row["seconds"] > 0 for row in rows)


def test_checks_do_not_watch_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "some.py").write_text("")
    assert main(["run", "--check", str(tmp_path / "some.py")]) == 2
    assert "checks do not watch scripts" in capsys.readouterr().err
