"""From an opcode as a trace writes it to what it is: by the table, by the user's own rows, or by the nearest name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warpsight.isa.sass.table import ATOMIC, GENERIC, GLOBAL, LOAD, SHARED, STORE, TABLE, SassOpcode
from warpsight.isa.sass.width import access_bytes


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an opcode is.

    `row` of the table; `known` is False where it was taken for its nearest name, `bytes` per lane (0: no access).
    """

    row: SassOpcode
    known: bool
    bytes: int


class SassTable:
    """The table with the rows of a user's file before it (`isa_file.read_isa_file`).

    `numbers` are opcodes by the numbers that some tools write in their place.
    """

    def __init__(self, own: Mapping[str, SassOpcode] | None = None, numbers: Mapping[int, str] | None = None) -> None:
        self._rows = {**TABLE, **(own or {})}
        self.own, self.numbers = dict(own or {}), dict(numbers or {})

    def meaning(self, opcode: str) -> Meaning:
        """What `opcode` is, with all its dot-separated tokens."""
        row = self._row(opcode)
        known = row is not None
        row = row or self._nearest(opcode)
        return Meaning(row, known, access_bytes(opcode) if row.access else 0)

    def _row(self, opcode: str) -> SassOpcode | None:
        """The row with the longest name that is the opcode up to a dot."""
        name = opcode
        while name:
            if name in self._rows:
                return self._rows[name]
            name = name.rpartition(".")[0]
        return None

    def _nearest(self, opcode: str) -> SassOpcode:
        """The row whose name shares the longest beginning with an opcode that no row names; of several, the shortest name.

        Without even a first letter in common it is taken for integer arithmetic.
        """
        base = opcode.split(".", maxsplit=1)[0]
        best = max(self._rows, key=lambda name: (_shared(base, name), -len(name), name))
        row = self._rows[best]
        return row if _shared(base, best) else self._rows["IADD3"]


def _shared(one: str, other: str) -> int:
    """Letters that two names begin with alike."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def bulk_direction(opcode: str) -> tuple[str, str]:
    """Space and access of a bulk copy: ``UBLKCP.S.G`` loads, ``UBLKCP.G.S`` stores, between blocks neither ("", "")."""
    base, *tokens = opcode.split(".")
    if base == "UBLKCP":
        letters = [token for token in tokens if token in ("S", "G")]
        return {("S", "G"): (GLOBAL, LOAD), ("G", "S"): (GLOBAL, STORE)}.get(
            (letters[0], letters[1]) if len(letters) > 1 else ("", ""), ("", "")
        )
    row = TABLE.get(base)
    return (row.space, row.access) if row else ("", "")


def is_move_of_constant(opcode: str, sources: tuple[str, ...]) -> bool:
    """``HFMA2.MMA R7, -RZ, RZ, 0, 2.4e-07``: the compiler's way to write a constant when the integer pipeline is busy."""
    return opcode.startswith("HFMA2") and bool(sources) and all(source in ("R255", "RZ") for source in sources)


__all__ = ["ATOMIC", "GENERIC", "SHARED", "Meaning", "SassTable", "bulk_direction", "is_move_of_constant"]
