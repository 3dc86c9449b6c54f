"""Registers per thread and static shared memory of a kernel: by NVIDIA's own assembler, by the user's word, or estimated."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from warpsight.base import diskcache
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.isa.inline import inline_calls
from warpsight.workload import nvjitlink
from warpsight.workload.architecture import Architecture, parse_architecture
from warpsight.workload.cubin import CubinKernel, read_cubin
from warpsight.workload.launch import KernelSource
from warpsight.workload.libraries import MissingLibraryError
from warpsight.workload.register_estimate import declared_shared_bytes, estimate_registers

_CACHE_KIND = "registers"
_CACHE_FORMAT = "2"
_OLDEST_ASSEMBLED = 75
_MOST_REGISTERS = 255

Origin = Literal["assembler", "override", "estimate"]


@dataclass(frozen=True)
class RegisterUse:
    """What a kernel takes of an SM. `registers` and `local_bytes` per thread, `static_shared_bytes` per block.

    `origin` says who counted the registers; `note` whatever a reader must know about the figure, "" if nothing.
    """

    registers: int
    origin: Origin
    static_shared_bytes: int
    note: str = ""
    local_bytes: int = 0


def assembler_target(target: str) -> tuple[Architecture, str]:
    """The architecture to assemble a PTX `.target` for, and a note when it is not that very one."""
    wanted = parse_architecture(target.partition(",")[0])
    if wanted.number >= _OLDEST_ASSEMBLED:
        return wanted, ""
    used = Architecture(_OLDEST_ASSEMBLED)
    return used, f"registers are those for {used.real}: the assembler has no {wanted.real} any more"


def assembled_kernels(source: KernelSource) -> dict[str, CubinKernel]:
    """What the assembler says of every kernel of `source`, by mangled name; kept on disk.

    Raises MissingLibraryError, or CompileError with the assembler's words.
    """
    architecture, _ = assembler_target(source.target)
    key = diskcache.content_key(_CACHE_FORMAT, nvjitlink.library_identity(), architecture.real, source.ptx)
    if stored := diskcache.get(_CACHE_KIND, key):
        return {name: CubinKernel(**kernel) for name, kernel in json.loads(stored).items()}
    kernels = read_cubin(nvjitlink.assemble(source.ptx, source.path, architecture))
    diskcache.put(_CACHE_KIND, key, json.dumps({name: asdict(kernel) for name, kernel in kernels.items()}).encode())
    return kernels


def _counted(source: KernelSource, kernel: str) -> RegisterUse:
    try:
        assembled = assembled_kernels(source)[kernel]
    except (WarpsightError, KeyError) as error:
        if isinstance(error, MissingLibraryError):
            reason = f"{error.what}; {error.remedy}"
        else:
            reason = error.what if isinstance(error, WarpsightError) else "the assembler left the kernel out"
        function = inline_calls(source.module, source.module.kernels[kernel])
        shared = declared_shared_bytes(source.module, function)
        note = f"registers are estimated from live values in the PTX, because NVIDIA's assembler did not count them: {reason}"
        return RegisterUse(estimate_registers(function), "estimate", shared, note)
    _, note = assembler_target(source.target)
    return RegisterUse(assembled.registers, "assembler", assembled.static_shared_bytes, note, assembled.stack_bytes)


def register_use(source: KernelSource, kernel: str, override: int | None = None) -> RegisterUse:
    """What `kernel` (mangled name) takes. `override` replaces the number of registers, not the shared memory.

    Raises UsageError for a number of registers that no GPU gives a thread.
    """
    if override is not None and not 1 <= override <= _MOST_REGISTERS:
        raise UsageError(
            f"{override} registers per thread is outside 1 to {_MOST_REGISTERS}, CUDA's limits",
            place="--registers",
            remedy="give what the assembler reports, or leave it out",
        )
    counted = _counted(source, kernel)
    if override is None:
        return counted
    note = f"registers as given; without --registers: {counted.registers} ({counted.origin})"
    return RegisterUse(override, "override", counted.static_shared_bytes, note, counted.local_bytes)
