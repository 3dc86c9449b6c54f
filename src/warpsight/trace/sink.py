"""Where a producer puts a trace while it is being made."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from warpsight.trace.schema import KernelTrace, PathTable, StaticInstruction, TraceChunk, TraceHeader


class TraceSink(Protocol):
    """Takes chunks in warp order as they are made, then everything that is known only at the end."""

    def add(self, chunk: TraceChunk) -> None:
        """Take the next chunk."""

    def restart(self) -> None:
        """Forget all chunks: the producer begins anew."""

    def finish(
        self,
        header: TraceHeader,
        instructions: tuple[StaticInstruction, ...],
        block_start: npt.NDArray[np.int32],
        paths: PathTable,
    ) -> KernelTrace:
        """Close the trace and give it back, ready to be read."""
