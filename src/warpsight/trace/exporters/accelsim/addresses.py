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


def local_lanes(sectors: Sequence[int], size: int, lanes: int, offset_of: Callable[[int], int], sharing: int = 0) -> Lanes:
    """Lanes whose words of local memory lie in `sectors`: eight lanes to a sector, each word of the access in a row of its own.

    `offset_of(sector)` is the byte offset in a thread's local memory of the row that the sector is in. With `sharing` not 0 so many
    lanes, and no more, have one offset if the sectors allow it.
    """
    words = max(1, size // 4)
    first = sectors[: max(1, len(sectors) // words)] if sectors else []
    by_quarter: dict[int, list[int]] = {}
    for sector in first:
        by_quarter.setdefault(sector & 3, []).append(sector)
    spare = 0 if sharing else max(0, lanes - len(first))
    found: Lanes = {}
    for quarter, rows in sorted(by_quarter.items()):
        count = min(8, len(rows) + spare)
        spare -= max(0, count - len(rows))
        for j in range(count):
            found[8 * quarter + j] = offset_of(rows[min(j, len(rows) - 1)])
    if sharing:
        _share(found, by_quarter, offset_of, sharing)
        _fill(found, by_quarter, offset_of, sharing, lanes)
    for sector in sectors[len(first) :]:  # in the order of their first use
        offset_of(sector)
    return found


def _share(found: Lanes, by_quarter: dict[int, list[int]], offset_of: Callable[[int], int], sharing: int) -> None:
    """Give `sharing` lanes the offset of one row, in those quarters of the warp that touch it and have lanes left."""
    used = list(found.values())
    for row in sorted(dict.fromkeys(used), key=used.count, reverse=True):  # the row that needs the fewest lanes more
        quarters = [quarter for quarter, rows in by_quarter.items() if any(offset_of(sector) == row for sector in rows)]
        free = [8 * quarter + j for quarter in quarters for j in range(8) if 8 * quarter + j not in found]
        missing = sharing - used.count(row)
        if missing <= len(free):
            found.update(dict.fromkeys(free[: max(0, missing)], row))
            return


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
    end = min(WARP, first + max(lanes, passes, sharing, 1), (first // share + passes) * share)
    chosen = list(range(first, min(end, rows or WARP)))
    # lanes that share an address cost a pass in each part that they are in: where too few others are left, more parts
    begin = (chosen[-1] // share + 1) * share
    while begin < WARP and sharing + passes - _parts(chosen, share) > len(chosen) and _parts(chosen, share) < passes:
        if len(chosen) > _parts(chosen, share):  # one that is not alone in its part moves
            chosen.remove(next(lane for lane in reversed(chosen) if lane % share))
        chosen.append(begin)
        begin += share
    state = _Banks(passes - _parts(chosen, share), width, sharing)
    for lane in chosen:
        if not state.place(lane, lane // share):
            break
    for lane in range(rows or WARP, end):
        state.found[lane] = 0
    return state.found


def _fill(
    found: Lanes, by_quarter: dict[int, list[int]], offset_of: Callable[[int], int], sharing: int, lanes: int
) -> None:
    """Let so many `lanes` take part as can without more than `sharing` at one offset."""
    used = list(found.values())
    for quarter, rows in by_quarter.items():
        for lane in (8 * quarter + j for j in range(8) if 8 * quarter + j not in found):
            row = next((row for row in map(offset_of, rows) if used.count(row) < sharing), None)
            if row is None or len(used) >= lanes:
                break
            found[lane] = row
            used.append(row)


def _parts(lanes: Sequence[int], share: int) -> int:
    """Parts of the warp (halves, quarters) that the lanes are in."""
    return len({lane // share for lane in lanes})


class _Banks:
    """Gives lanes addresses one after the other: first those that are shared, then those that conflict, then those that cost
    nothing.
    """

    def __init__(self, extra: int, width: int, sharing: int) -> None:
        self.found: Lanes = {}
        self._extra, self._width, self._sharing = extra, width, sharing
        self._parts: set[int] = set()
        self._shared = self._conflicts = self._fillers = self._row = 0

    def place(self, lane: int, part: int) -> bool:
        """Place a lane of a part (half or quarter of the warp); False if there is no address left for it.

        Lanes that cost nothing lie in the row of banks that the part's first lane is in.
        """
        if part not in self._parts:
            self._fillers = 0
        if self._shared < max(1, self._sharing):
            self._shared += 1
            self.found[lane] = 0
        elif part not in self._parts and self._sharing:
            self._conflict(lane)
            self._row = self.found[lane]
        elif self._extra > 0:
            if part in self._parts:
                self._extra -= 1
                self._conflict(lane)
            else:
                self.found[lane] = 0
        elif self._sharing:
            address = (1 + self._fillers // self._sharing) * self._width
            if address >= ROW_BYTES:
                return False
            self._fillers += 1
            self.found[lane] = self._row + address
        else:
            self.found[lane] = 0
        self._parts.add(part)
        return True

    def _conflict(self, lane: int) -> None:
        self._conflicts += 1
        self.found[lane] = self._conflicts * ROW_BYTES
