"""The part of the CUDA driver API that runs kernels, through ctypes on libcuda.so.1. Nothing is loaded until a GPU is asked for.

Functions, their numbers and results: CUDA driver API reference (cuda.h). The names with `_v2` are those that cuda.h's macros mean.
"""

from __future__ import annotations

import ctypes
from typing import Any

from warpsight.base.errors import UnsupportedError, WarpsightError
from warpsight.gpu.importers import driver

_INT, _UNSIGNED, _SIZE, _POINTER, _ADDRESS = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64
_OUT = ctypes.c_void_p  # where a result is put: ctypes.byref is accepted

PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_UNSIGNED,),
    "cuDriverGetVersion": (_OUT,),
    "cuDeviceGet": (_OUT, _INT),
    "cuDeviceGetPCIBusId": (_OUT, _INT, _INT),
    "cuDeviceGetAttribute": (_OUT, _INT, _INT),
    "cuDeviceTotalMem_v2": (_OUT, _INT),
    "cuDevicePrimaryCtxRetain": (_OUT, _INT),
    "cuDevicePrimaryCtxRelease_v2": (_INT,),
    "cuCtxSetCurrent": (_POINTER,),
    "cuCtxSynchronize": (),
    "cuModuleLoadDataEx": (_OUT, _POINTER, _UNSIGNED, _POINTER, _POINTER),
    "cuModuleUnload": (_POINTER,),
    "cuModuleGetFunction": (_OUT, _POINTER, ctypes.c_char_p),
    "cuFuncGetAttribute": (_OUT, _INT, _POINTER),
    "cuFuncSetAttribute": (_POINTER, _INT, _INT),
    "cuMemAlloc_v2": (_OUT, _SIZE),
    "cuMemFree_v2": (_ADDRESS,),
    "cuMemcpyHtoD_v2": (_ADDRESS, _POINTER, _SIZE),
    "cuMemcpyDtoH_v2": (_POINTER, _ADDRESS, _SIZE),
    "cuMemcpyDtoDAsync_v2": (_ADDRESS, _ADDRESS, _SIZE, _POINTER),
    "cuMemsetD8Async": (_ADDRESS, ctypes.c_ubyte, _SIZE, _POINTER),
    "cuLaunchKernel": (_POINTER, *((_UNSIGNED,) * 7), _POINTER, _POINTER, _POINTER),
    "cuEventCreate": (_OUT, _UNSIGNED),
    "cuEventRecord": (_POINTER, _POINTER),
    "cuEventSynchronize": (_POINTER,),
    "cuEventElapsedTime": (_OUT, _POINTER, _POINTER),
    "cuEventDestroy_v2": (_POINTER,),
    "cuGetErrorName": (_INT, _OUT),
    "cuGetErrorString": (_INT, _OUT),
}
NO_DEVICE = 100
_REMEDIES = {
    2: "other programs may hold the GPU's memory: see nvidia-smi",
    209: "the kernel is compiled for a newer GPU than this one",
    218: "the assembler's words are above",
    222: "the driver is older than the compiler that made the PTX: install a newer driver",
    700: "the emulator checks every access (`warpsight predict`); if it finds none, this is a defect to be reported",
    803: "the driver's library and its kernel module are of different versions: reboot, or install one of them again",
}
NO_GPU = "run it on a machine with an NVIDIA GPU and its driver"


class DeviceError(WarpsightError):
    """The GPU or its driver refused a call; `what` has the driver's own name and words for it."""

    lines = 0

    def __init__(self, what: str, *, place: str = "", remedy: str = "", code: int = 0) -> None:
        super().__init__(what, place=place, remedy=remedy)
        self.code = code


class Api:
    """The driver's library, each function with its prototype. `call` raises for every result but success."""

    def __init__(self) -> None:
        """Load it. Raises UnsupportedError (exit code 3) where there is none."""
        try:
            self._library = ctypes.CDLL(driver.LIBRARY)
        except OSError:
            what = f"this machine has no NVIDIA driver ({driver.LIBRARY} cannot be loaded), so there is no GPU to run on"
            raise UnsupportedError(what, remedy=NO_GPU) from None
        self._functions: dict[str, Any] = {}

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            try:
                function = getattr(self._library, name)
            except AttributeError:
                what = f"the NVIDIA driver of this machine has no {name}: it is too old"
                raise UnsupportedError(what, remedy="install a newer driver") from None
            function.argtypes, function.restype = PROTOTYPES[name], ctypes.c_int
            self._functions[name] = function
        return self._functions[name]

    def result(self, name: str, *arguments: Any) -> int:
        """Call `name` and give its CUresult, whatever it is."""
        return int(self._function(name)(*arguments))

    def call(self, name: str, *arguments: Any, doing: str = "") -> None:
        """Call `name`. Raises DeviceError, with the driver's words and what was being done."""
        self.check(self.result(name, *arguments), name, doing)

    def check(self, result: int, name: str, doing: str = "", detail: str = "") -> None:
        """Raise DeviceError for a CUresult that is not success, UnsupportedError where it says that there is no GPU."""
        if result == NO_DEVICE:
            raise UnsupportedError("the NVIDIA driver of this machine finds no GPU", remedy=NO_GPU)
        if result:
            said = f"{doing or name}: {self._words(result)}"
            raise DeviceError(f"{said}\n{detail}" if detail else said, remedy=_REMEDIES.get(result, ""), code=result)

    def _words(self, result: int) -> str:
        """`CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access was encountered`."""
        texts = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            found = ctypes.c_char_p()
            known = self.result(name, result, ctypes.byref(found)) == 0 and found.value
            texts.append(found.value.decode("utf-8", "replace") if known and found.value else "")
        return f"{texts[0] or 'error'} ({result})" + (f", {texts[1]}" if texts[1] else "")
