"""What synccheck has found, in words: the rows of `watcher.py` that are about barriers and about lanes that wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from warpsight.base.findings import SYNCCHECK, Finding, Site
from warpsight.emulator.codegen import watcher
from warpsight.emulator.codegen.layout import WARP, Fault
from warpsight.emulator.run.faults import FaultScene, first_lane, lanes_text, site_of, thread_text

Row = list[int]


def _threads(site: Site) -> str:
    assert site.block is not None
    assert site.thread is not None
    return thread_text(site.block, site.thread)


def _other(row: Row, scene: FaultScene) -> Site:
    """The instruction at which others were, and the first of them."""
    first = first_lane(row[watcher.OTHER_LANES])
    return site_of(scene, row[watcher.OTHER_PC], row[watcher.BLOCK], row[watcher.OTHER_WARP], first)


def _same_line(row: Row, scene: FaultScene) -> bool:
    """Do both instructions stand at one place, as copies that a compiler has made of one barrier do?"""
    one, other = (scene.function.instructions[row[k]] for k in (watcher.PC, watcher.OTHER_PC))
    if one.file:
        return (one.file, one.line, one.calls) == (other.file, other.line, other.calls)
    return one.native is not None and one.ptx_line == other.ptx_line


_DIVERGENT = "let all threads of the block that have not ended reach the same barrier: take it out of code that only some run"
_MEMBERS = "name the same mask in all lanes that take part, with the bit of each: compute it before the branch, by __ballot_sync"


def _lanes_at_barrier(row: Row, scene: FaultScene, site: Site) -> Finding:
    other = _other(row, scene)
    lanes = lanes_text(row[watcher.OTHER_LANES])
    what = f"lanes of one warp wait at different barriers: {_threads(site)} here, {lanes} at {other.place}"
    return _finding("divergent-barrier", what, site, row, other=other, remedy=_DIVERGENT)


def _missed(row: Row, scene: FaultScene, site: Site) -> Finding:
    lanes = lanes_text(row[watcher.OTHER_LANES])
    what = f"barrier in divergent code: {_threads(site)} waits, {lanes} of its warp pass by and end without a barrier"
    return _finding("divergent-barrier", what, site, row, remedy=_DIVERGENT)


def _warps_missed(row: Row, scene: FaultScene, site: Site) -> Finding:
    what = f"barrier in divergent code: {_threads(site)} waits, warp {row[watcher.ADDRESS]} passes by and ends without a barrier"
    return _finding("divergent-barrier", what, site, row, remedy=_DIVERGENT)


def _warps_at_barrier(row: Row, scene: FaultScene, site: Site) -> Finding:
    other = _other(row, scene)
    what = f"warps of one block meet at different barriers: {_threads(site)} here, warp {row[watcher.OTHER_WARP]} at {other.place}"
    return _finding("divergent-barrier", what, site, row, other=other, remedy=_DIVERGENT)


def _counts(row: Row, scene: FaultScene, site: Site) -> Finding:
    count, warp = row[watcher.ADDRESS] or "all", row[watcher.OTHER_WARP]
    what = f"barrier for another number of threads ({count}) than warp {warp}, which waits there, has given: {_threads(site)}"
    return _finding("barrier-counts", what, site, row, other=_other(row, scene), remedy="give one number to all warps of a barrier")


def _not_in_mask(row: Row, scene: FaultScene, site: Site) -> Finding:
    what = f"{_threads(site)}, lane {site.lane}, is not in its own member mask 0x{row[watcher.ADDRESS]:08x}"
    return _finding("lane-not-in-mask", what, site, row, remedy=_MEMBERS)


def _masks_differ(row: Row, scene: FaultScene, site: Site) -> Finding:
    what = f"lanes that meet name different member masks: {_threads(site)} names 0x{row[watcher.ADDRESS]:08x}"
    return _finding("masks-differ", what, site, row, remedy=_MEMBERS)


def _missing(row: Row, scene: FaultScene, site: Site) -> Finding:
    lanes = lanes_text(row[watcher.OTHER_LANES])
    what = f"lanes exchange values in different places: {_threads(site)} here, {lanes} of its mask elsewhere"
    return _finding("missing-lanes", what, site, row, remedy="let all lanes of the mask execute the same line")


def _inactive(row: Row, scene: FaultScene, site: Site) -> Finding:
    source = row[watcher.ADDRESS] & (WARP - 1)
    what = f"shuffle reads a lane that does not take part: {_threads(site)} reads lane {source}, whose value is undefined"
    remedy = "let the lane take part, or shuffle within the lanes that do (the width of the shuffle)"
    return _finding("shuffle-of-inactive-lane", what, site, row, severity="warning", remedy=remedy)


def _mbarrier(kind: str, form: str, remedy: str, severity: str = "error") -> Callable[[Row, FaultScene, Site], Finding]:
    def describe(row: Row, scene: FaultScene, site: Site) -> Finding:
        what = f"{form.format(_threads(site))}, at offset {row[watcher.ADDRESS]:,} of shared memory"
        found = _finding(kind, what, site, row, remedy=remedy, severity=severity)
        return replace(found, space="shared", bytes=8, address=row[watcher.ADDRESS])

    return describe


_KINDS: dict[int, Callable[[Row, FaultScene, Site], Finding]] = {
    watcher.LANES_AT_BARRIER: _lanes_at_barrier,
    watcher.LANES_MISSED_BARRIER: _missed,
    watcher.WARPS_AT_BARRIER: _warps_at_barrier,
    watcher.WARPS_MISSED_BARRIER: _warps_missed,
    watcher.BARRIER_COUNTS: _counts,
    watcher.LANE_NOT_IN_MASK: _not_in_mask,
    watcher.MASKS_DIFFER: _masks_differ,
    watcher.MISSING_LANES: _missing,
    watcher.INACTIVE_SOURCE: _inactive,
    watcher.MBARRIER_LIVE: _mbarrier(
        "mbarrier-live", "{} initialises an mbarrier that is in use", "invalidate it first (mbarrier.inval, or the destructor)",
        "warning",
    ),
    Fault.MBARRIER_STATE: _mbarrier(
        "mbarrier-uninitialised", "{} uses an mbarrier that was not initialised, or is invalidated",
        "initialise it first, and let all threads see that (__syncthreads) before its use",
    ),
    Fault.MBARRIER_COUNT: _mbarrier(
        "mbarrier-count", "{} counts what an mbarrier cannot: 0, over 1,048,575, or more arrivals than it expects",
        "arrive as often as mbarrier.init says",
    ),
}  # fmt: skip
_SAME_PLACE = frozenset({watcher.LANES_AT_BARRIER, watcher.WARPS_AT_BARRIER})  # no findings where copies of one barrier meet


def is_about_meeting(row: Row) -> bool:
    """Is the row one of those that are described here?"""
    return row[watcher.KIND] in _KINDS


def sync_findings(rows: list[Row], scene: FaultScene) -> list[Finding]:
    """The findings of such rows."""
    found = []
    for row in rows:
        if row[watcher.KIND] in _SAME_PLACE and _same_line(row, scene):
            continue
        site = site_of(scene, row[watcher.PC], row[watcher.BLOCK], row[watcher.WARP], row[watcher.LANE])
        finding = _KINDS[row[watcher.KIND]](row, scene, site)
        found.append(replace(finding, message=f"kernel {scene.name}: {finding.message}", kernel=scene.name))
    return found


def _finding(
    kind: str, message: str, site: Site, row: Row, *, remedy: str, other: Site | None = None, severity: str = "error"
) -> Finding:
    return Finding(SYNCCHECK, kind, message, "", site, other, severity, count=row[watcher.LANES], remedy=remedy)
