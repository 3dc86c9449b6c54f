"""Initial values of `.global` and `.const` variables (PTX ISA, section "Initializers")."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from warpsight.base.errors import FormatError
from warpsight.isa.lexer import IDENTIFIER, split_top
from warpsight.isa.literals import constant
from warpsight.isa.program import Immediate
from warpsight.isa.types import is_float, pack_float, type_bits

Fail = Callable[[str], FormatError]
SymbolAddress = tuple[int, str, int]

_MASKED = re.compile(r"(0[xX][fF]+0*U?|\d+)\s*\((.+)\)", re.DOTALL)
_SYMBOL = re.compile(rf"(?:generic\s*\(\s*({IDENTIFIER})\s*\)|({IDENTIFIER}))\s*([+-].*)?", re.DOTALL)
_MAX_NESTING = 8


class Initializer:
    """Lays out the initial value of one variable: `data` grows as elements come, `symbols` are addresses to be filled in.

    `data` holds what was given, `symbols` are (byte offset, symbol, addend) of 8-byte (or `element` byte) addresses.
    """

    def __init__(self, type: str, dimensions: tuple[int, ...], fail: Fail) -> None:
        self._type = type
        self._element = max(1, type_bits(type) // 8)
        self._dimensions = dimensions
        self._fail = fail
        self.data = bytearray()
        self.symbols: list[SymbolAddress] = []
        self._bytes_of_address: tuple[str, int, int] = ("", 0, 0)

    def read(self, text: str) -> None:
        """Lay out the text after `=`."""
        text = text.strip()
        if not text:
            raise self._fail("an initial value is missing")
        self._list(text, self._dimensions, 0)
        if self._bytes_of_address[0]:
            raise self._fail("the bytes of an address are not complete")

    def _list(self, text: str, dimensions: tuple[int, ...], depth: int) -> None:
        if depth > _MAX_NESTING:
            raise self._fail("initial values are nested too deeply")
        if not text.startswith("{"):
            self._value(text)
            return
        if not text.endswith("}"):
            raise self._fail("a list of initial values is not closed")
        begin = len(self.data)
        inner = text[1:-1].strip().removesuffix(",")
        inner_dimensions = dimensions[1:]
        if inner:
            for piece in split_top(inner, self._fail):
                self._list(piece, inner_dimensions, depth + 1)
        if depth and dimensions:
            size = self._element
            for count in dimensions:
                size *= count
            given = len(self.data) - begin
            if given > size:
                raise self._fail("a row has more initial values than the array declares")
            self.data += bytes(size - given)

    def _value(self, text: str) -> None:
        number = constant(text)
        if number is not None:
            self.data += self._pack(number)
            return
        masked = _MASKED.fullmatch(text)
        if masked is not None and not text.startswith("generic"):
            self._address_byte(masked[1], masked[2].strip())
            return
        self.symbols.append((len(self.data), *self._symbol(text)))
        if self._element < 4:
            raise self._fail(f"an address does not fit an element of .{self._type}")
        self.data += bytes(self._element)

    def _symbol(self, text: str) -> tuple[str, int]:
        match = _SYMBOL.fullmatch(text)
        if match is None:
            raise self._fail(f'"{_printable(text)}" is not an initial value')
        addend = 0
        if match[3]:
            offset = constant("0" + match[3])
            if offset is None or not isinstance(offset.value, int):
                raise self._fail(f'"{_printable(text)}" is not an initial value')
            addend = offset.value
        return match[1] or match[2], addend

    def _address_byte(self, mask: str, text: str) -> None:
        """`0xFF00(symbol)`: byte 1 of an address. A run of them from byte 0 to 7 is one address."""
        value = constant(mask)
        name, addend = self._symbol(text)
        expected_name, expected_addend, byte = self._bytes_of_address
        in_sequence = not byte or (name, addend) == (expected_name, expected_addend)
        if value is None or value.value != 0xFF << 8 * byte or not in_sequence or self._element != 1:
            raise self._fail(f'"{_printable(mask)}({_printable(text)})" is not the next byte of an address')
        if byte == 0:
            self.symbols.append((len(self.data), name, addend))
        self.data.append(0)
        self._bytes_of_address = ("", 0, 0) if byte == 7 else (name, addend, byte + 1)

    def _pack(self, number: Immediate) -> bytes:
        if is_float(self._type):
            if number.is_float and self._type == "f32" and number.bits < 1 << 32:
                # A 0f constant keeps its pattern, also of a NaN.
                return struct.pack("<I", number.bits)
            try:
                return pack_float(self._type, float(number.value))
            except OverflowError:
                raise self._fail(f"{number.value} does not fit .{self._type}") from None
        if number.is_float:
            if (self._element == 4) != (number.bits < 1 << 32) or self._element < 4:
                raise self._fail(f"{number.value} is a floating-point value in an array of .{self._type}")
            return number.bits.to_bytes(self._element, "little")
        return (number.bits & (1 << 8 * self._element) - 1).to_bytes(self._element, "little")


def _printable(text: str) -> str:
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= 40 else clean[:37] + "..."
