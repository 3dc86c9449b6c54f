"""Do programs that NVIDIA's runtime is linked into, as nvcc does by default, run as those with the shared one do?"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from programs_build import PTX, SOURCES, needs_nvcc, run, run_json

pytestmark = [pytest.mark.unit, needs_nvcc]

STATIC = ("-cudart", "static", PTX)
SCALED = """extern "C" int printf(const char*, ...);
__device__ float factor = 3.0f;
__global__ void scale(float* x) { x[threadIdx.x] *= factor; }
extern "C" int scaled() {
  float* x; float host[32];
  for (int k = 0; k < 32; k++) host[k] = k;
  if (cudaMalloc(&x, sizeof host)) return 1;
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  scale<<<1, 32>>>(x);
  if (cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost)) return 2;
  return host[31] == 93.0f ? 0 : 3;
}
"""


def _nvcc(folder: Path, name: str, *arguments: str) -> Path:
    program = folder / name
    subprocess.run(["nvcc", "-std=c++14", *arguments, "-o", str(program)], check=True, capture_output=True, timeout=600)
    return program


def test_program_with_the_static_runtime_does_what_it_does_with_the_shared_one(tmp_path: Path) -> None:
    program = _nvcc(tmp_path, "memory", *STATIC, str(SOURCES / "memory.cu"))
    code, document, printed = run_json(program, options=("--gpu", "mdm-pascal"))
    assert code == 0, printed
    assert "vector good" in printed and "bad" not in printed
    assert [launch["kernel"] for launch in document["launches"]][:2] == ["add", "count"]


@pytest.mark.parametrize("loaded", ["at the start", "later"])
def test_library_with_the_static_runtime_registers_its_kernels(tmp_path: Path, loaded: str) -> None:
    (tmp_path / "scaled.cu").write_text(SCALED)
    library = _nvcc(tmp_path, "libscaled.so", *STATIC, "-shared", "-Xcompiler", "-fPIC", str(tmp_path / "scaled.cu"))
    if loaded == "later":
        (tmp_path / "call.py").write_text(f"import ctypes, sys\nsys.exit(ctypes.CDLL({str(library)!r}).scaled())\n")
        code, output, errors = run("python3", str(tmp_path / "call.py"), options=("--gpu", "mdm-pascal"))
    else:
        (tmp_path / "call.cpp").write_text('extern "C" int scaled();\nint main() { return scaled(); }\n')
        options = ("-cudart", "static", "-L", str(tmp_path), "-lscaled", "-Xlinker", f"-rpath={tmp_path}")
        program = _nvcc(tmp_path, "call", str(tmp_path / "call.cpp"), *options)
        code, output, errors = run(program, options=("--gpu", "mdm-pascal"))
    assert code == 0, errors
    assert "scale " in output


def test_stripped_program_says_why_its_runtime_cannot_be_replaced(tmp_path: Path) -> None:
    program = _nvcc(tmp_path, "memory", *STATIC, "-Xlinker", "-s", str(SOURCES / "memory.cu"))
    _, output, errors = run(program, options=("--gpu", "mdm-pascal"))
    assert f"NVIDIA's runtime in {program} was not replaced" in errors
    assert "Link with nvcc -cudart shared, or do not strip the program" in errors
    assert "no kernel was launched" in output or "did not call CUDA" in output


# Packages whose own copy of the runtime is stripped; functions that answer 900 stand for it. The library exports jumps to them, as
# that of CUTLASS's Python DSL does, and the module publishes them as `cuda.bindings` does.
WRAPPED = """
#define FAR __asm__ volatile(".skip 200, 0x90")
__attribute__((noinline)) static int count(int *n) { FAR; *n = 77; return 900; }
__attribute__((noinline)) static int wait(void *s, void *e, unsigned flags) { FAR; return 900 + flags; }
int _cudaGetDeviceCount(int *n) { return count(n); }
int _cudaStreamWaitEvent(void *s, void *e) { return wait(s, e, 0); }
int _cuDeviceGetCount(int *n) { FAR; *n = 78; return 900; }
int _cudaLibraryLoadData(void) { return 901; }
int _cudaLaunchKernelEx(void) { return 902; }
"""
MODULE = """
import ctypes
old = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int))(lambda n: 900)
make = ctypes.pythonapi.PyCapsule_New
make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
signature = b"cudaError_t (int *)"
__pyx_capi__ = {name: make(ctypes.cast(old, ctypes.c_void_p), signature, None) for name in ("_cudaGetDeviceCount", "_cudaUnknown")}
"""
CALLER = """
import ctypes, sys
count, library = ctypes.c_int(), ctypes.CDLL(sys.argv[1])
print("library", library._cudaGetDeviceCount(ctypes.byref(count)), count.value, library._cudaStreamWaitEvent(None, None))
print("driver", library._cuDeviceGetCount(ctypes.byref(count)), count.value)
import cuda.bindings._internal.runtime as runtime
address = ctypes.pythonapi.PyCapsule_GetPointer
address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
for name, capsule in runtime.__pyx_capi__.items():
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int))(address(capsule, runtime.signature))
    print(name, function(ctypes.byref(count)), count.value)
import sitecustomize
print("own", hasattr(sys, "own_site"))
"""


def test_stripped_packages_that_hand_the_runtime_on_call_ours(tmp_path: Path) -> None:
    """One device is there, and an event that is none is 400, cudaErrorInvalidResourceHandle."""
    (tmp_path / "wrapped.c").write_text(WRAPPED)
    library = tmp_path / "libwrapped.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-s", tmp_path / "wrapped.c", "-o", library], check=True, capture_output=True)
    package = tmp_path / "cuda" / "bindings" / "_internal"
    package.mkdir(parents=True)
    for folder in (package.parents[1], package.parent, package):
        (folder / "__init__.py").write_text("__version__ = '13.5.0'\n")
    (package / "runtime.py").write_text(MODULE)
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.own_site = True\n")
    (tmp_path / "call.py").write_text(CALLER)
    code, output, errors = run("python3", str(tmp_path / "call.py"), str(library), options=("--gpu", "a100"), path=str(tmp_path))
    assert code == 0, errors
    expected = ["library 0 1 400", "driver 0 1", "_cudaGetDeviceCount 0 1", "_cudaUnknown 900 1", "own True"]
    assert output.splitlines()[: len(expected)] == expected
