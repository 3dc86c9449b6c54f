"""What a reader of results must know about a trace of PPT-GPU's or AMALI's tracer: above all what it does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsight.trace.importers.pptgpu.sass import SassFile

if TYPE_CHECKING:
    from warpsight.trace.importers.pptgpu.importer import KernelReader


def origin(sass: SassFile) -> str:
    """The first note."""
    tool = "AMALI's" if sass.amali else "PPT-GPU's"
    return (
        f"SASS of a GPU that {tool} tracer does not name: addresses and the order of instructions carry over to other GPUs, "
        "opcodes do not"
    )


def notes_of(reader: KernelReader) -> tuple[str, ...]:
    """The notes that only this format needs, once all is read."""
    return tuple(note for note in (*_missing(reader), *_assigned(reader), *_odd(reader)) if note)


def _missing(reader: KernelReader) -> tuple[str, ...]:
    shape = "the shape of blocks" if reader.sass.amali else "the shapes of grid and blocks"
    cluster = reader.config.cluster
    return (
        f"this tracer writes no program counters: the {reader.instructions:,} instructions are the distinct straight runs between "
        "branches, of which one that ends like a longer one is taken for that place",
        "this tracer writes no masks: every lane of a warp counts as active, and an access has as many lanes as addresses that are "
        "not zero, among which are those of lanes that were off",
        f"this tracer does not write {shape}: their totals are along x",
        "warps are numbered in the order of the SM's slots that they sat in",
        "" if reader.sass.amali else "uniform registers are written like others, so that some dependences are not the program's",
        f"a cluster has {cluster} blocks; clusters have no part in this" if cluster > 1 else "",
    )


def _assigned(reader: KernelReader) -> tuple[str, ...]:
    if reader.by_opcode is None:
        return ()
    return (
        "the instructions are those of one block, taken for all; accesses of the others are given to instructions by opcode, in "
        "the order of the tracer, so that warps of a block may have each other's addresses",
    )


def _odd(reader: KernelReader) -> tuple[str, ...]:
    given, dropped = reader.by_opcode, reader.dropped.addresses
    notes = []
    if given is not None and given.odd:
        notes.append(
            f"warning: {given.odd:,} blocks have not as many accesses as the block whose instructions are taken for all (the "
            f"first: {given.first}): {given.lacking:,} instructions have no addresses, {given.surplus:,} accesses have no "
            "instruction and are left out"
        )
    if dropped:
        notes.append(f"{dropped:,} addresses beyond any memory, of lanes that were off, are left out")
    return tuple(notes)
