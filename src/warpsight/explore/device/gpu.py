"""A GPU of this machine: memory, modules, launches and events, on its primary context and the default stream."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy.typing as npt

from warpsight.base.errors import UnsupportedError
from warpsight.explore.device.api import Api
from warpsight.explore.device.ptx_version import for_driver

Dim3 = tuple[int, int, int]

# CUjit_option and CUfunction_attribute (cuda.h)
_INFO_LOG, _INFO_LOG_BYTES, _ERROR_LOG, _ERROR_LOG_BYTES = 3, 4, 5, 6
_LOG_BYTES = 1 << 16
_STATIC_SHARED, _LOCAL, _REGISTERS, _MOST_DYNAMIC_SHARED = 1, 3, 4, 8
_WITHOUT_ASKING = 48 << 10  # shared memory of a block that needs no attribute (CUDA C++ Programming Guide, compute capabilities)
_STREAM = None


class Function:
    """A kernel of a loaded module. `registers` and `local_bytes` a thread, `static_shared` bytes a block, as assembled here."""

    def __init__(self, gpu: Gpu, handle: ctypes.c_void_p, name: str) -> None:
        self.name, self.handle, self._gpu = name, handle, gpu
        self.registers, self.local_bytes = self._attribute(_REGISTERS), self._attribute(_LOCAL)
        self.static_shared = self._attribute(_STATIC_SHARED)

    def _attribute(self, code: int) -> int:
        value = ctypes.c_int()
        self._gpu.api.call("cuFuncGetAttribute", ctypes.byref(value), code, self.handle)
        return value.value


class PackedLaunch:
    """A launch ready to be made again and again: `launch()` puts it into the stream and does not wait."""

    def __init__(self, gpu: Gpu, function: Function, grid: Dim3, block: Dim3, parameters: Sequence[bytes], shared: int = 0) -> None:
        """`parameters` are the bytes of each in order. Raises DeviceError where so much shared memory cannot be had."""
        self._gpu, self._name = gpu, function.name
        if shared and shared + function.static_shared > _WITHOUT_ASKING:
            doing = f"asking for {shared:,} bytes of dynamic shared memory for {function.name}"
            gpu.api.call("cuFuncSetAttribute", function.handle, _MOST_DYNAMIC_SHARED, shared, doing=doing)
        self._values = [ctypes.create_string_buffer(data, len(data)) for data in parameters]
        pointers = (ctypes.c_void_p * max(1, len(parameters)))(*(ctypes.addressof(value) for value in self._values))
        self._arguments = (function.handle, *grid, *block, shared, _STREAM, pointers, None)

    def launch(self) -> None:
        """Raises DeviceError for a configuration that the GPU does not take, and for an earlier launch's fault."""
        self._gpu.api.call("cuLaunchKernel", *self._arguments, doing=f"launching {self._name}")


class Gpu:
    """GPU `number`, with its primary context current in this thread between `with` and its end. What was allocated goes with it."""

    def __init__(self, number: int = 0) -> None:
        """Raises UnsupportedError without a driver or a GPU, DeviceError for a number that no GPU has."""
        self.api = Api()
        self.api.call("cuInit", 0)
        self.handle, version = ctypes.c_int(), ctypes.c_int()
        self.api.call("cuDeviceGet", ctypes.byref(self.handle), number, doing=f"looking for GPU {number}")
        self.api.call("cuDriverGetVersion", ctypes.byref(version))
        self.cuda_version = version.value
        self._owned: list[tuple[str, Any]] = []

    def __enter__(self) -> Gpu:
        context = ctypes.c_void_p()
        self.api.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.handle, doing="making a context on the GPU")
        self.api.call("cuCtxSetCurrent", context)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # After a fault every call fails with it, and the end of the process frees everything: only a clean end is tidied up.
        for function, handle in reversed(self._owned):
            self.api.result(function, handle)
        self._owned.clear()
        self.api.result("cuDevicePrimaryCtxRelease_v2", self.handle)

    def attribute(self, code: int) -> int:
        """A CUdevice_attribute."""
        value = ctypes.c_int()
        self.api.call("cuDeviceGetAttribute", ctypes.byref(value), code, self.handle)
        return value.value

    def bus_id(self) -> str:
        """Its address on the PCI bus, by which NVML finds it whatever CUDA_VISIBLE_DEVICES says."""
        bus = ctypes.create_string_buffer(32)
        self.api.call("cuDeviceGetPCIBusId", bus, len(bus), self.handle)
        return bus.value.decode()

    def total_memory(self) -> int:
        """Bytes of device memory."""
        size = ctypes.c_size_t()
        self.api.call("cuDeviceTotalMem_v2", ctypes.byref(size), self.handle)
        return size.value

    def allocate(self, size: int) -> int:
        """The device address of `size` bytes (at least one), aligned to 256 bytes."""
        address = ctypes.c_uint64()
        self.api.call("cuMemAlloc_v2", ctypes.byref(address), max(1, size), doing=f"allocating {size:,} bytes on the GPU")
        self._owned.append(("cuMemFree_v2", address.value))
        return address.value

    def upload(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy a C-contiguous array to the GPU, and wait."""
        if array.nbytes:
            self.api.call("cuMemcpyHtoD_v2", address, array.ctypes.data, array.nbytes, doing="copying to the GPU")

    def download(self, address: int, array: npt.NDArray[Any]) -> None:
        """Fill a C-contiguous array from the GPU, after all that was launched."""
        if array.nbytes:
            self.api.call("cuMemcpyDtoH_v2", array.ctypes.data, address, array.nbytes, doing="copying from the GPU")

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy on the GPU, in the stream."""
        if size:
            self.api.call("cuMemcpyDtoDAsync_v2", target, source, size, _STREAM, doing="copying on the GPU")

    def fill(self, address: int, size: int, byte: int = 0) -> None:
        """Fill bytes on the GPU, in the stream."""
        if size:
            self.api.call("cuMemsetD8Async", address, byte, size, _STREAM, doing="filling memory of the GPU")

    def synchronise(self, doing: str = "") -> None:
        """Wait for all that was launched. Raises DeviceError for its fault."""
        self.api.call("cuCtxSynchronize", doing=doing)

    def load(self, ptx: str, kernels: Sequence[str], what: str = "PTX") -> list[Function]:
        """Assemble PTX with the driver and give its `kernels`. Raises DeviceError with the assembler's log."""
        text = for_driver(ptx, self.cuda_version).encode() + b"\0"
        info, error = ctypes.create_string_buffer(_LOG_BYTES), ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 4)(_INFO_LOG, _INFO_LOG_BYTES, _ERROR_LOG, _ERROR_LOG_BYTES)
        # an option's value is the pointer itself, so sizes are passed as pointers
        values = (ctypes.c_void_p * 4)(ctypes.addressof(info), _LOG_BYTES, ctypes.addressof(error), _LOG_BYTES)
        module = ctypes.c_void_p()
        result = self.api.result("cuModuleLoadDataEx", ctypes.byref(module), text, len(options), options, values)
        log = error.value.decode("utf-8", "replace").strip()
        self.api.check(result, "cuModuleLoadDataEx", f"the driver's assembler does not take {what}", log)
        self._owned.append(("cuModuleUnload", module))
        return [self._kernel(module, name, what) for name in kernels]

    def _kernel(self, module: ctypes.c_void_p, name: str, what: str) -> Function:
        handle = ctypes.c_void_p()
        self.api.call("cuModuleGetFunction", ctypes.byref(handle), module, name.encode(), doing=f"looking for {name} in {what}")
        return Function(self, handle, name)

    def event(self) -> ctypes.c_void_p:
        """An event that measures time."""
        handle = ctypes.c_void_p()
        self.api.call("cuEventCreate", ctypes.byref(handle), 0)
        self._owned.append(("cuEventDestroy_v2", handle))
        return handle

    def record(self, event: ctypes.c_void_p) -> None:
        """Put the event into the stream."""
        self.api.call("cuEventRecord", event, _STREAM)

    def seconds_between(self, first: ctypes.c_void_p, second: ctypes.c_void_p) -> float:
        """Seconds from one event to the other, waiting for it. CUDA says that it resolves about half a microsecond."""
        milliseconds = ctypes.c_float()
        self.api.call("cuEventSynchronize", second, doing="running the kernel")
        self.api.call("cuEventElapsedTime", ctypes.byref(milliseconds), first, second)
        return 1e-3 * milliseconds.value


def refuse_old(major: int, minor: int, target: str) -> None:
    """Raise UnsupportedError where a GPU of that compute capability is older than the PTX's `.target`, `sm_75`."""
    needed = int("".join(c for c in target.partition(",")[0] if c.isdigit()) or 0)
    if needed > 10 * major + minor:
        what = f"the kernel is compiled for {target}, and this GPU has compute capability {major}.{minor}"
        raise UnsupportedError(what, remedy="compile it for that with --arch, where the compiler still can")
