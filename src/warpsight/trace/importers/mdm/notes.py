"""What a reader of results must know about a trace of MDM's tools: above all what it does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.trace.importers.mdm.importer import KernelReader


def notes_of(reader: KernelReader) -> tuple[str, ...]:
    """The notes that only this format needs, once all is read."""
    accesses, varying = reader.accesses, reader.program.varying
    functional = accesses is not None and accesses.path.name.startswith("memory_access")
    return tuple(
        note
        for note in (
            f"accesses are told as lines of {reader.line_bytes} B: each counts as all of its {reader.line_bytes // 32} sectors, so "
            "that traffic of L2 and DRAM is as of whole lines",
            "this tool writes no masks: every lane of a warp counts as active; shared and local memory have no addresses",
            "this tool writes operands as numbers, whatever they are: immediates and constants below 256 count as registers, so "
            "that some dependences are not the program's",
            f"{varying:,} operand fields hold something else each time, which is no operand, and are left out" if varying else "",
            f"{reader.lacking:,} executions of accesses have none in the memory trace: no lane was on, or another run was traced"
            if reader.lacking
            else "",
            f"{accesses.dropped:,} lines beyond any memory, or line 0, of lanes that were off, are left out"
            if accesses is not None and accesses.dropped
            else "",
            "the numbers in memory_access are taken for cache lines, as in mem_trace" if functional else "",
            *(_cache(name, reader) for name in reader.caches),
        )
        if note
    )


def _cache(name: str, reader: KernelReader) -> str:
    """What a cache file says; the GPU description has its own caches."""
    cache = reader.caches[name]
    size = cache.lines * cache.line_bytes
    return (
        f"{name}: {size:,} B in {cache.lines:,} lines of {cache.line_bytes} B, {cache.ways} ways, {cache.policy}; it is not used, "
        "the caches are the GPU description's (--set)"
    )
