"""The formats of other tools' traces: the one list. A new one is entered here and nowhere else.

Recognising a path looks at names alone, so that it costs nothing where the input is a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsight.isa.sass.opcodes import SassTable
from warpsight.traces.importers.accelsim.files import may_be_accelsim
from warpsight.traces.importers.launch import Launch, LaunchFacts
from warpsight.traces.importers.mdm.files import may_be_mdm
from warpsight.traces.importers.pptgpu.files import may_be_pptgpu


@dataclass(frozen=True)
class TraceFormat:
    """A format: its tool, whether a path may be one by its names, its launches, and which `LaunchFacts` it takes."""

    tool: str
    may_be: Callable[[str | Path], bool]
    launches: Callable[[Path, SassTable, LaunchFacts], Sequence[Launch]]
    takes: tuple[str, ...] = ()


def _accelsim(path: Path, isa: SassTable, facts: LaunchFacts) -> Sequence[Launch]:
    from warpsight.traces.importers.accelsim.importer import import_accelsim

    return import_accelsim(path, isa)


def _pptgpu(path: Path, isa: SassTable, facts: LaunchFacts) -> Sequence[Launch]:
    from warpsight.traces.importers.pptgpu.importer import import_pptgpu

    return import_pptgpu(path, isa)


def _mdm(path: Path, isa: SassTable, facts: LaunchFacts) -> Sequence[Launch]:
    from warpsight.traces.importers.mdm.importer import import_mdm

    return import_mdm(path, isa, facts)


FORMATS = (
    TraceFormat("Accel-Sim", may_be_accelsim, _accelsim),
    TraceFormat("PPT-GPU", may_be_pptgpu, _pptgpu),
    TraceFormat("MDM", may_be_mdm, _mdm, ("grid", "block", "shared", "registers")),
)


def format_of(path: str | Path) -> TraceFormat | None:
    """The format that a path has by its names, or None."""
    return next((format for format in FORMATS if format.may_be(path)), None)


def launches_in(path: str | Path, isa: SassTable, facts: LaunchFacts | None = None) -> Sequence[Launch]:
    """The launches in the trace at `path`, which `format_of` has recognised, in order; no trace is read yet.

    Raises UsageError, FormatError.
    """
    found = format_of(path)
    assert found is not None, "the caller has asked format_of"
    return found.launches(Path(path), isa, facts or LaunchFacts())
