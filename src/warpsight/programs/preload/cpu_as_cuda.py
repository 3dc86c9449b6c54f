"""PyTorch of the CPU for a script that was written for a GPU: `cuda` means the CPU.

For a script that runs in Warpsight's process (`torch_device.py`), and for a program in whose process the tensors lie in device
memory (`static_runtime.c`). That may have another Python, so that nothing but PyTorch and Python's library is imported here.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any


def function_mode(torch: Any, address: Callable[[Any], int | None]) -> Any:
    """A context in which each `cuda` is the CPU. `address` gives what `data_ptr()` of a tensor returns, or None for its own."""
    base = importlib.import_module("torch.overrides").TorchFunctionMode
    is_cuda, address_of, to_cuda = torch.Tensor.is_cuda.__get__, torch.Tensor.data_ptr, torch.Tensor.cuda
    to_device = torch.Tensor.to

    def on_cpu(value: Any, names_device: bool = False) -> Any:
        if names_device and type(value) is int:  # a GPU by its number
            return torch.device("cpu")
        kind = value if isinstance(value, str) else value.type if isinstance(value, torch.device) else ""
        return torch.device("cpu") if kind.partition(":")[0] == "cuda" else value

    class CudaMeansCpu(base):  # type: ignore[misc, valid-type]
        """See above."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function == is_cuda:
                return True
            if function is to_cuda:
                return args[0]
            if function is address_of and (known := address(args[0])) is not None:
                return known
            named = {key: on_cpu(value, True) if key == "device" else value for key, value in (kwargs or {}).items()}
            named.pop("pin_memory", None)
            return function(*(on_cpu(value, function is to_device and k == 1) for k, value in enumerate(args)), **named)

    return CudaMeansCpu()


def answers(name: str, capability: tuple[int, int], properties: dict[str, int]) -> dict[str, Any]:
    """What `torch.cuda` says of the one device, and what has no effect."""
    described = SimpleNamespace(name=name, major=capability[0], minor=capability[1], **properties)
    return {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0, "set_device": lambda _: None,
        "device": contextlib.nullcontext,  # many launch in `with torch.cuda.device(x.device.index)`
        "get_device_name": lambda _=None: name, "get_device_capability": lambda _=None: capability,
        "get_device_properties": lambda _=None: described, "empty_cache": lambda: None, "manual_seed": lambda _: None,
        "set_stream": lambda _: None, "stream": lambda _: contextlib.nullcontext(),
    }  # fmt: skip


# -- In a program's process: streams and events are those of Warpsight's runtime library.

_ATTRIBUTES = {
    "multi_processor_count": 16, "warp_size": 10, "L2_cache_size": 38, "regs_per_multiprocessor": 82,
    "shared_memory_per_multiprocessor": 81, "shared_memory_per_block_optin": 97, "max_threads_per_multi_processor": 39,
}  # fmt: skip
_MAJOR, _MINOR, _NAME_BYTES = 75, 76, 256
_CUDA, _DEVICE_IN_TENSOR, _TENSOR_IN_VERSIONED = 2, 8, 32  # of DLPack: a kind of device, and offsets in bytes


class _Library:
    """The runtime library. A function that fails raises RuntimeError with its name and number, as PyTorch does."""

    def __init__(self, folder: str) -> None:
        self.runtime = ctypes.CDLL(os.path.join(folder, "libcudart.so.13"))

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.runtime, name)(*arguments)
        if code:
            raise RuntimeError(f"CUDA error: {name} returned {code}")

    def value(self, name: str, kind: Any, *arguments: Any) -> Any:
        """What the function writes to where its first argument points."""
        result = kind()
        self.call(name, ctypes.byref(result), *arguments)
        return result.value


def install(torch: ModuleType, folder: str) -> None:
    """`cuda` is the CPU from now on, in this thread, with what the library in `folder` says of the device."""
    library = _Library(folder)
    function_mode(torch, lambda _: None).__enter__()
    number = {key: library.value("cudaDeviceGetAttribute", ctypes.c_int, which, 0) for key, which in _ATTRIBUTES.items()}
    capability = tuple(library.value("cudaDeviceGetAttribute", ctypes.c_int, which, 0) for which in (_MAJOR, _MINOR))
    text, free, total = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_size_t(), ctypes.c_size_t()
    library.runtime.cuDeviceGetName(text, _NAME_BYTES, 0)
    library.call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    stream, event = _streams(library)
    default = stream(handle=0)
    current = [default]

    @contextlib.contextmanager
    def entered(chosen: Any) -> Iterator[None]:
        current.append(chosen or current[-1])
        try:
            yield
        finally:
            current.pop()

    said = answers(text.value.decode(), capability, {**number, "total_memory": total.value}) | {
        "synchronize": lambda _=None: library.call("cudaDeviceSynchronize"), "Stream": stream, "Event": event,
        "current_stream": lambda _=None: current[-1], "default_stream": lambda _=None: default, "stream": entered,
        "mem_get_info": lambda _=None: (free.value, total.value), "init": lambda: None, "is_initialized": lambda: True,
    }  # fmt: skip
    for name, value in said.items():
        setattr(torch.cuda, name, value)

    @contextlib.contextmanager
    def any_backend(*_: Any, **__: Any) -> Iterator[None]:
        yield  # the CPU has none of those that scripts choose for a GPU

    importlib.import_module("torch.nn.attention").sdpa_kernel = any_backend  # type: ignore[attr-defined]
    _hand_over_as_cuda(torch)


def _streams(library: _Library) -> tuple[type, type]:
    """The classes `torch.cuda.Stream` and `Event`. What an operation of PyTorch does is done at once, and takes no time."""

    class Stream:
        def __init__(self, device: Any = None, priority: int = 0, *, handle: int | None = None) -> None:
            self.cuda_stream = library.value("cudaStreamCreate", ctypes.c_void_p) if handle is None else handle

        def synchronize(self) -> None:
            library.call("cudaStreamSynchronize", ctypes.c_void_p(self.cuda_stream))

        def wait_event(self, event: Any) -> None:
            library.call("cudaStreamWaitEvent", ctypes.c_void_p(self.cuda_stream), ctypes.c_void_p(event.cuda_event), 0)

        def record_event(self, event: Any = None) -> Any:
            event = event or Event()
            event.record(self)
            return event

        def wait_stream(self, stream: Any) -> None:
            self.wait_event(stream.record_event())

    class Event:
        def __init__(self, enable_timing: bool = False, **_: Any) -> None:
            self.cuda_event = library.value("cudaEventCreate", ctypes.c_void_p)

        def record(self, stream: Any = None) -> None:
            handle = stream.cuda_stream if stream is not None else 0
            library.call("cudaEventRecord", ctypes.c_void_p(self.cuda_event), ctypes.c_void_p(handle))

        def synchronize(self) -> None:
            library.call("cudaEventSynchronize", ctypes.c_void_p(self.cuda_event))

        def elapsed_time(self, end: Any) -> float:
            """Milliseconds from this one to another."""
            handles = ctypes.c_void_p(self.cuda_event), ctypes.c_void_p(end.cuda_event)
            return float(library.value("cudaEventElapsedTime", ctypes.c_float, *handles))

    return Stream, Event


def _hand_over_as_cuda(torch: Any) -> None:
    """Other packages are told by DLPack that a tensor's memory is the device's."""
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

    def of_device(capsule: Any) -> Any:
        name = name_of(capsule)
        place = pointer_of(capsule, name) + _DEVICE_IN_TENSOR + (_TENSOR_IN_VERSIONED if name == b"dltensor_versioned" else 0)
        ctypes.c_int.from_address(place).value = _CUDA
        return capsule

    in_c, in_python = torch._C._to_dlpack, torch.Tensor.__dlpack__

    def dlpack(self: Any, *, stream: Any = None, **settings: Any) -> Any:
        return of_device(in_python(self, **{key: value for key, value in settings.items() if key != "dl_device"}))

    torch._C._to_dlpack = lambda tensor, **settings: of_device(in_c(tensor, **settings))
    torch.Tensor.__dlpack__ = dlpack
    torch.Tensor.__dlpack_device__ = lambda self: (_CUDA, 0)
