"""The formats of other tools' traces: the only list of them. To add a format, add its folder and one entry here.

Recognising a path looks at names only, so it costs nothing if the input is a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy

from warpsight.traces.importers.accelsim.files import may_be_accelsim
from warpsight.traces.importers.launch import LaunchFacts
from warpsight.traces.importers.mdm.files import may_be_mdm
from warpsight.traces.importers.pptgpu.files import may_be_pptgpu

if TYPE_CHECKING:
    from warpsight.isa.sass.opcodes import SassTable
    from warpsight.traces.importers.launch import Launch

# Recognising a path needs none of the importers.
accelsim: Any = lazy.load("warpsight.traces.importers.accelsim.importer", suppress_warning=True)
mdm: Any = lazy.load("warpsight.traces.importers.mdm.importer", suppress_warning=True)
pptgpu: Any = lazy.load("warpsight.traces.importers.pptgpu.importer", suppress_warning=True)


@dataclass(frozen=True)
class TraceFormat:
    """A format: its tool, whether names of files at a path fit it, its launches, and the `LaunchFacts` that it does not contain."""

    tool: str
    may_be: Callable[[str | Path], bool]
    launches: Callable[[Path, SassTable, LaunchFacts], Sequence[Launch]]
    takes: tuple[str, ...] = ()


def _import_mdm(path: Path, isa: SassTable, facts: LaunchFacts) -> Sequence[Launch]:
    launches: Sequence[Launch] = mdm.import_mdm(path, isa, facts)
    return launches


FORMATS = (
    TraceFormat("Accel-Sim", may_be_accelsim, lambda path, isa, _: accelsim.import_accelsim(path, isa)),
    TraceFormat("PPT-GPU", may_be_pptgpu, lambda path, isa, _: pptgpu.import_pptgpu(path, isa)),
    TraceFormat("MDM", may_be_mdm, _import_mdm, ("grid", "block", "shared", "registers")),
)


def format_of(path: str | Path) -> TraceFormat | None:
    """The format that the names at a path fit, or None."""
    return next((format for format in FORMATS if format.may_be(path)), None)


def launches_in(path: str | Path, isa: SassTable, facts: LaunchFacts | None = None) -> Sequence[Launch]:
    """The launches in the trace at `path`, whose format is known, in order, unread. Raises UsageError, FormatError."""
    recognised = format_of(path)
    assert recognised is not None, "the caller has asked format_of"
    return recognised.launches(Path(path), isa, facts or LaunchFacts())
