"""The modules and kernels of a running program: taken from fat binaries, parsed when loaded, compiled when first launched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from warpsight.base.errors import UnsupportedError
from warpsight.emulator.codegen.layout import ARENA_BASE
from warpsight.emulator.codegen.symbols import GLOBAL_ALIGN, align_up
from warpsight.emulator.ptx.system import needs_workspace
from warpsight.emulator.run.externals import uses_heap
from warpsight.emulator.run.launch import PreparedKernel, prepare_kernel
from warpsight.emulator.run.memory import ModuleData
from warpsight.emulator.sass.system import reads_workspace
from warpsight.isa.ptx.program import Function
from warpsight.kernels.assembler import cubin_of, link
from warpsight.kernels.cubin import host_code, kernel_image
from warpsight.kernels.fatbin import image_entries
from warpsight.kernels.launch import Dim3, KernelSource, Launch
from warpsight.kernels.machine_code import variant_of
from warpsight.kernels.mangling import display_name
from warpsight.kernels.registers import RegisterUse, register_use
from warpsight.kernels.sources import module_source
from warpsight.kernels.toolkit import Architecture

# -- The modules and kernels of one running program.

MODULE_ZONE = 0x40000000
"""Bytes at the start of the arena that no `cudaMalloc` gives, as in runtime.h: variables of modules in the first half, then the
heap of the kernels' own `malloc`, and at the end the workspace of a cooperative grid."""
WORKSPACE = ARENA_BASE + MODULE_ZONE - GLOBAL_ALIGN
HEAP_START = ARENA_BASE + MODULE_ZONE // 2
HEAP_MOST_BYTES = WORKSPACE - GLOBAL_ALIGN - HEAP_START
_OF_TILES = "___NV_TILE_LAUNCH_META_DATA___"  # the compiler of CUDA Tile (cuTile) declares it in its modules


@dataclass
class History:
    """What the launches of a kernel have shown: the warp instructions of a block, and whether blocks share what they write."""

    per_block: float = math.inf
    shares: bool = False

    def threads(self, launch: Launch, most: int) -> int:
        """How many of `most` threads are worth while for this one."""
        return 1 if self.shares or self.expected(launch) < _WORTH_THREADS else most

    def expected(self, launch: Launch) -> float:
        """The warp instructions of this one, infinite for a first."""
        return self.per_block * launch.blocks

    def ran(self, launch: Launch, instructions: int, *, undone: bool) -> None:
        """A launch has executed so many; `undone`: at first on several threads, in vain."""
        self.per_block, self.shares = instructions / launch.blocks, self.shares or undone


_WORTH_THREADS = 1 << 20  # warp instructions, which take up to 50 ms


@dataclass(frozen=True)
class Kernel:
    """A kernel of a loaded module. `base` is where its module's variables lie; `architecture` whose machine code is executed, None
    for PTX.
    """

    source: KernelSource
    function: Function
    base: int
    architecture: Architecture | None = None
    checks: frozenset[str] = frozenset()
    history: History = field(default_factory=History, compare=False)

    @property
    def name(self) -> str:
        """As in the source."""
        return display_name(self.function.name)

    @cached_property
    def prepared(self) -> PreparedKernel:
        """Compiled. Raises UnsupportedError."""
        return self._prepare(clustered=False)

    @cached_property
    def prepared_for_clusters(self) -> PreparedKernel:
        """The same for launches in clusters of several blocks."""
        return self._prepare(clustered=True)

    def prepared_for(self, launch: Launch) -> PreparedKernel:
        """Compiled as the launch needs it; a kernel is seldom launched in both ways, and compiling may take a minute."""
        return self.prepared_for_clusters if launch.cluster_blocks > 1 else self.prepared

    def _prepare(self, *, clustered: bool) -> PreparedKernel:
        return prepare_kernel(
            self.source, self.function.name, architecture=self.architecture, global_base=self.base, checks=self.checks,
            clustered=clustered,
        )  # fmt: skip

    @cached_property
    def uses_heap(self) -> bool:
        """Does it, or a function of its module, call `malloc`?"""
        return uses_heap(self.function, self.source)

    def needs_workspace(self, prepared: PreparedKernel) -> bool:
        """Does it wait for its whole grid?"""
        if self.architecture is None:
            return needs_workspace(self.function)
        return reads_workspace(prepared.function, prepared.native.symbols.parameters_start)

    @cached_property
    def registers(self) -> RegisterUse:
        """Registers per thread and static shared memory."""
        return register_use(self.source, self.function.name, architecture=self.architecture)

    @cached_property
    def layout(self) -> list[tuple[int, int]]:
        """Offset and size of each parameter, in bytes."""
        rows, end = [], 0
        for parameter in self.function.parameters:
            end = align_up(end, max(1, parameter.align))
            rows.append((end, parameter.size))
            end += parameter.size
        return rows

    @property
    def maker(self) -> bytes:
        """Code for the host that makes the last parameter, where programs do not give it; else nothing. Raises UnsupportedError."""
        if self.architecture is None or not self.function.made_bytes:
            return b""
        return host_code(cubin_of(self.source, self.architecture), self.function.name, self.source.path)

    def bank(self, parameters: bytes, prepared: PreparedKernel) -> bytes:
        """The parameters as its code finds them: in machine code they stand in constant bank 0, behind the launch's own words."""
        if self.architecture is None:
            return parameters
        symbols = prepared.native.symbols
        bank = bytearray(symbols.param_bytes)
        placed = (each for each in symbols.placed if each.space == "param")
        for (start, size), parameter in zip(self.layout, placed, strict=True):
            bank[parameter.offset : parameter.offset + size] = parameters[start : start + size]
        return bytes(bank)

    @property
    def max_threads(self) -> int:
        """Threads that a block may have, by the kernel's own word (.maxntid, .reqntid), else CUDA's limit."""
        most = self.function.required_threads or self.function.max_threads
        return most[0] * most[1] * most[2] if most else 1024

    @property
    def _is_of_tiles(self) -> bool:
        return _OF_TILES in self.source.module.variables

    @property
    def required_block(self) -> Dim3:
        """The block that programs must give (.reqntid), zeros for any."""
        required = self.function.required_threads
        return (0, 0, 0) if required is None or self._is_of_tiles else required

    @property
    def required_cluster(self) -> Dim3:
        """The cluster that programs get if they give none (.reqnctapercluster), zeros for none."""
        required = self.function.required_cluster
        return (0, 0, 0) if required is None or self._is_of_tiles else required

    def shape(self, grid: Dim3, block: Dim3, cluster: Dim3) -> tuple[Dim3, Dim3, Dim3 | None]:
        """Grid, block and cluster of a launch from what the program states.

        For a kernel of CUDA Tile it states the number of tile blocks, and (1, 1, 1). The driver starts the threads that the kernel
        was compiled for, and its cluster of blocks for each tile block, which the code numbers by `%clusterid`.
        """
        if not self._is_of_tiles:
            return grid, block, cluster if cluster[0] else None
        threads, blocks = self.function.required_threads or block, self.function.required_cluster
        if blocks is None:
            return grid, threads, None
        return (grid[0] * blocks[0], grid[1] * blocks[1], grid[2] * blocks[2]), threads, blocks


def placed(source: KernelSource, architecture: Architecture | None, base: int, limit: int, program: str) -> ModuleData:
    """The variables of a module from address `base` on, those of machine code where the code of all its kernels has them. Raises
    UnsupportedError, which names the `program`, where they go past `limit`.
    """
    image = None if architecture is None else kernel_image(cubin_of(source, architecture), "", source.path)
    data = ModuleData(source.module, base, source.path, image)
    if data.end > limit:
        raise UnsupportedError(f"its modules' variables take more than {limit - ARENA_BASE >> 20} MiB", place=program)
    return data


def variable_names(data: ModuleData) -> dict[int, str]:
    """What messages call the variables, by address."""
    return {address: f'variable "{display_name(name)}"' for name, address, *_ in data.rows}


@dataclass(frozen=True)
class LoadedModule:
    """A module whose variables have their addresses."""

    source: KernelSource
    data: ModuleData
    base: int
    architecture: Architecture | None = None


@dataclass
class Modules:
    """Everything that one program has loaded. `program` names it in messages; `architecture` is whose machine code is executed,
    None for PTX, of which there may be several: then that which CUDA chooses for `gpu`. `checks` watch the launches.
    """

    program: str
    architecture: Architecture | None = None
    checks: frozenset[str] = frozenset()
    gpu: Architecture | None = None
    modules: list[LoadedModule] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    _end: int = ARENA_BASE
    _known: dict[bytes, KernelSource] = field(default_factory=dict)

    def load(self, image: bytes) -> int:
        """Load a fat binary, a cubin or PTX; returns its number. Raises UnsupportedError, FormatError."""
        if image not in self._known:
            self._known[image] = self._parse(image)
        source = self._known[image]
        architecture = self.architecture and variant_of(source, self.architecture)
        data = placed(source, architecture, self._end, HEAP_START, self.program)
        self.names |= variable_names(data)
        self.modules.append(LoadedModule(source, data, self._end, architecture))
        self._end = data.end
        return len(self.modules) - 1

    def link(self, images: Sequence[tuple[int, bytes]]) -> bytes:
        """Cubins, PTX, fat binaries, object files or libraries as one cubin; each has a number of `CUjitInputType`. Raises
        UnsupportedError where PTX is executed, CompileError.
        """
        if self.architecture is None:
            what = "it links several images (cuLinkAddData), which gives machine code, and PTX is executed"
            raise UnsupportedError(what, place=self.program, remedy="run it with `--level sass`, or load one PTX with all of it")
        return link(images, self.program, self.architecture)

    def _parse(self, image: bytes) -> KernelSource:
        number = len(self._known) + 1
        place = self.program if number == 1 else f"{self.program}[{number}]"
        return module_source(image_entries(image, place), place, self.architecture, self.gpu)

    def kernel(self, module: int, name: str) -> int | None:
        """The number of a kernel of a loaded module, None if it has no such kernel."""
        loaded = self.modules[module]
        function = loaded.source.module.kernels.get(name)
        if function is None:
            return None
        self.kernels.append(Kernel(loaded.source, function, loaded.base, loaded.architecture, self.checks))
        return len(self.kernels) - 1

    def reset(self) -> None:
        """Forget what was loaded, but not how it was parsed."""
        self.modules.clear()
        self.kernels.clear()
        self.names.clear()
        self._end = ARENA_BASE
