"""Sections, symbols and relocations of a 64-bit ELF file: cubins, host programs, and objects that LLVM makes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

from warpsight.base.errors import FormatError

MAGIC = b"\x7fELF"
CUDA_MACHINE = 190
RELOCATABLE = 1  # file type; 2 and 3 are programs and libraries
OBJECT, SECTION, FUNCTION = 1, 3, 2  # kinds of symbols
DAMAGE = (struct.error, ValueError, IndexError, OverflowError, StopIteration)
"""What reading a damaged file raises."""


def damaged(error: Exception, place: str) -> FormatError:
    """What to say of it."""
    why = str(error) if type(error) is ValueError else "its headers name what it does not contain"
    return FormatError(f"is damaged: {why}", place=place, remedy="build it again")


_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_SYMBOL_TABLE, _RELA, _NO_BITS, _REL = 2, 4, 8, 9
_MOST_EMPTY = 1 << 34  # bytes of a section that the file does not contain


@dataclass(frozen=True)
class Section:
    """A section. `info` and `link` mean what its type says."""

    name: str
    type: int
    offset: int
    size: int
    link: int
    info: int
    align: int


@dataclass(frozen=True)
class Symbol:
    """A symbol: `section` is 0 where it is defined elsewhere, `kind` one of the constants above, `other` a byte of CUDA's own."""

    name: str
    section: int
    value: int
    size: int
    kind: int
    other: int


@dataclass(frozen=True)
class Relocation:
    """A place in a section that depends on a symbol: `addend` is None where it is what stands there."""

    offset: int
    type: int
    symbol: int
    addend: int | None


def _text_at(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset)
    if end < 0:
        raise ValueError("a name in it has no end")
    return data[offset:end].decode()


class Elf:
    """A file. Raises FormatError for one that is no 64-bit ELF file, and what `DAMAGE` lists where it is damaged."""

    def __init__(self, data: bytes, place: str) -> None:
        if data[:6] != MAGIC + b"\x02\x01":
            raise FormatError("is not a 64-bit ELF file", place=place, remedy="build it again")
        self.data = data
        (
            identity, self.type, self.machine, _, _, segments, table, self.flags,
            _, segment_bytes, segment_count, entry_bytes, count, names_index,
        ) = _HEADER.unpack_from(data)  # fmt: skip
        self.abi_version = identity[8]
        if segments + segment_bytes * segment_count > len(data):
            raise ValueError("the table of its segments is cut")
        raw = [_SECTION.unpack_from(data, table + index * entry_bytes) for index in range(count)]
        names = raw[names_index][4] if raw else 0
        self.sections = [Section(_text_at(data, names + r[0]), r[1], r[4], r[5], r[6], r[7], r[8]) for r in raw]
        for section in self.sections:
            if section.type != _NO_BITS and section.offset + section.size > len(data):
                raise ValueError(f"section {section.name} ends behind the end of the file")
            if section.size > _MOST_EMPTY:
                raise ValueError(f"section {section.name} has {section.size:,} bytes")

    @cached_property
    def symbols(self) -> list[Symbol]:
        """The symbols in order. Raises StopIteration where there is no table of them."""
        table = next(section for section in self.sections if section.type == _SYMBOL_TABLE)
        strings, found = self.sections[table.link].offset, []
        for name, kind, other, home, value, size in _SYMBOL.iter_unpack(self.contents(table)):
            found.append(Symbol(_text_at(self.data, strings + name), home, value, size, kind & 15, other))
        return found

    def contents(self, section: Section) -> bytes:
        """The bytes of a section; zeros where the file has none."""
        return bytes(section.size) if section.type == _NO_BITS else self.data[section.offset : section.offset + section.size]

    def named(self, name: str) -> Section | None:
        """The section of that name."""
        return next((section for section in self.sections if section.name == name), None)

    def relocations(self, section: Section) -> list[Relocation]:
        """What is to be filled into a section when it is loaded."""
        index, found = self.sections.index(section), []
        for each in self.sections:
            if each.type in (_RELA, _REL) and each.info == index:
                for offset, info, *addend in struct.iter_unpack("<QQq" if each.type == _RELA else "<QQ", self.contents(each)):
                    found.append(Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend[0] if addend else None))
        return found
