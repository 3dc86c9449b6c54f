"""A launch: which kernel, how many threads, which arguments. What the emulator runs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import WarpsightError
from warpsight.base.findings import Finding
from warpsight.kernels.images import Image

if TYPE_CHECKING:
    from warpsight.isa.ptx.program import Module

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class KernelSource:
    """Kernels ready to run: the parsed PTX module, its text, and where it came from.

    `path` is what the user gave (shown in answers), `ptx` the PTX text, `target` its `.target` (`sm_75`). `mangled_names` maps the
    kernel expressions that were asked for (`scale<float>`) to names in the PTX; `warnings` are the compiler's, as it words them.
    Of kernels that were given as machine code there is the `cubin`; `module` then has what it says of them, and no instructions,
    and `ptx` is the text that its line information names, or "". `assembling` are options of the assembler, as `-maxrregcount=32`.
    """

    path: str
    ptx: str
    module: Module
    mangled_names: dict[str, str] = field(default_factory=dict)
    warnings: str = ""
    cubin: bytes = b""
    assembling: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """The PTX target, `sm_75`; of machine code its architecture."""
        return self.module.target

    @property
    def register_limit(self) -> int | None:
        """The most registers that the assembler was asked to take, None where it was not."""
        limits = (option.removeprefix("-maxrregcount=") for option in self.assembling if option.startswith("-maxrregcount="))
        return next(map(int, limits), None)

    @property
    def identity(self) -> str:
        """A text that differs where the kernels do: the PTX and what the assembler makes of it, or a hash of the machine code."""
        return hashlib.sha256(self.cubin).hexdigest() if self.cubin else "\n".join((self.ptx, *self.assembling))


@dataclass(frozen=True)
class ScalarArgument:
    """A scalar or by-value struct parameter: the bytes that the kernel sees."""

    data: bytes


@dataclass(frozen=True)
class ArrayArgument:
    """Device memory. `array` is C-contiguous; it is copied in before the launch and, if `written_back`, out after it.

    The parameter is the address of byte `offset` of it, or with a `descriptor` a struct whose first 8 bytes become that address,
    such as a tensor map. Arguments with the same memory share it on the device too.
    """

    array: npt.NDArray[Any]
    written_back: bool = True
    offset: int = 0
    descriptor: bytes = b""

    def parameter(self, address: int) -> bytes:
        """The bytes of the parameter, for an array that lies at `address`."""
        return (address + self.offset).to_bytes(8, "little") + self.descriptor[8:]


Argument = ScalarArgument | ArrayArgument | Image


class LaunchShape:
    """What follows from the dimensions `grid`, in blocks, and `block`, in threads."""

    grid: Dim3
    block: Dim3

    @property
    def threads_per_block(self) -> int:
        """Threads in a block."""
        return math.prod(self.block)

    @property
    def warps_per_block(self) -> int:
        """Warps in a block, the last one possibly partial."""
        return -(-self.threads_per_block // 32)

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return math.prod(self.grid)


@dataclass(frozen=True)
class Launch(LaunchShape):
    """One launch of `kernel` (mangled name). `shared_bytes` is dynamic shared memory. Arguments are in parameter order. `cluster`
    is the shape of a thread block cluster, in blocks; None where the launch has none.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    arguments: tuple[Argument, ...]
    shared_bytes: int = 0
    cluster: Dim3 | None = None

    @property
    def cluster_blocks(self) -> int:
        """Blocks in a cluster."""
        return math.prod(self.cluster or (1,))


DEFAULT_HEAP_BYTES = 8 << 20  # cudaLimitMallocHeapSize before anyone sets it
DEFAULT_STACK_BYTES, MAX_STACK_BYTES = 8192, 1 << 20


@dataclass(frozen=True)
class RunOptions:
    """What the device runtime offers to a kernel: bytes for its `malloc`, where its `printf` writes (None: standard
    output). `stack_bytes` per thread are for calls that are not expanded in place: recursion, and calls through pointers.

    `check` are the checks that watch the launch (of `findings.WATCHING`); `found` is told at its end what they found, or without
    it (None) errors are raised as one CheckFault. Wrong accesses then read zeros and change nothing, and the launch goes on.
    `order` is the seed of another order of blocks, warps and lanes (of a kernel prepared with the check `order`); 0 is the usual
    one.

    `out_of_bounds` is told of loads, stores and atomics out of bounds: of each instruction the first, as the error that it would
    be, and how many lanes did so. They read zeros and change nothing. Without it (None) they are faults, as are always those
    further away than the 2 MiB page of an allocation.
    """

    heap_bytes: int = DEFAULT_HEAP_BYTES
    output: TextIO | None = None
    check: frozenset[str] = frozenset()
    found: Callable[[Finding], None] | None = None
    order: int = 0
    stack_bytes: int = DEFAULT_STACK_BYTES
    out_of_bounds: Callable[[WarpsightError, int], None] | None = None


DEFAULT_OPTIONS = RunOptions()


# -- Which kernel on which inputs: the hashes by which what was recorded or computed of a launch is found again.

def kernel_hash(kernel: str, source: KernelSource) -> str:
    """SHA-256 (64 hexadecimal digits) of a kernel's name and its text or machine code."""
    return hashlib.sha256(f"{kernel}\n{source.identity}".encode()).hexdigest()


def input_hash(launch: Launch) -> str:
    """BLAKE2b (64 hexadecimal digits) of the launch's shape and of every argument, arrays byte by byte."""
    shape = (launch.grid, launch.block, launch.shared_bytes) + ((launch.cluster,) if launch.cluster is not None else ())
    digest = hashlib.blake2b(repr(shape).encode(), digest_size=32)
    for argument in launch.arguments:
        if isinstance(argument, Image):
            settings = [(name, value) for name, value in vars(argument).items() if name != "array"]
            image = (type(argument).__name__, argument.array.shape, argument.array.dtype.str, settings)
            digest.update(repr(image).encode())
            digest.update(argument.array.reshape(-1).view(np.uint8).data)
        elif isinstance(argument, ArrayArgument):
            more = f" {argument.offset} {argument.descriptor.hex()}" if argument.offset or argument.descriptor else ""
            digest.update(f"array {argument.array.nbytes}{more}".encode())
            digest.update(argument.array.reshape(-1).view(np.uint8).data)
        else:
            digest.update(b"scalar " + argument.data)
    return digest.hexdigest()
