"""A driver for Triton without a GPU: Triton compiles to PTX and specialises arguments itself, and hands each launch to a `Device`.

Triton asks its active driver for the GPU's architecture and limits, and to load and launch what it has compiled. This one answers
for a `Device`, and puts a backend in place of Triton's own for NVIDIA that stops at PTX: no ptxas runs. Triton is imported only
when a kernel of it is at hand.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsight.base.errors import UnsupportedError, UsageError
from warpsight.kernels.launch import ArrayArgument, Dim3
from warpsight.kernels.tensor_map import TensorShape

WARP = 32
_PTX_VERSION = 90  # the newest that the assembler here, ptxas 13.0, reads
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.[a-z]+(\d+)\s[^,\[)]*(?:\[(\d+)\])?")
_NUMPY_NAMES = {"bool": "bool", "float16": "f2", "float32": "f4", "float64": "f8", "int8": "i1", "int16": "i2", "int32": "i4",
                "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8"}  # fmt: skip
_FLOATS = {"fp16": "f2", "fp32": "f4", "f32": "f4", "fp64": "f8"}
ARGUMENTS = "pass NumPy arrays or PyTorch tensors of the CPU, Python numbers, tuples of them, or a TensorDescriptor"


@dataclass(frozen=True)
class TritonLaunch:
    """One launch as Triton makes it. `entry` is the kernel's name in `ptx`; the grid is in blocks, not in clusters."""

    name: str
    ptx: str
    entry: str
    grid: Dim3
    threads: int
    shared: int
    cluster: Dim3 | None
    arguments: tuple[ArrayArgument | bytes, ...]


class Device:
    """What Triton is told of the GPU, and who receives its launches.

    `number` is its compute capability, 90 of 9.0; `seconds` is the time that its launches have taken so far.
    """

    number: int
    properties: dict[str, int]
    seconds: float = 0.0

    def registers(self, ptx: str, entry: str) -> int:
        """Registers per thread of a kernel; 0 where nobody needs them."""
        return 0

    def launch(self, launch: TritonLaunch) -> None:
        """Execute a launch, or keep it."""
        raise NotImplementedError

    def time_ms(self, call: Any) -> float:
        """Milliseconds that `call()` takes on the GPU: what a benchmark of Triton, or its autotuner, measures."""
        raise UnsupportedError("nothing is timed here", place="triton.testing", remedy="use `warpsight run`, or `warpsight tune`")


class DeviceArray:
    """A NumPy array as Triton's launcher sees a tensor; all else is the array's own."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array, self.dtype = array, array.dtype

    def data_ptr(self) -> int:
        """An address with the alignment of device memory: arrays begin at multiples of 256 bytes."""
        return 0

    def stride(self, dimension: int | None = None) -> Any:
        """Strides in elements, as PyTorch's."""
        strides = tuple(each // self.array.itemsize for each in self.array.strides)
        return strides if dimension is None else strides[dimension]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        return DeviceArray(copy.deepcopy(self.array, memo))


# -- The driver that Triton is given.

class Driver:
    """Triton's active driver, for one `Device`."""

    def __init__(self, device: Device) -> None:
        self.device, self.utils, self.launcher_cls = device, _Utilities(device), _Launcher

    def get_current_target(self) -> Any:
        """What Triton compiles for."""
        return importlib.import_module("triton.backends.compiler").GPUTarget("cuda", self.device.number, WARP)

    def get_current_device(self) -> int:
        """Triton keeps what it compiles by device: that of another architecture is another one."""
        return self.device.number

    def set_current_device(self, device: Any) -> None:
        """There is one."""

    def get_current_stream(self, device: Any = None) -> int:
        """Launches run one after the other."""
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """The compute capability."""
        return divmod(self.device.number, 10)

    def get_active_torch_device(self) -> Any:
        """Where tensors are: in the memory of this machine."""
        return importlib.import_module("torch").device("cpu")

    def get_device_interface(self) -> Any:
        """PyTorch's module for the device."""
        return importlib.import_module("torch").cpu

    def map_python_to_cpp_type(self, kind: str) -> Any:
        """Types in the launcher's own language, of which there is none here."""
        return kind

    def get_benchmarker(self) -> Any:
        """How the autotuner measures."""

        def benchmark(call: Any, quantiles: Sequence[float] | None = None, **_: Any) -> Any:
            time = self.device.time_ms(call)
            return time if quantiles is None else [time] * len(quantiles)

        return benchmark

    def get_empty_cache_for_benchmark(self) -> Any:
        """Nothing: a launch begins with the caches as the run has them."""
        return None

    def clear_cache(self, cache: Any) -> None:
        """As above."""

    @staticmethod
    def is_active() -> bool:
        """It is when it is set."""
        return True


@contextlib.contextmanager
def driving(device: Device) -> Iterator[Driver]:
    """Launches of Triton go to `device`; afterwards Triton is as it was."""
    config = importlib.import_module("triton.runtime.driver").driver
    backends = importlib.import_module("triton.backends").backends
    driver, saved, nvidia = Driver(device), dict(vars(config)), backends["nvidia"]
    config.set_active(driver)
    backends["nvidia"] = type(nvidia)(compiler=_ptx_backend(nvidia.compiler), driver=nvidia.driver)
    try:
        yield driver
    finally:
        vars(config).clear()
        vars(config).update(saved)
        backends["nvidia"] = nvidia


_BACKENDS: dict[Any, Any] = {}


def _ptx_backend(original: Any) -> Any:
    """Triton's backend for NVIDIA, with PTX in place of machine code."""

    def parse_options(self: Any, given: Any) -> Any:
        options = original.parse_options(self, given)
        # a module of the backend's own, which Triton 3.3 loads under a name that others may have
        newest = original.parse_options.__globals__["get_ptx_version_from_options"](options, self.target.arch)
        return dataclasses.replace(options, ptx_version=min(newest, _PTX_VERSION))

    def name(self: Any) -> str:  # Triton's cache tells apart what backends have made by it
        return f"warpsight-{original.hash(self)}"

    def make_cubin(self: Any, ptx: str, *_: Any) -> bytes:
        return ptx.encode()

    if original not in _BACKENDS:
        members = {"parse_options": parse_options, "make_cubin": make_cubin, "hash": name}
        _BACKENDS[original] = type("PtxBackend", (original,), members)
    return _BACKENDS[original]


@dataclass
class _TensorMap:
    """A tensor map without its address."""

    data: bytes


class _Utilities:
    """What Triton asks of the driver about the device, and for machine code and tensor maps."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def get_device_properties(self, device: Any) -> dict[str, int]:
        """The limits that Triton checks, and programs ask for."""
        return self.device.properties

    def load_binary(self, name: str, kernel: Any, shared: int, device: Any) -> tuple[Any, ...]:
        """Module, function, registers and spills, and the most threads where Triton asks for them: the function is the PTX.

        A Triton that knows a loaded kernel by its launcher gets no module, which it would unload by the driver that is active when
        the kernel goes: maybe by none.
        """
        ptx = kernel.decode() if isinstance(kernel, bytes) else str(kernel)
        loads = importlib.import_module("triton.compiler.compiler").CompiledKernel._init_handles.__code__  # 3.3 has no such name
        most = (1024,) if "n_max_threads" in loads.co_names else ()
        module = None if "_run" in loads.co_names else ptx
        return (module, ptx, self.device.registers(ptx, name), 0, *most)

    def unload_module(self, module: Any) -> None:
        """Nothing is kept."""

    def set_printf_fifo_size(self, size: int) -> None:
        """Printed text has no limit."""

    def fill_tma_descriptor_tiled(
        self, address: int, swizzle: int, element_bytes: int, kind: int, box: Sequence[int], shape: Sequence[int],
        strides: Sequence[int], padding: int = 0,
    ) -> _TensorMap:
        """A map of boxes; Triton has the contiguous dimension last."""
        return _TensorMap(_shape(swizzle, element_bytes, kind, shape, strides, padding).tiled(tuple(reversed(box))))

    fill_tma_descriptor = fill_tma_descriptor_tiled

    def fill_tma_descriptor_im2col(
        self, address: int, swizzle: int, element_bytes: int, kind: int, box: Sequence[int], shape: Sequence[int],
        strides: Sequence[int], padding: int, lower: Sequence[int], upper: Sequence[int], steps: Sequence[int],
    ) -> _TensorMap:
        """A map of columns: the box is pixels, then channels of each."""
        described = _shape(swizzle, element_bytes, kind, shape, strides, padding, tuple(reversed(steps)))
        return _TensorMap(described.im2col(box[1], box[0], tuple(reversed(lower)), tuple(reversed(upper))))


def _shape(
    swizzle: int, element_bytes: int, kind: int, shape: Sequence[int], strides: Sequence[int], padding: int,
    steps: Sequence[int] = (),
) -> TensorShape:
    sizes = [int(each) for each in reversed(shape)]
    byte_strides = [int(each) * element_bytes for each in reversed(strides)]
    return TensorShape(int(kind), sizes, byte_strides[1:], int(swizzle), bool(padding), steps)


class _Launcher:
    """Launches of one compiled kernel: Triton calls it with the grid and all arguments."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.name, self.metadata = str(getattr(getattr(source, "fn", None), "__name__", metadata.name)), metadata
        self.signature = tuple(source.signature.values())

    def __call__(
        self, x: int, y: int, z: int, stream: Any, ptx: str, packed: Any, told: Any, on_enter: Any, on_exit: Any, *values: Any
    ) -> None:
        """Hand the launch to the device of the active driver."""
        blocks, cluster = int(x) * int(y) * int(z), int(getattr(self.metadata, "num_ctas", 1))
        if blocks < 1:
            return
        sizes = _parameter_sizes(ptx)
        places = _Places(sizes, list(getattr(self.metadata, "tensordesc_meta", None) or ()))
        for kind, value in zip(self.signature, values, strict=True):
            places.add(kind, value)
        for prefix in ("global", "profile"):  # the scratch memory that follows the kernel's own parameters
            if len(places.arguments) < len(sizes):
                wanted = int(getattr(self.metadata, f"{prefix}_scratch_size", 0) or 0) * blocks * cluster
                places.arguments.append(ArrayArgument(np.zeros(wanted, np.uint8)) if wanted else bytes(8))
        if on_enter is not None:
            on_enter(told)
        launch = TritonLaunch(
            self.name, ptx, str(self.metadata.name), (int(x) * cluster, int(y), int(z)), WARP * int(self.metadata.num_warps),
            int(self.metadata.shared), (cluster, 1, 1) if cluster > 1 else None, tuple(places.arguments),
        )  # fmt: skip
        importlib.import_module("triton.runtime.driver").driver.active.device.launch(launch)
        if on_exit is not None:
            on_exit(told)


def _parameter_sizes(ptx: str) -> list[int]:
    """Bytes of each parameter of the kernel in `ptx`."""
    start = ptx.index("(", ptx.index(".entry"))
    listed = ptx[start : ptx.index(")", start)]
    return [int(bits) // 8 * int(count or 1) for bits, count in _PARAMETER.findall(listed)]


class _Places:
    """The kernel's parameters, one after the other."""

    def __init__(self, sizes: Sequence[int], maps: list[Any]) -> None:
        self.arguments: list[ArrayArgument | bytes] = []
        self._sizes, self._maps = sizes, maps

    def add(self, kind: Any, value: Any) -> None:
        """One argument of the signature, which may become several parameters, or none."""
        if isinstance(kind, tuple):
            for inner, each in zip(kind, value, strict=True):
                self.add(inner, each)
        elif kind.startswith("tensordesc"):
            make = importlib.import_module("triton.backends.nvidia.driver").make_tensordesc_arg
            unused = [None] * (len(inspect.signature(make).parameters) - 2)
            first, *numbers = make(value, self._maps.pop(0) if self._maps else None, *unused)
            self.arguments.append(memory_of(value.base, first.data if isinstance(first, _TensorMap) else b""))
            self.arguments += [_integer(number, self._size(k)) for k, number in enumerate(numbers)]
        elif kind.startswith("*"):
            self.arguments.append(memory_of(value))
        elif kind != "constexpr":
            self.arguments.append(_scalar(kind, value, self._size()))

    def _size(self, further: int = 0) -> int:
        """Bytes of the next parameter, or of one after it."""
        return self._sizes[len(self.arguments) + further]


def _integer(value: Any, size: int) -> bytes:
    return (int(value) & (1 << 8 * size) - 1).to_bytes(size, "little")


def _scalar(kind: str, value: Any, size: int) -> bytes:
    if kind == "bf16":
        return np.float32(value).tobytes()[-size:]  # the upper half of single precision
    if kind in _FLOATS:  # older versions pass half precision as single
        return np.array(value, "f4" if size == 4 and kind != "fp64" else _FLOATS[kind]).tobytes()
    if re.fullmatch(r"[iu]\d+", kind) is None:
        raise UnsupportedError(f"a scalar of type {kind} is not modelled", place="arguments", remedy=ARGUMENTS)
    return _integer(value, size)


# -- Memory that Triton's arguments name.

def memory_of(value: Any, descriptor: bytes = b"") -> ArrayArgument:
    """The memory of a NumPy array, or of a tensor of PyTorch: all of its storage, and where in it the tensor begins."""
    if isinstance(value, DeviceArray):
        return ArrayArgument(value.array, descriptor=descriptor)
    inner = getattr(value, "base", value) if not hasattr(value, "untyped_storage") else value  # Triton's reinterpreted tensors
    if not hasattr(inner, "untyped_storage"):
        raise UnsupportedError(f"a {type(value).__name__} is no memory here", place="arguments", remedy=ARGUMENTS)
    if inner.device.type != "cpu":
        raise UsageError(f"the tensor is on device {inner.device}", place="arguments", remedy="use tensors of the CPU")
    storage = inner.untyped_storage()
    start, size = storage.data_ptr(), storage.nbytes()
    if not size:
        return ArrayArgument(np.zeros(0, np.uint8), descriptor=descriptor)
    content = _Storage((ctypes.c_uint8 * size).from_address(start), storage)
    kind = _NUMPY_NAMES.get(str(inner.dtype).removeprefix("torch."))
    array = np.asarray(content).view(kind if kind and size % np.dtype(kind).itemsize == 0 else "u1")
    return ArrayArgument(array, offset=inner.storage_offset() * inner.element_size(), descriptor=descriptor)


class _Storage:
    """Bytes of a PyTorch storage, which lives as long as an array of them."""

    def __init__(self, content: Any, owner: Any) -> None:
        self._owner = owner
        self.__array_interface__ = np.ctypeslib.as_array(content).__array_interface__
