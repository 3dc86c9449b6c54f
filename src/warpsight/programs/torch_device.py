"""PyTorch of the CPU for a script that was written for a GPU: `cuda` means the CPU, and `torch.cuda` answers for a device of ours.

Only what a script with Triton kernels asks for is here. PyTorch's own operations run on the CPU, and take no time on the device.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.launch import ArrayArgument
from warpsight.kernels.triton_driver import Device, memory_of
from warpsight.programs.preload.cpu_as_cuda import answers, function_mode

Share = Callable[[ArrayArgument], int]


_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of a 4-bit float, below its sign


class _CublasLt:
    """cuBLAS, as Triton has it to compare with: operations of PyTorch."""

    def __init__(self, workspace: Any) -> None:
        """It needs no workspace."""

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """The product of `a` and the transpose of `b` goes to `c`."""
        c.copy_(a.float() @ b.float().T)

    def block_scaled_matmul_mxfp8(self, a: Any, b: Any, c: Any, a_scales: Any, b_scales: Any) -> None:
        """As `matmul`, of 8-bit floats with a scale, a power of two, for each 32 of a row."""
        left, right = (_scaled(each.float(), scales.float().sub(127).exp2()) for each, scales in ((a, a_scales), (b, b_scales)))
        self.matmul(left, right, c)

    def block_scaled_matmul_nvfp4(self, a: Any, b: Any, c: Any, a_scales: Any, b_scales: Any) -> None:
        """As `matmul`, of pairs of 4-bit floats with a scale for each 16 of a row."""
        self.matmul(_scaled(_of_fp4(a), a_scales.float()), _scaled(_of_fp4(b), b_scales.float()), c)


def _of_fp4(packed: Any) -> Any:
    """The numbers of a matrix of bytes, the lower four bits first."""
    torch = importlib.import_module("torch")
    table = torch.tensor([*_FP4, *(-value for value in _FP4)])
    return table[torch.stack([packed & 15, packed >> 4], dim=-1).long()].flatten(1)


def _scaled(matrix: Any, scales: Any) -> Any:
    """A matrix times its scales, which cuBLAS has in tiles of 128 rows x 4: row 32 i + j of a tile is its row j, i-th four."""
    rows, columns = matrix.shape
    tiles = scales.reshape(rows // 128, -1, 32, 4, 4)
    by_row = tiles.permute(0, 3, 2, 1, 4).reshape(rows, -1)
    return matrix * by_row.repeat_interleave(columns // by_row.shape[1], dim=1)


@contextlib.contextmanager
def as_cuda_device(device: Device, gpu: GpuSpec, share: Share) -> Iterator[None]:
    """`cuda` is the CPU, with the properties of `gpu`, until the end; `share` gives memory a device address.

    Without PyTorch nothing is done.
    """
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError:
        yield
        return
    testing = importlib.import_module("triton.testing")
    with contextlib.ExitStack() as stack:
        for name, value in _answers(device, gpu).items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value, create=True))
            if not hasattr(torch.cpu, name):  # scripts ask `getattr(torch, tensor.device.type)`
                stack.enter_context(mock.patch.object(torch.cpu, name, value, create=True))
        for name in ("do_bench", "do_bench_cudagraph"):
            stack.enter_context(mock.patch.object(testing, name, _benchmark(device)))
        nvidia = importlib.import_module("triton._C.libtriton").nvidia
        if hasattr(nvidia, "cublas"):
            stack.enter_context(mock.patch.object(nvidia.cublas, "CublasLt", _CublasLt))
        stack.enter_context(function_mode(torch, lambda tensor: None if _asked_by_triton() else share(memory_of(tensor))))
        yield


def _answers(device: Device, gpu: GpuSpec) -> dict[str, Any]:
    """What `torch.cuda` says."""
    properties = {
        "multi_processor_count": gpu.sm_count, "total_memory": 16 << 30, "warp_size": 32, "L2_cache_size": gpu.l2.size_bytes,
        "regs_per_multiprocessor": gpu.sm.registers, "shared_memory_per_multiprocessor": gpu.sm.shared_memory_bytes,
        "shared_memory_per_block_optin": device.properties["max_shared_mem"],
    }  # fmt: skip
    stream, event = _streams(device)
    current = stream()
    major, minor = divmod(device.number, 10)
    return answers(gpu.name, (major, minor), properties) | {
        "synchronize": lambda _=None: None, "current_stream": lambda _=None: current, "default_stream": lambda _=None: current,
        "Stream": stream, "Event": event,
    }  # fmt: skip


def _streams(device: Device) -> tuple[type, type]:
    """The classes `torch.cuda.Stream` and `Event`. All launches so far have ended, whatever stream they are in."""

    class Stream:
        cuda_stream = 0

        def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
            self.device, self.priority = device, priority

        def record_event(self, event: Any = None) -> Any:
            event = event or Event()
            event.record(self)
            return event

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            """All is done."""

        def wait_stream(self, stream: Any) -> None:
            """All in it is done."""

        wait_event = wait_stream

    class Event:
        def __init__(self, *_: Any, **__: Any) -> None:
            self.seconds = 0.0

        def record(self, stream: Any = None) -> None:
            """In the device's time: after all launches so far."""
            self.seconds = device.seconds

        def elapsed_time(self, end: Any) -> float:
            """Milliseconds from this one to another."""
            return float(end.seconds - self.seconds) * 1e3

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            """It has passed already."""

        def wait(self, stream: Any = None) -> None:
            """As above."""

    return Stream, Event


def _benchmark(device: Device) -> Any:
    """`triton.testing.do_bench`: one call, whose time is the prediction's, so that all statistics of it are the same."""

    def do_bench(
        fn: Any, warmup: Any = None, rep: Any = None, grad_to_none: Any = None, quantiles: Any = None, return_mode: str = "mean",
        **_: Any,
    ) -> Any:
        time = device.time_ms(fn)
        if quantiles is not None:
            return [time] * len(quantiles) if len(quantiles) > 1 else time
        return [time] if return_mode == "all" else time

    return do_bench


def _asked_by_triton() -> bool:
    """Does Triton, not the script, ask for an address? Its code for arguments is generated, and has no module."""
    name = sys._getframe(3).f_globals.get("__name__", "triton")
    return str(name).split(".")[0] in ("triton", "builtins", "warpsight")
