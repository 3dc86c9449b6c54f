"""The PTX text of a kernel's instructions, kept with its trace so that answers can show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from warpsight.trace.schema import KernelTrace, PathTable, StaticInstruction, TraceChunk, TraceHeader
    from warpsight.trace.store import FolderSink


def ptx_lines(ptx: str, instructions: tuple[StaticInstruction, ...]) -> dict[str, str]:
    """The line of `ptx` that each instruction stands in, by pc written as text (JSON has no other keys).

    Left out where that line does not name the opcode: an instruction of a linked library stands in another text.
    """
    lines = ptx.splitlines()
    found = {}
    for instruction in instructions:
        text = lines[instruction.ptx_line - 1].strip() if 0 < instruction.ptx_line <= len(lines) else ""
        if instruction.opcode.partition(".")[0] in text:
            found[str(instruction.pc)] = " ".join(text.split())
    return found


class WithPtx:
    """A folder's sink that also keeps the PTX lines, which are known once the instructions are."""

    def __init__(self, sink: FolderSink, ptx: str) -> None:
        self._sink, self._ptx = sink, ptx

    def add(self, chunk: TraceChunk) -> None:
        """Take the next chunk."""
        self._sink.add(chunk)

    def restart(self) -> None:
        """Forget all chunks."""
        self._sink.restart()

    def finish(
        self,
        header: TraceHeader,
        instructions: tuple[StaticInstruction, ...],
        block_start: npt.NDArray[np.int32],
        paths: PathTable,
    ) -> KernelTrace:
        """Close the trace and give it back, ready to be read."""
        self._sink.extra["ptx"] = ptx_lines(self._ptx, instructions)
        return self._sink.finish(header, instructions, block_start, paths)
