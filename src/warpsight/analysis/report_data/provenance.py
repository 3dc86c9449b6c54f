"""The provenance of a report: the GPU key by key, hashes, versions, and the command that reproduces it."""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.assumptions import is_estimated
from warpsight.base.room import drop_pages
from warpsight.gpu.describe import describe, spec_hash
from warpsight.gpu.spec import GpuSpec
from warpsight.pipeline.evaluate import ProfiledTrace
from warpsight.pipeline.provenance import TOOL

# Packages that influence results: the kernel compiler, and the compilers of the emulator and the simulators.
_PACKAGES = ("numpy", "numba", "llvmlite", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime")
_HASHED_AT_ONCE = 1 << 21  # runs of paths


def provenance(profiled: ProfiledTrace, gpu: GpuSpec, command: Sequence[str] = ()) -> dict[str, Any]:
    """The document: `gpu` (rows of key, value, source, estimated, meaning), `hashes` and `versions` by name, `command`.

    The prediction's own provenance (launch, method, notes) is not repeated. `command` are the words of the command line,
    if there was one.
    """
    header = profiled.trace.header
    return {
        "gpu": [
            {"key": row.key, "value": row.value, "source": row.source, "estimated": is_estimated(row.source),
             "meaning": row.meaning}
            for row in describe(gpu)
        ],
        "hashes": {
            "kernel": header.kernel_hash, "inputs": header.input_hash, "trace": trace_hash(profiled), "GPU": spec_hash(gpu),
        },
        "versions": {
            "report made by": TOOL,
            "trace made by": f"warpsight {header.tool_version}, schema {header.schema}",
            "Python": platform.python_version(),
            **{name: release for name in _PACKAGES if (release := _version(name))},
        },
        "command": shlex.join(command) if command else None,
    }


def trace_hash(profiled: ProfiledTrace) -> str:
    """SHA-256 (64 hexadecimal digits) of a trace's content: instructions, paths and events of all warps, however it is stored."""
    trace = profiled.trace
    whole = hashlib.sha256()
    for each in trace.instructions:
        whole.update(repr((each.pc, each.opcode, each.op_class, each.destinations, each.sources, each.space, each.access,
                           each.access_bytes)).encode())  # fmt: skip
    paths = trace.paths
    tables: tuple[tuple[str, npt.NDArray[Any]], ...] = (
        ("<i4", trace.block_start), ("<i8", paths.offset), ("<i4", paths.block), ("u1", paths.lanes), ("<i4", paths.repeat),
    )  # fmt: skip
    for kind, table in tables:
        for first in range(0, len(table), _HASHED_AT_ONCE):
            whole.update(table[first : first + _HASHED_AT_ONCE].astype(kind).tobytes())
            drop_pages(table)
    # the chunk size depends on the producer's memory: each stream continues over all chunks
    streams = [hashlib.sha256() for _ in range(5)]
    for chunk in trace.chunks:
        parts: tuple[tuple[str, npt.NDArray[Any]], ...] = (
            ("<i4", chunk.path), ("<i8", np.diff(chunk.event_offset)), ("u1", chunk.events), ("<i8", np.diff(chunk.sector_offset)),
            ("<u4", chunk.sectors),
        )  # fmt: skip
        for stream, (kind, array) in zip(streams, parts, strict=True):
            stream.update(array.astype(kind, copy=False).tobytes())
    for stream in streams:
        whole.update(stream.digest())
    return whole.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
