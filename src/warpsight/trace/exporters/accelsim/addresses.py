"""Addresses of lanes that make a given event: the reverse of what an importer does.

A trace keeps the sectors of an access, its passes through the banks and how many lanes share an address, not every lane's
address. Here lanes get addresses from which the same event comes out. Lanes are those of the basic block, from lane 0 on, unless
the event needs others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

WARP = 32
ROW_BYTES = 128

Lanes = dict[int, int]
"""Address by lane."""


def sector_lanes(sectors: Sequence[int], size: int, lanes: int, sharing: int, address_of: Callable[[int], int]) -> Lanes:
    """Lanes that touch `sectors` in order, `size` bytes each, and of which at most (and once exactly) `sharing` have one address.

    `sharing` 0: it does not matter. At most 32 sectors.
    """
    found: Lanes = {}
    if not sectors:
        return found
    slots = max(1, 32 // max(1, size))
    if not sharing:
        count = max(lanes, len(sectors))
        seen: dict[int, int] = {}
        for lane in range(count):
            k = lane * len(sectors) // count
            seen[k] = seen.get(k, -1) + 1
            found[lane] = address_of(sectors[k]) + seen[k] % slots * size % 32
        return found
    spare = max(0, lanes - (sharing + len(sectors) - 1))
    for k, sector in enumerate(sectors):
        least = sharing if k == 0 else 1
        added = min(spare, slots * sharing - least)
        spare -= added
        for j in range(least + added):
            found[len(found)] = address_of(sector) + j // sharing * size
    return {lane: address for lane, address in found.items() if lane < WARP}


def local_lanes(sectors: Sequence[int], size: int, lanes: int, offset_of: Callable[[int], int]) -> Lanes:
    """Lanes whose words of local memory lie in `sectors`: eight lanes to a sector, each word of the access in a row of its own.

    `offset_of(sector)` is the byte offset in a thread's local memory of the row that the sector is in.
    """
    words = max(1, size // 4)
    first = sectors[: max(1, len(sectors) // words)] if sectors else []
    by_quarter: dict[int, list[int]] = {}
    for sector in first:
        by_quarter.setdefault(sector & 3, []).append(sector)
    spare = max(0, lanes - len(first))
    found: Lanes = {}
    for quarter, rows in sorted(by_quarter.items()):
        count = min(8, len(rows) + spare)
        spare -= max(0, count - len(rows))
        for j in range(count):
            found[8 * quarter + j] = offset_of(rows[min(j, len(rows) - 1)])
    for sector in sectors[len(first) :]:  # in the order of their first use
        offset_of(sector)
    return found


def bank_lanes(passes: int, size: int, lanes: int, sharing: int, rows: int = 0, first: int = 0) -> Lanes:
    """Lanes, from lane `first` on, whose accesses of `size` bytes to shared memory take `passes` passes.

    Of them at most `sharing` have one address (0: it does not matter). Of a matrix access (`rows` not 0) the first `rows` lanes
    have the addresses of rows of 16
    bytes.
    """
    if not passes:
        return {}
    share = 8 if rows else WARP // max(1, min(size, 32) // 4)
    width = 16 if rows else max(1, size)
    count = min(max(lanes, passes, sharing, 1), (first // share + passes) * share - first)
    for parts in range(1, passes + 1):
        chosen = _chosen(first, count, share, parts)
        state = _Banks(passes - len({lane // share for lane in chosen if lane < (rows or WARP)}), width, sharing)
        for lane in chosen:
            if lane >= (rows or WARP):
                state.found[lane] = 0
            elif not state.place(lane, lane // share):
                break
        if not state.extra:
            break
    return state.found


def _chosen(first: int, count: int, share: int, parts: int) -> list[int]:
    """`count` lanes from `first` on, in at least so many parts of `share` lanes: beside each other, but for the first of a part."""
    begin = first // share
    starts = [max(first, part * share) for part in range(begin, min(begin + parts, WARP // share))]
    others = [lane for lane in range(first, WARP) if lane not in starts]
    return sorted([*starts, *others[: max(0, count - len(starts))]])


class _Banks:
    """Gives lanes addresses one after the other: first those that are shared, then those that conflict, then those that cost
    nothing. `extra` conflicts are still to be placed.
    """

    def __init__(self, extra: int, width: int, sharing: int) -> None:
        self.found: Lanes = {}
        self.extra, self._width, self._sharing = extra, width, sharing
        self._rows: dict[int, int] = {}  # by part: the row in which its lanes lie beside each other, without conflicts
        self._shared = self._conflicts = self._fillers = 0

    def place(self, lane: int, part: int) -> bool:
        """Place a lane of a part (half or quarter of the warp); False if there is no address left for it."""
        known = part in self._rows
        if not known:
            self._fillers = 0
        if self._shared < max(1, self._sharing):
            self._shared += 1
            self.found[lane] = 0
        elif not known and self._sharing:
            self._conflict(lane)
        elif self.extra > 0:
            if known:
                self.extra -= 1
                self._conflict(lane)
            else:
                self.found[lane] = 0
        elif self._sharing:
            place = (1 + self._fillers // self._sharing) * self._width
            if place >= ROW_BYTES:
                return False
            self._fillers += 1
            self.found[lane] = self._rows[part] + place
        else:
            self.found[lane] = 0
        self._rows.setdefault(part, self.found[lane])
        return True

    def _conflict(self, lane: int) -> None:
        self._conflicts += 1
        self.found[lane] = self._conflicts * ROW_BYTES
