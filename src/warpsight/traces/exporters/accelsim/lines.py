"""The lines of one warp: instructions from its path, addresses of lanes that make its events; the reverse of an importer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from warpsight.isa.sass.opcodes import TMA, matrix_rows
from warpsight.traces.importers.layout import (
    FIRST_REGION,
    LOCAL_PAGE_ROWS,
    LOCAL_PAGE_SECTORS,
    LOCAL_TRACE_SECTOR,
    REGION_SHIFT,
)
from warpsight.traces.schema import StaticInstruction

WARP = 32
ROW_BYTES = 128

Lanes = dict[int, int]
"""Address by lane."""


def sector_lanes(sectors: Sequence[int], size: int, lanes: int, sharing: int, address_of: Callable[[int], int]) -> Lanes:
    """Lanes that touch `sectors` in order, `size` bytes each, and of which at most (and once exactly) `sharing` have one address.

    `sharing` 0: it does not matter. At most 32 sectors.
    """
    addresses: Lanes = {}
    if not sectors:
        return addresses
    slots = max(1, 32 // max(1, size))
    if not sharing:
        count = max(lanes, len(sectors))
        seen: Counter[int] = Counter()
        for lane in range(count):
            k = lane * len(sectors) // count
            addresses[lane] = address_of(sectors[k]) + seen[k] % slots * size % 32
            seen[k] += 1
        return addresses
    spare = max(0, lanes - (sharing + len(sectors) - 1))
    for k, sector in enumerate(sectors):
        least = sharing if k == 0 else 1
        added = min(spare, slots * sharing - least)
        spare -= added
        for j in range(least + added):
            addresses[len(addresses)] = address_of(sector) + j // sharing * size
    return {lane: address for lane, address in addresses.items() if lane < WARP}


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
    offsets: Lanes = {}
    for quarter, rows in sorted(by_quarter.items()):
        count = min(8, len(rows) + spare)
        spare -= max(0, count - len(rows))
        for j in range(count):
            offsets[8 * quarter + j] = offset_of(rows[min(j, len(rows) - 1)])
    if sharing:
        _share(offsets, by_quarter, offset_of, sharing)
        _fill(offsets, by_quarter, offset_of, sharing, lanes)
    for sector in sectors[len(first) :]:  # in the order of their first use
        offset_of(sector)
    return offsets


def _share(offsets: Lanes, by_quarter: dict[int, list[int]], offset_of: Callable[[int], int], sharing: int) -> None:
    """Give `sharing` lanes the offset of one row, in those quarters of the warp that touch it and have lanes left."""
    used = list(offsets.values())
    for row in sorted(dict.fromkeys(used), key=used.count, reverse=True):  # the row that needs the fewest lanes more
        quarters = [quarter for quarter, rows in by_quarter.items() if any(offset_of(sector) == row for sector in rows)]
        free = [8 * quarter + j for quarter in quarters for j in range(8) if 8 * quarter + j not in offsets]
        missing = sharing - used.count(row)
        if missing <= len(free):
            offsets.update(dict.fromkeys(free[: max(0, missing)], row))
            return


def _fill(offsets: Lanes, by_quarter: dict[int, list[int]], offset_of: Callable[[int], int], sharing: int, lanes: int) -> None:
    """Let so many `lanes` take part as can without more than `sharing` at one offset."""
    used = list(offsets.values())
    for quarter, rows in by_quarter.items():
        for lane in (8 * quarter + j for j in range(8) if 8 * quarter + j not in offsets):
            row = next((row for row in map(offset_of, rows) if used.count(row) < sharing), None)
            if row is None or len(used) >= lanes:
                break
            offsets[lane] = row
            used.append(row)


def bank_lanes(passes: int, size: int, lanes: int, sharing: int, rows: int = 0, first: int = 0, *, loads: bool = False) -> Lanes:
    """Lanes, from lane `first` on, whose accesses of `size` bytes to shared memory take `passes` passes.

    Of them at most `sharing` have one address (0: it does not matter). Of a matrix access (`rows` not 0) the first `rows` lanes
    have the addresses of rows of 16 bytes. Wide `loads` have pairs of lanes with one address where that is possible: fewer passes
    than there are parts of the warp need them.
    """
    if not passes:
        return {}
    if loads and not rows and size in (8, 16) and passes <= WARP // 2:
        return _pairs_of_lanes(passes, 2 * WARP // (size // 4), lanes, first)
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
    banks = _Banks(passes - _parts(chosen, share), width, sharing)
    for lane in chosen:
        if not banks.place(lane, lane // share):
            break
    return banks.addresses | dict.fromkeys(range(rows or WARP, end), 0)


def _pairs_of_lanes(passes: int, share: int, lanes: int, first: int) -> Lanes:
    """Lanes of which each odd one has the address of the one before it, so that `share` of them are a part."""
    end = min(WARP, first + max(lanes, 2 * passes), (first // share + passes) * share)
    chosen = list(range(first + first % 2, end, 2))
    banks = _Banks(passes - _parts(chosen, share), ROW_BYTES, 0)
    for lane in chosen:
        banks.place(lane, lane // share)
    odd = [lane + 1 for lane in chosen][: max(0, lanes - len(chosen))]
    return dict(sorted((banks.addresses | {lane: banks.addresses[lane - 1] for lane in odd}).items()))


def _parts(lanes: Sequence[int], share: int) -> int:
    """Parts of the warp (halves, quarters) that the lanes are in."""
    return len({lane // share for lane in lanes})


class _Banks:
    """Gives lanes addresses one after the other: first shared ones, then those that conflict, then those that cost nothing."""

    def __init__(self, extra: int, width: int, sharing: int) -> None:
        self.addresses: Lanes = {}
        self._extra, self._width, self._sharing = extra, width, sharing
        self._parts: set[int] = set()
        self._shared = self._conflicts = self._fillers = self._row = 0

    def place(self, lane: int, part: int) -> bool:
        """Place a lane of a part (half or quarter of the warp); False if there is no address left for it.

        Lanes that cost nothing lie in the row of banks that the part's first lane is in.
        """
        new = part not in self._parts
        if new:
            self._fillers = 0
        address = 0
        if self._shared < max(1, self._sharing):
            self._shared += 1
        elif (new and self._sharing) or (not new and self._extra > 0):
            self._conflicts += 1
            address = self._conflicts * ROW_BYTES
            if new:
                self._row = address
            else:
                self._extra -= 1
        elif self._sharing:
            filler = (1 + self._fillers // self._sharing) * self._width
            if filler >= ROW_BYTES:
                return False
            self._fillers += 1
            address = self._row + filler
        self.addresses[lane] = address
        self._parts.add(part)
        return True


# -- The lines of one warp: instructions from its path, addresses from its events.

_MOST_STRIDE = (1 << 31) - 1  # Accel-Sim reads a stride as an int of 32 bits, and deltas as 64
_REGION_SECTORS = 1 << (REGION_SHIFT - 5)


@dataclass(frozen=True)
class Place:
    """How addresses are written: where the windows of shared and local memory lie, and the regions that sector numbers stand for.

    Without regions a sector's number is its address.
    """

    shared_base: int
    local_base: int
    regions: tuple[int, ...]

    def address(self, sector: int) -> int:
        """The byte address of a sector of device memory."""
        region, rest = divmod(sector, _REGION_SECTORS)
        if FIRST_REGION <= region < FIRST_REGION + len(self.regions):
            return self.regions[region - FIRST_REGION] << REGION_SHIFT | rest << 5
        return sector << 5


@dataclass(frozen=True)
class Written:
    """One instruction as it is written: the parts of its line before and after the mask, without addresses."""

    instruction: StaticInstruction
    opcode: str
    before: str
    after: str
    rows: int

    @classmethod
    def of(
        cls, instruction: StaticInstruction, pc: int, opcode: str, destinations: Sequence[str], sources: Sequence[str]
    ) -> Written:
        """Compose the parts of a line."""
        accesses = bool(instruction.access and instruction.event_bytes) and opcode.split(".", maxsplit=1)[0] not in TMA
        width = str(instruction.access_bytes or 4) if accesses else "0"
        gmma = ["0"] if "GMMA" in opcode[:5] else []
        words = [str(len(destinations)), *destinations, opcode, str(len(sources)), *sources, *gmma, width]
        return cls(instruction, opcode, f"{pc:04x}", " ".join(words), matrix_rows(opcode))

    @property
    def is_exit(self) -> bool:
        """Lanes leave the kernel here."""
        return self.opcode.split(".")[0] in ("EXIT", "KILL")

    @property
    def is_bulk(self) -> bool:
        """Its line has the fields of a bulk copy."""
        return self.opcode.split(".")[0] in TMA


class WarpLines:
    """Composes the lines of one warp. `local` remembers which of its pages of local memory have been touched, in order."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._pages: dict[int, int] = {}
        self.lines: list[str] = []
        self.split = 0  # lines more than there were instructions

    def plain(self, text: list[str]) -> None:
        """Lines without addresses."""
        self.lines += text

    def access(self, written: Written, lanes: int, sectors: Sequence[int], passes: int, sharing: int) -> None:
        """The line of a memory instruction with this event."""
        if written.is_bulk:
            self._bulk(written, lanes, sectors)
            return
        instruction = written.instruction
        parts = [sectors[k : k + WARP] for k in range(0, len(sectors), WARP)] or [sectors]
        words = max(1, instruction.access_bytes // 4)
        if instruction.space in ("local", "generic") and len(sectors) <= WARP * words:
            parts = [sectors]
        self.split += len(parts) - 1
        for part in parts:
            self._line(written, self._lanes(written, lanes, part, passes, sharing))

    def _lanes(self, written: Written, lanes: int, sectors: Sequence[int], passes: int, sharing: int) -> Lanes:
        space, size = written.instruction.space, written.instruction.access_bytes
        if space == "shared":
            return bank_lanes(passes, size, lanes, sharing, written.rows, loads=written.instruction.access == "load")
        local = [sector for sector in sectors if sector >= LOCAL_TRACE_SECTOR]
        if space == "local":
            return local_lanes(sectors, size, lanes, self._offset)
        if space == "global" or not (local or passes):
            return sector_lanes(sectors, size, lanes, sharing, self._place.address)
        others = [sector for sector in sectors if sector < LOCAL_TRACE_SECTOR]
        shared = 1 if sharing and (others or passes) else sharing  # lanes elsewhere share the address then
        offsets = local_lanes(local, size, 0 if passes or others else lanes, self._offset, shared)
        addresses = {lane: self._place.local_base + offset for lane, offset in offsets.items()}
        if others:
            free = [lane for lane in range(WARP) if lane not in addresses]
            rest = 0 if passes else min(len(free), max(0, lanes - len(addresses)))
            spread = sector_lanes(others, size, rest, sharing, self._place.address)
            addresses |= {free[k]: address for k, address in spread.items() if k < len(free)}
        begin = max(addresses, default=-1) + 1
        if passes and begin < WARP:
            shared = sharing if not sectors else min(sharing, 1)
            loads = written.instruction.access == "load"
            offsets = bank_lanes(passes, size, max(1, lanes - begin), shared, 0, begin, loads=loads)
            addresses |= {lane: self._place.shared_base + offset for lane, offset in offsets.items()}
        return addresses

    def _offset(self, sector: int) -> int:
        """The offset in a thread's local memory of a sector's row; the warp's pages follow each other as they are touched."""
        page, rest = divmod(sector - LOCAL_TRACE_SECTOR, LOCAL_PAGE_SECTORS)
        number = self._pages.setdefault(page, len(self._pages))
        return (number * LOCAL_PAGE_ROWS + rest // 4) * 4

    def _line(self, written: Written, lanes: Lanes) -> None:
        order = sorted(lanes)
        mask = sum(1 << lane for lane in order)
        self.lines.append(f"{written.before} {mask:08x} {written.after} {compressed(order, [lanes[lane] for lane in order])} 0")

    def _bulk(self, written: Written, lanes: int, sectors: Sequence[int]) -> None:
        """A bulk copy; its parts of 255 sectors are one line again."""
        addresses = " ".join(hex(self._place.address(sector)) for sector in sectors)
        mask = (1 << lanes) - 1
        head = f"{written.before} {mask:08x} {written.after} 0x0 0 {32 * len(sectors)} 0 3 {len(sectors)}"
        self.lines.append(f"{head} {addresses} 0" if addresses else f"{head} 0")


def compressed(lanes: Sequence[int], addresses: Sequence[int]) -> str:
    """Addresses of the active lanes as the tracer packs them: base and stride (1) where they allow it, else base and deltas (2)."""
    if not lanes:
        return "1 0x0 0"
    steps = [b - a for a, b in pairwise(addresses)]
    contiguous = lanes[-1] - lanes[0] == len(lanes) - 1
    if len(lanes) > 1 and contiguous and len(set(steps)) == 1 and abs(steps[0]) <= _MOST_STRIDE:
        return f"1 {addresses[0]:#x} {steps[0]}"
    return " ".join([f"2 {addresses[0]:#x}", *map(str, steps)])
