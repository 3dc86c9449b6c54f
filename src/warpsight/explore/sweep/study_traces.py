"""Traces of other tools as members of a study: one for each launch, which is converted once into the study's kept traces."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from warpsight.base.diskcache import content_key
from warpsight.explore.request import KernelRequest
from warpsight.explore.runs.fingerprint import TRACE, fingerprint
from warpsight.explore.sweep.study import StudyKernel

_PIECE = 1 << 22


def members_of(kernel: StudyKernel) -> list[StudyKernel]:
    """The kernel itself, or of another tool's trace a member for each launch that it chooses, named `NAME.2` by its number.

    Each is the file of one launch from then on. Raises UsageError and FormatError for a folder that cannot be read.
    """
    if not kernel.request.is_foreign:
        kernel.request.refuse_import_options()
        return [kernel]
    from warpsight.explore.imported import launches_of

    found = launches_of(kernel.request)
    return [
        StudyKernel(
            f"{kernel.name}.{launch.number}" if len(found) > 1 else kernel.name,
            replace(kernel.request, path=str(launch.path), kernels=None, launches=None),
        )
        for launch in found
    ]


def foreign_key(request: KernelRequest) -> str:
    """The key of the trace that the launch's files become: their bytes, what the user says of it, and the reading code.

    Raises OSError for a file that cannot be read, UsageError and FormatError where there is no such launch.
    """
    from warpsight.explore.imported import launches_of

    digest = hashlib.sha256()
    (launch,) = launches_of(request)
    for path in launch.files():
        digest.update(path.name.encode("utf-8", "surrogateescape") + b"\0")
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    opcodes = Path(request.isa_file).read_text("utf-8", "replace") if request.isa_file is not None else ""
    told = repr((request.grid, request.block, request.shared, request.registers))
    return content_key(TRACE, "imported", digest.hexdigest(), told, opcodes, fingerprint(TRACE))
