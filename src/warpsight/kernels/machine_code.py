"""Machine code for the GPU at hand: PTX assembled for exactly its architecture, disassembled and decoded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from warpsight.base.errors import UsageError
from warpsight.isa.ptx.program import Function
from warpsight.isa.sass.decode import decode_kernel
from warpsight.isa.sass.listing import ListedSection, read_listing
from warpsight.kernels import assembler
from warpsight.kernels.cubin import KernelImage, code_of_kernel, kernel_image
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.toolkit import Architecture, parse_architecture

OLDEST = 75  # that NVIDIA's assembler and disassembler know
OLDEST_GPU = 70  # whose instructions are those of 7.5, but for a few


@dataclass(frozen=True)
class MachineCode:
    """The kernels of one source for one architecture. `note` says where that is not the architecture that was asked for."""

    source: KernelSource
    architecture: Architecture
    cubin: bytes
    text: str
    note: str = ""

    def differs_from(self, other: MachineCode) -> bool:
        """Whether it is that of another source, or for another architecture."""
        one, another = ((each.source.path, each.source.identity, each.cubin, each.text, each.note) for each in (self, other))
        return one != another

    @cached_property
    def sections(self) -> dict[str, ListedSection]:
        """The listing by section."""
        return read_listing(self.text, self.source.path, len(self.source.ptx.splitlines()) if self.source.cubin else None)

    @cached_property
    def _decoded(self) -> dict[str, Function]:
        return {}

    def function(self, kernel: str) -> Function:
        """`kernel` (mangled name) decoded, with the functions that it may call. Raises FormatError, UnsupportedError."""
        if kernel not in self._decoded:
            self._decoded[kernel] = self._decode(kernel)
        return self._decoded[kernel]

    def _decode(self, kernel: str) -> Function:
        module = self.source.module
        lines = {i.ptx_line: (i.file, i.line, i.calls) for function in module.functions.values() for i in function.instructions}
        parameters, externals = module.functions[kernel].parameters, self.image(kernel).externals
        return decode_kernel(self.sections, kernel, parameters, lines, self.source.path, module.kernels, externals)

    def image(self, kernel: str) -> KernelImage:
        """What the kernel needs beside its instructions."""
        return kernel_image(self.cubin, kernel, self.source.path)


def native_architecture(wanted: Architecture) -> tuple[Architecture, str]:
    """The architecture to assemble for, and a note where it is not `wanted`: NVIDIA's assembler knows 7.5 and later."""
    if wanted.number >= OLDEST:
        return wanted, ""
    oldest = Architecture(OLDEST)
    return oldest, f"machine code is that of {oldest.real}: the assembler no longer supports {wanted.real}"


def variant_of(source: KernelSource, architecture: Architecture) -> Architecture:
    """`architecture`, in the variant (`sm_90a`) that the PTX of `source` is for; of machine code its own. Raises UsageError for PTX
    of a later one.
    """
    target = parse_architecture(source.target.partition(",")[0])
    if source.cubin:
        return target
    if target.number > architecture.number:
        what = f"is PTX for {target.real}, which cannot be assembled for {architecture.real}"
        remedy = f"choose a GPU of {target.real} or later, compile for an earlier architecture, or use level `ptx`"
        raise UsageError(what, place=source.path, remedy=remedy)
    return target if target.number == architecture.number else architecture


TOGETHER_BYTES = 256 << 10
"""Up to this size all kernels of a cubin are disassembled at once: the disassembler takes longer to start than to print them."""
UNFUSED = "-fmad=false"
"""The assembler's option that keeps products and sums apart, which PTX without a rounding modifier lets it fuse."""


def machine_code(source: KernelSource, wanted: Architecture, options: tuple[str, ...] = (), kernel: str = "") -> MachineCode:
    """The machine code of `source` for `wanted`; kept on disk by content. `options` are the assembler's. With a `kernel` (mangled
    name) the code of other kernels is left out where there is much.

    Raises MissingLibraryError where NVIDIA's assembler or disassembler is missing, CompileError where one refuses its input.
    """
    architecture, note = native_architecture(wanted)
    if source.cubin:
        architecture = parse_architecture(source.target)
    cubin = assembler.cubin_of(source, architecture, options)
    apart = kernel and len(source.module.kernels) > 1 and len(cubin) > TOGETHER_BYTES
    functions = code_of_kernel(cubin, kernel, source.path) if apart else ()
    text = assembler.disassemble(cubin, source.path, source_lines=bool(source.cubin), functions=functions)
    made = MachineCode(source, architecture, cubin, text, note)
    if not _LAST or made.differs_from(_LAST[0]):
        _LAST[:] = [made]
    return _LAST[0]


_LAST: list[MachineCode] = []  # a kernel that runs again, for the addresses of lanes, is not decoded again
