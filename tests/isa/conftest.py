"""PTX that compilers write, made once."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from ptx_samples import llvm_ptx


def compile_cuda(source: str) -> str:
    """CUDA C++ to PTX by the run-time compiler, called without anything of the package."""
    import nvidia.cu13 as toolkit

    folder = Path(toolkit.__path__[0], "lib")
    for name in folder.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(name), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(folder / "libnvrtc.so.13"))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 2)(b"--gpu-architecture=compute_75", b"-lineinfo")
    assert library.nvrtcCompileProgram(program, 2, options) == 0
    assert library.nvrtcGetPTXSize(program, ctypes.byref(size)) == 0
    text = ctypes.create_string_buffer(size.value)
    assert library.nvrtcGetPTX(program, text) == 0
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return text.raw.decode()


@pytest.fixture(scope="session")
def reference_ptx(shared: Path) -> str:
    return compile_cuda((shared / "reference/kernels/kernels.cu").read_text())


@pytest.fixture(scope="session")
def llvm_text() -> str:
    return llvm_ptx()
