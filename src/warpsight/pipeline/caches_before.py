"""The L2 at the start of a launch: cold, warm, after the launch of a file, or as the launches and copies of a program leave it.

Lines are found by their address. Launches of one program share its addresses. In a launch file and in a trace of its own, device
memory begins at the same address each time, and the arguments lie there one after the other.
"""

from __future__ import annotations

from dataclasses import astuple
from functools import lru_cache
from os.path import exists
from typing import Any

import lazy_loader as lazy
import numpy as np
import numpy.typing as npt

from warpsight.base.diskcache import content_key
from warpsight.base.errors import UsageError
from warpsight.base.progress import Watch
from warpsight.caches.exact.between import L2Lines, empty_l2, l2_key, touch
from warpsight.caches.exact.simulate import CacheSimulation
from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.machine_code import OLDEST_GPU
from warpsight.kernels.toolkit import parse_architecture
from warpsight.pipeline.request import AUTO, CACHES_BEFORE, CARRIED, COLD, WARM, KernelRequest
from warpsight.traces.path_store import pieces
from warpsight.traces.schema import KernelTrace, StaticInstruction

tracing: Any = lazy.load("warpsight.pipeline.tracing", suppress_warning=True)  # for the launch of a file alone


def resolved(caches_before: str, gpu: GpuSpec) -> str:
    """`caches_before` of a `Method` for `gpu`: `auto` is `warm` on a GPU with a compute capability of 7.0 or later, else `cold`.

    The rule is that of level `auto`: GPUs that people own find what the launch before has left, the papers' machines are as in the
    papers. Raises UsageError for what is neither a state nor a file.
    """
    if caches_before == AUTO:
        capability = gpu.compute_capability
        return WARM if capability != "none" and parse_architecture(capability).number >= OLDEST_GPU else COLD
    if caches_before not in (*CACHES_BEFORE, CARRIED) and not exists(caches_before):
        what = f'"{caches_before}" is neither a state of the caches nor a file'
        remedy = f"use one of {', '.join(CACHES_BEFORE)}, or the trace folder or launch file of the launch before"
        raise UsageError(what, place="caches_before", remedy=remedy)
    return caches_before


def at_start(caches_before: str, gpu: GpuSpec, trace: KernelTrace) -> str:
    """The state in which the launch begins: the resolved one, but `cold` in place of `warm` for a random sample of the blocks.

    The recorded blocks would find all that they left, and what the others evict is not known. Of sampled waves it is estimated.
    """
    state = resolved(caches_before, gpu)
    return COLD if state == WARM and trace.header.sampled_blocks and trace.waves is None else state


def check_carried(state: str, carried: object | None) -> None:
    """Raise UsageError if the state is that of a program and there is none, or the other way round."""
    if (state == CARRIED) != (carried is not None):
        what = f'"{CARRIED}" is the state of the launches of one program, and of no other'
        raise UsageError(what, place="caches_before", remedy="use `warpsight run`, or the file of the launch before")


def notes_on(caches_before: str, gpu: GpuSpec, trace: KernelTrace) -> list[str]:
    """What a reader has to know about the state."""
    if resolved(caches_before, gpu) == at_start(caches_before, gpu, trace):
        return []
    return ["the L2 begins cold: what a whole launch leaves in it is not known from a sample of its blocks"]


# -- The launch of a file.

def launch_before(caches_before: str, gpu: GpuSpec, watch: Watch | None = None) -> KernelTrace | None:
    """The trace of the launch before: a trace folder, or a launch file that is executed now; None where the state is no file.

    Raises UsageError for a sample of its blocks, and what reading or executing it raises.
    """
    path = resolved(caches_before, gpu)
    if path in (*CACHES_BEFORE, CARRIED):
        return None
    trace: KernelTrace = tracing.obtain_trace(KernelRequest(path), gpu=gpu, watch=watch)
    if trace.header.sampled_blocks:
        what = "the trace has a sample of the blocks, and what the others leave in the L2 is not known"
        raise UsageError(what, place=path, remedy="give a trace of the whole launch")
    return trace


@lru_cache(maxsize=64)
def _code_key(instructions: tuple[StaticInstruction, ...]) -> str:
    return content_key(*(repr(astuple(each)) for each in instructions))


def trace_key(trace: KernelTrace) -> str:
    """A hash of everything in a trace that decides a prediction."""
    if trace.waves is not None:
        return content_key(trace_key(trace.waves.executed), trace.waves.label.tobytes())
    header = trace.header
    facts = (header.kernel, header.grid, header.block, header.static_shared_bytes, header.dynamic_shared_bytes,
             header.registers_per_thread, header.level, header.sampled_blocks, header.cluster)  # fmt: skip
    parts: list[str | bytes] = [repr(facts), _code_key(trace.instructions), trace.block_start.tobytes()]
    parts += [_arrays_key(paths.offset, paths.block, paths.lanes, paths.repeat) for _, paths in pieces(trace.paths)]
    for chunk in trace.chunks:
        parts.append(_arrays_key(chunk.path, chunk.event_offset, chunk.events, chunk.sector_offset, chunk.sectors))
    return content_key(*parts)


def _arrays_key(*arrays: npt.NDArray[Any]) -> str:
    return content_key(*(np.ascontiguousarray(each).tobytes() for each in arrays))


# -- Misses of a launch that begins in a state.

_MOST_WAITING = 4096  # messages of copies: a bound for the memory that they take


class CarriedL2:
    """The L2 of `gpu` from one launch of a program to the next, empty at first.

    Copies and fills pass through it together, in order, when it is next read: programs copy a few bytes between many launches, of
    which few are predicted, and each pass takes as long as the L2 is large.
    """

    def __init__(self, gpu: GpuSpec) -> None:
        self._gpu, self._lines, self._key = gpu, empty_l2(gpu), ""
        self._waiting: list[npt.NDArray[np.int64]] = []

    @property
    def lines(self) -> L2Lines:
        """What it holds."""
        if self._waiting:
            self.becomes(touch(self._lines, self._gpu, np.concatenate(self._waiting)))
        return self._lines

    @property
    def key(self) -> str:
        """A hash of what it holds."""
        lines = self.lines
        self._key = self._key or l2_key(lines)
        return self._key

    def becomes(self, lines: L2Lines, key: str = "") -> None:
        """From now on it holds `lines`, whose hash is `key` if that is known."""
        self._lines, self._key = lines, key
        self._waiting.clear()

    def touch(self, rows: npt.NDArray[np.int64]) -> None:
        """Copies and fills of the program have touched memory, as `caches.exact.between.touch` takes it."""
        if len(rows):
            self._waiting.append(rows)
        if len(self._waiting) == _MOST_WAITING:
            _ = self.lines

    def misses(self, simulation: CacheSimulation) -> MissProfile:
        """The misses of the next launch."""
        profile, left = simulation.run(self.lines)
        self.becomes(left)
        return profile
