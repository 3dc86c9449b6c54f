"""The lines of one warp: instructions from its path, addresses from its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from warpsight.isa.sass.table import TMA
from warpsight.isa.sass.width import matrix_rows
from warpsight.trace.exporters.accelsim.addresses import WARP, Lanes, bank_lanes, local_lanes, sector_lanes
from warpsight.trace.importers.accelsim.layout import (
    FIRST_REGION,
    LOCAL_PAGE_ROWS,
    LOCAL_PAGE_SECTORS,
    LOCAL_TRACE_SECTOR,
    REGION_SHIFT,
)
from warpsight.trace.schema import StaticInstruction

_MOST_STRIDE = (1 << 31) - 1  # Accel-Sim reads a stride as an int of 32 bits, and deltas as 64
_REGION_SECTORS = 1 << (REGION_SHIFT - 5)


@dataclass(frozen=True)
class Place:
    """How addresses are written: where the windows of shared and local memory lie, and which regions the places of sectors stand
    for.

    Without regions a sector's number is its address.
    """

    shared_base: int
    local_base: int
    regions: tuple[int, ...]

    def address(self, sector: int) -> int:
        """The byte address of a sector of device memory."""
        place, rest = divmod(sector, _REGION_SECTORS)
        if self.regions and FIRST_REGION <= place < FIRST_REGION + len(self.regions):
            return self.regions[place - FIRST_REGION] << REGION_SHIFT | rest << 5
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
        event = instruction.event_bytes > 0
        bulk = opcode.split(".", maxsplit=1)[0] in TMA
        words = [
            str(len(destinations)),
            *destinations,
            opcode,
            str(len(sources)),
            *sources,
            str(instruction.access_bytes or 4) if event and not bulk else "0",
        ]
        if "GMMA" in opcode[:5]:
            words.insert(-1, "0")
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
            return bank_lanes(passes, size, lanes, sharing, written.rows)
        local = [sector for sector in sectors if sector >= LOCAL_TRACE_SECTOR]
        if space == "local":
            return local_lanes(sectors, size, lanes, self._offset)
        if space == "global" or not (local or passes):
            return sector_lanes(sectors, size, lanes, sharing, self._place.address)
        others = [sector for sector in sectors if sector < LOCAL_TRACE_SECTOR]
        shared = 1 if sharing and (others or passes) else sharing  # lanes elsewhere share the address then
        found = {
            lane: self._place.local_base + at
            for lane, at in local_lanes(local, size, 0 if passes or others else lanes, self._offset, shared).items()
        }
        if others:
            free = [lane for lane in range(WARP) if lane not in found]
            rest = 0 if passes else min(len(free), max(0, lanes - len(found)))
            spread = sector_lanes(others, size, rest, sharing, self._place.address)
            found |= {free[k]: address for k, address in spread.items() if k < len(free)}
        begin = max(found, default=-1) + 1
        if passes and begin < WARP:
            at_banks = bank_lanes(passes, size, max(1, lanes - begin), sharing if not sectors else min(sharing, 1), 0, begin)
            found |= {lane: self._place.shared_base + address for lane, address in at_banks.items()}
        return found

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
