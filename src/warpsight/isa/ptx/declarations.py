"""Variables, parameters and registers as PTX declares them, with the initial values of variables (PTX ISA, sections "Variables"
and "Initializers").
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

import numpy as np

from warpsight.base.compile_budget import check
from warpsight.base.errors import FormatError
from warpsight.isa.ptx.constants import REGISTER_TYPES, TYPE_NAMES, constant, is_float, pack_float, type_bits
from warpsight.isa.ptx.lexer import IDENTIFIER, split_top
from warpsight.isa.ptx.names import MAX_REGISTERS, Names
from warpsight.isa.ptx.program import Immediate, Variable

Fail = Callable[[str], FormatError]
SymbolAddress = tuple[int, str, int]

_MASKED = re.compile(r"(0[xX][fF]+0*U?|\d+)\s*\((.+)\)", re.DOTALL)
_SYMBOL = re.compile(rf"(?:generic\s*\(\s*({IDENTIFIER})\s*\)|({IDENTIFIER}))\s*([+-].*)?", re.DOTALL)
_MAX_NESTING = 8
# Strings and tables are lists of small numbers, which may be long: NumPy reads them a hundred times as fast.
_LONG_LIST, _PLAIN_LIST = 256, re.compile(r"(?:0|[1-9]\d{0,8})(?:,\s*(?:0|[1-9]\d{0,8}))*+")


class Initializer:
    """Lays out the initial value of one variable: `data`, and in `symbols` (byte offset, symbol, addend) of addresses in it."""

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
        if len(inner) > _LONG_LIST and self._element <= 8 and not is_float(self._type) and _PLAIN_LIST.fullmatch(inner):
            self.data += np.fromstring(inner, np.int64, sep=",").astype(f"<u{self._element}").tobytes()
            inner = ""
        check("parsing PTX")
        for piece in split_top(inner, self._fail) if inner else []:
            self._list(piece, dimensions[1:], depth + 1)
        if depth and dimensions:
            missing = self._element * math.prod(dimensions) - (len(self.data) - begin)
            if missing < 0:
                raise self._fail("a row has more initial values than the array declares")
            self.data += bytes(missing)

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
        offset = constant("0" + (match[3] or ""))
        if offset is None or not isinstance(offset.value, int):
            raise self._fail(f'"{_printable(text)}" is not an initial value')
        return match[1] or match[2], offset.value

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


MAX_VARIABLE_BYTES = 1 << 40
MAX_INITIAL_BYTES = 1 << 28
VECTOR_AXES = "xyzwabcd"  # names of a vector register's elements; PTX names four, and has vectors of eight in braces only

_PREFIX = re.compile(
    r"\s*(?:\.align\s+(?P<align>\d+)|\.attribute\s*\((?:[^()]|\([^()]*\))*\)|\.(?P<vector>v[248])\b|\.(?P<pointer>ptr)\b(?P<where>(?:\s*\.(?:"
    r"const|global|local|shared|param)\b|\s*\.align\s+\d+)*)|\.(?P<type>[a-z]\w*)\b)"
)
_DECLARATOR = re.compile(rf"({IDENTIFIER}|_)\s*((?:\[[^\]]*\]\s*)*)(?:=(.*))?", re.DOTALL)
_RANGE = re.compile(rf"({IDENTIFIER})\s*<\s*(\d{{1,9}})\s*>")
_REGISTER = re.compile(r"\s*(?:\.(v[248])\s*)?\.(\w+)\s+(.*)", re.DOTALL)
_MOST_ALIGN = 1 << 26  # bytes


class _Specifier:
    """What stands before the names: alignment, type, pointer mark."""

    def __init__(self, text: str, fail: Fail) -> None:
        self.align = 0
        self.type = ""
        self.is_pointer = False
        lanes = ""
        position = 0
        while (match := _PREFIX.match(text, position)) is not None:
            position = match.end()
            if match["align"]:
                self.align = int(match["align"]) if len(match["align"]) < 20 else _MOST_ALIGN + 1
                if self.align > _MOST_ALIGN:
                    raise fail(f".align {match['align'][:20]} is more than the largest alignment supported, {_MOST_ALIGN:,}")
                if self.align < 1 or self.align & (self.align - 1):
                    raise fail(f".align {self.align} is not a power of two")
            elif match["vector"]:
                lanes = match["vector"] + "."
            elif match["pointer"]:
                self.is_pointer = True
            elif match["type"]:
                if match["type"] not in TYPE_NAMES or self.type:
                    raise fail(f'".{match["type"]}" is not recognized in a declaration')
                self.type = match["type"]
        if not self.type:
            raise fail("a declaration has no type")
        self.type = lanes + self.type
        self.rest = text[position:].strip()


def read_variables(text: str, space: str, extern: bool, fail: Fail) -> list[Variable]:
    """The variables of a declaration such as `.align 4 .b8 a[16] = {1, 2}, b[4]`: `text` is what follows the state space.

    Raises FormatError (made by `fail`) if it is not a declaration.
    """
    specifier = _Specifier(text, fail)
    if space == "reg":
        _check_register_type(specifier.type.rpartition(".")[2], fail)
    return [_variable(piece, specifier, space, extern, fail) for piece in split_top(specifier.rest, fail)]


def _check_register_type(type: str, fail: Fail) -> None:
    if type not in REGISTER_TYPES:
        raise fail(f"a register cannot be of type .{type}: PTX holds it in registers of bits (.b{max(16, type_bits(type))})")


def _variable(text: str, specifier: _Specifier, space: str, extern: bool, fail: Fail) -> Variable:
    match = _DECLARATOR.fullmatch(text)
    if match is None:
        raise fail(f'"{_printable(text)}" is not recognized in a declaration')
    name, brackets, initial = match[1], match[2], match[3]
    dimensions = [_dimension(part, fail) for part in re.findall(r"\[([^\]]*)\]", brackets)]
    shape = tuple(max(count, 0) for count in dimensions)
    element = max(1, type_bits(specifier.type) // 8)
    size = element * math.prod(shape)
    data = b""
    symbols: tuple[SymbolAddress, ...] = ()
    if initial is not None:
        lanes, _, scalar = specifier.type.rpartition(".")
        layout = Initializer(scalar, (*shape, int(lanes[1])) if lanes else shape, fail)
        layout.read(initial)
        if dimensions and dimensions[0] < 0:  # as many rows as the initial value fills
            row = element * math.prod(max(count, 1) for count in dimensions[1:])
            size = -(-len(layout.data) // row) * row
        if len(layout.data) > size:
            raise fail(f'"{_printable(name)}" has more initial values ({len(layout.data)} bytes) than its size ({size} bytes)')
        if size > MAX_INITIAL_BYTES:
            raise fail(f'"{_printable(name)}" is an initialised variable of {size} bytes: larger than any module can hold')
        symbols = tuple(layout.symbols)
        if symbols or any(layout.data):
            data = bytes(layout.data) + bytes(size - len(layout.data))
    if size > MAX_VARIABLE_BYTES:
        raise fail(f'"{_printable(name)}" is {size} bytes: larger than the memory of any GPU')
    align = specifier.align or element
    return Variable(name, space, specifier.type, size, align, extern, data, symbols, specifier.is_pointer)


def _dimension(text: str, fail: Fail) -> int:
    """The number in `[..]`; -1 for `[]`."""
    text = text.strip()
    if not text:
        return -1
    number = constant(text)
    if number is None or not isinstance(number.value, int) or number.value < 0:
        raise fail(f'"{_printable(text)}" is not a number of elements')
    return number.value


def declare_registers(text: str, names: Names, fail: Fail) -> None:
    """Declare what `.reg` names: `.b32 %r<10>, %s`, `.v4 .f32 q`. Raises FormatError (made by `fail`) for anything else."""
    match = _REGISTER.fullmatch(text)
    if match is None or match[2] not in TYPE_NAMES:
        raise fail("a .reg declaration is not recognized")
    _check_register_type(match[2], fail)
    lanes, type, rest = match.groups()
    for piece in split_top(rest, fail):
        ranged = _RANGE.fullmatch(piece)
        if ranged is not None and not lanes:
            if not names.declare_range(ranged[1], int(ranged[2]), type):
                raise fail(f'registers "{_printable(piece)}" are declared twice')
        elif ranged is not None:
            for number in range(min(int(ranged[2]), MAX_REGISTERS)):
                declare_register(f"{ranged[1]}{number}", type, lanes, names, fail)
        elif re.fullmatch(IDENTIFIER, piece):
            declare_register(piece, type, lanes, names, fail)
        else:
            raise fail(f'"{_printable(piece)}" is not recognized in a .reg declaration')
        if names.declared > MAX_REGISTERS:
            raise fail(f"more than {MAX_REGISTERS:,} registers are declared")


def declare_register(name: str, type: str, lanes: str | None, names: Names, fail: Fail) -> None:
    """Declare one register, or with `lanes` (`v2`, `v4`) a vector of them. Raises FormatError (made by `fail`) if it is there."""
    elements = [f"{name}.{axis}" for axis in VECTOR_AXES[: int(lanes[1])]] if lanes else [name]
    if not all(names.declare_register(element, type) for element in elements):
        raise fail(f'register "{_printable(name)}" is declared twice')
    if lanes:
        names.scopes[-1].vectors[name] = tuple(names.scopes[-1].registers[element] for element in elements)
