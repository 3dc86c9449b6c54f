"""A GPU of this machine: memory, modules, launches and events, in its primary context on the default stream.

Uses the CUDA driver API through ctypes on libcuda.so.1, which is loaded when a GPU is first used. Functions, constants and results:
CUDA driver API reference (cuda.h). cuda.h's macros map names to those with `_v2`.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy.typing as npt

from warpsight.base.errors import UnsupportedError, WarpsightError
from warpsight.gpu.importers import device as driver

# CUDA version of a driver (1000 * major + 10 * minor) -> PTX ISA version, from the release table of the PTX ISA (section 13)
_READS = {
    11000: "7.0", 11010: "7.1", 11020: "7.2", 11030: "7.3", 11040: "7.4", 11050: "7.5", 11060: "7.6", 11070: "7.7", 11080: "7.8",
    12000: "8.0", 12010: "8.1", 12020: "8.2", 12030: "8.3", 12040: "8.4", 12050: "8.5", 12060: "8.5", 12070: "8.6", 12080: "8.7",
    12090: "8.8", 13000: "9.0",
}  # fmt: skip
_VERSION = re.compile(r"^(\s*\.version\s+)(\d+)\.(\d+)", re.MULTILINE)


def readable_version(cuda: int) -> str:
    """The newest PTX ISA version that a driver of that CUDA version supports, by the table; the oldest for older drivers."""
    return _READS[max((known for known in _READS if known <= cuda), default=min(_READS))]


def for_driver(ptx: str, cuda: int) -> str:
    """`ptx` with its `.version` lowered to the driver's if that is older. Nothing else changes: the assembler then refuses
    features that the version lacks.
    """
    newest = tuple(map(int, readable_version(cuda).split(".")))
    version = _VERSION.search(ptx)
    # a driver newer than the table supports at least the table's newest version
    if version is None or cuda >= max(_READS) or (int(version[2]), int(version[3])) <= newest:
        return ptx
    return f"{ptx[: version.start(2)]}{newest[0]}.{newest[1]}{ptx[version.end(3) :]}"


_INT, _UNSIGNED, _SIZE, _POINTER, _ADDRESS = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64
_OUT = ctypes.c_void_p  # address of a result: ctypes.byref is accepted

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
    2: "other programs may use the GPU's memory: see nvidia-smi",
    209: "the kernel is compiled for a newer GPU than this one",
    218: "see the assembler's log above",
    222: "the driver is older than the compiler that made the PTX: install a newer driver",
    700: "the emulator checks every access (`warpsight predict`); if it finds no fault, please report this as a bug",
    803: "the driver's library and its kernel module have different versions: reboot, or reinstall the driver",
}
NO_GPU = "run it on a machine with an NVIDIA GPU and its driver"


class DeviceError(WarpsightError):
    """The GPU or its driver refused a call; `what` has the driver's name and description of the error."""

    lines = 0

    def __init__(self, what: str, *, place: str = "", remedy: str = "", code: int = 0) -> None:
        super().__init__(what, place=place, remedy=remedy)
        self.code = code


class Api:
    """The driver's library, each function with its prototype. `call` raises for every result other than success."""

    def __init__(self) -> None:
        """Load the library. Raises UnsupportedError (exit code 3) if there is none."""
        try:
            self._library = ctypes.CDLL(driver.LIBRARY)
        except OSError:
            message = f"this machine has no NVIDIA driver ({driver.LIBRARY} cannot be loaded), so there is no GPU to run on"
            raise UnsupportedError(message, remedy=NO_GPU) from None

    def result(self, name: str, *arguments: Any) -> int:
        """Call `name` and return its CUresult."""
        try:
            function = getattr(self._library, name)  # ctypes keeps it
        except AttributeError:
            message = f"the NVIDIA driver of this machine has no {name}: it is too old"
            raise UnsupportedError(message, remedy="install a newer driver") from None
        function.argtypes, function.restype = PROTOTYPES[name], ctypes.c_int
        return int(function(*arguments))

    def call(self, name: str, *arguments: Any, doing: str = "") -> None:
        """Call `name`. Raises DeviceError with the driver's message and `doing`."""
        self.check(self.result(name, *arguments), name, doing)

    def check(self, result: int, name: str, doing: str = "", detail: str = "") -> None:
        """Raise DeviceError for a CUresult other than success, UnsupportedError if there is no GPU."""
        if result == NO_DEVICE:
            raise UnsupportedError("the NVIDIA driver of this machine finds no GPU", remedy=NO_GPU)
        if result:
            message = f"{doing or name}: {self._description(result)}"
            raise DeviceError(f"{message}\n{detail}" if detail else message, remedy=_REMEDIES.get(result, ""), code=result)

    def _description(self, result: int) -> str:
        """`CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access was encountered`."""
        texts = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            known = self.result(name, result, ctypes.byref(text)) == 0
            texts.append((text.value or b"").decode("utf-8", "replace") if known else "")
        return f"{texts[0] or 'error'} ({result})" + (f", {texts[1]}" if texts[1] else "")


Dim3 = tuple[int, int, int]

# CUjit_option and CUfunction_attribute (cuda.h)
_INFO_LOG, _INFO_LOG_BYTES, _ERROR_LOG, _ERROR_LOG_BYTES = 3, 4, 5, 6
_LOG_BYTES = 1 << 16
_STATIC_SHARED, _LOCAL, _REGISTERS, _MOST_DYNAMIC_SHARED = 1, 3, 4, 8
_WITHOUT_ATTRIBUTE = 48 << 10  # shared memory per block without opt-in (CUDA C++ Programming Guide, compute capabilities)
_STREAM = None


class Function:
    """A kernel of a loaded module. `registers` and `local_bytes` per thread, `static_shared` bytes per block, as assembled here."""

    def __init__(self, gpu: Gpu, handle: ctypes.c_void_p, name: str) -> None:
        self.name, self.handle, self._gpu = name, handle, gpu
        self.registers, self.local_bytes = self._attribute(_REGISTERS), self._attribute(_LOCAL)
        self.static_shared = self._attribute(_STATIC_SHARED)

    def _attribute(self, code: int) -> int:
        value = ctypes.c_int()
        self._gpu.api.call("cuFuncGetAttribute", ctypes.byref(value), code, self.handle)
        return value.value


class PackedLaunch:
    """A prepared launch, to be repeated: `launch()` puts it into the stream and does not wait."""

    def __init__(self, gpu: Gpu, function: Function, grid: Dim3, block: Dim3, parameters: Sequence[bytes], shared: int = 0) -> None:
        """`parameters` are the bytes of each in order. Raises DeviceError if there is not enough shared memory."""
        self._gpu, self._name = gpu, function.name
        if shared and shared + function.static_shared > _WITHOUT_ATTRIBUTE:
            doing = f"requesting {shared:,} bytes of dynamic shared memory for {function.name}"
            gpu.api.call("cuFuncSetAttribute", function.handle, _MOST_DYNAMIC_SHARED, shared, doing=doing)
        self._values = [ctypes.create_string_buffer(data, len(data)) for data in parameters]
        pointers = (ctypes.c_void_p * max(1, len(parameters)))(*(ctypes.addressof(value) for value in self._values))
        self._arguments = (function.handle, *grid, *block, shared, _STREAM, pointers, None)

    def launch(self) -> None:
        """Raises DeviceError for a configuration that the GPU refuses, and for an earlier launch's fault."""
        self._gpu.api.call("cuLaunchKernel", *self._arguments, doing=f"launching {self._name}")


class Gpu:
    """GPU `number`, with its primary context current in this thread inside `with`. At the end all allocations are freed."""

    def __init__(self, number: int = 0) -> None:
        """Raises UnsupportedError without a driver or a GPU, DeviceError for an unknown number."""
        self.api = Api()
        self.api.call("cuInit", 0)
        self.handle, version = ctypes.c_int(), ctypes.c_int()
        self.api.call("cuDeviceGet", ctypes.byref(self.handle), number, doing=f"looking for GPU {number}")
        self.api.call("cuDriverGetVersion", ctypes.byref(version))
        self.cuda_version = version.value
        self._owned: list[tuple[str, Any]] = []

    def __enter__(self) -> Gpu:
        context = ctypes.c_void_p()
        self.api.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.handle, doing="creating a context on the GPU")
        self.api.call("cuCtxSetCurrent", context)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # after a fault every call fails, and the end of the process frees everything
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
        """The PCI bus address, by which NVML finds the GPU independent of CUDA_VISIBLE_DEVICES."""
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
        """Fill a C-contiguous array from the GPU, after all launches."""
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
        """Wait for all launches. Raises DeviceError for a fault."""
        self.api.call("cuCtxSynchronize", doing=doing)

    def load(self, ptx: str, kernels: Sequence[str], title: str = "PTX") -> list[Function]:
        """Assemble PTX with the driver and return its `kernels`. Raises DeviceError with the assembler's log."""
        text = for_driver(ptx, self.cuda_version).encode() + b"\0"
        info, error = ctypes.create_string_buffer(_LOG_BYTES), ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 4)(_INFO_LOG, _INFO_LOG_BYTES, _ERROR_LOG, _ERROR_LOG_BYTES)
        # an option's value is the pointer itself, so sizes are passed as pointers
        values = (ctypes.c_void_p * 4)(ctypes.addressof(info), _LOG_BYTES, ctypes.addressof(error), _LOG_BYTES)
        module = ctypes.c_void_p()
        result = self.api.result("cuModuleLoadDataEx", ctypes.byref(module), text, len(options), options, values)
        log = error.value.decode("utf-8", "replace").strip()
        self.api.check(result, "cuModuleLoadDataEx", f"the driver's assembler refuses {title}", log)
        self._owned.append(("cuModuleUnload", module))
        functions = []
        for name in kernels:
            handle, doing = ctypes.c_void_p(), f"looking for {name} in {title}"
            self.api.call("cuModuleGetFunction", ctypes.byref(handle), module, name.encode(), doing=doing)
            functions.append(Function(self, handle, name))
        return functions

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
        """Seconds from one event to the other, waiting for it. The resolution is about half a microsecond (CUDA)."""
        milliseconds = ctypes.c_float()
        self.api.call("cuEventSynchronize", second, doing="running the kernel")
        self.api.call("cuEventElapsedTime", ctypes.byref(milliseconds), first, second)
        return 1e-3 * milliseconds.value


def refuse_old(major: int, minor: int, target: str) -> None:
    """Raise UnsupportedError if a GPU of that compute capability is older than the PTX's `.target`, such as `sm_75`."""
    needed = int("".join(filter(str.isdigit, target.partition(",")[0])) or 0)
    if needed > 10 * major + minor:
        message = f"the kernel is compiled for {target}, and this GPU has compute capability {major}.{minor}"
        raise UnsupportedError(message, remedy="compile it for this GPU with `arch`, if the compiler supports it")
