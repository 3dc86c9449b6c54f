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
    subprocess.run(["nvcc", *arguments, "-o", str(program)], check=True, capture_output=True, timeout=600)
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
    assert "Link with nvcc -cudart shared, or do not strip the program" in errors
    assert "no kernel was launched" in output or "did not call CUDA" in output
