"""Variables, parameters and registers as PTX declares them (PTX ISA, section "Variables")."""

from __future__ import annotations

import re
from collections.abc import Callable

from warpsight.base.errors import FormatError
from warpsight.isa.initializers import Initializer, SymbolAddress
from warpsight.isa.lexer import IDENTIFIER, split_top
from warpsight.isa.literals import constant
from warpsight.isa.names import MAX_REGISTERS, Names
from warpsight.isa.program import Variable
from warpsight.isa.types import REGISTER_TYPES, TYPE_NAMES, type_bits

Fail = Callable[[str], FormatError]

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
_NAME_ONLY = re.compile(IDENTIFIER)


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
                self.align = int(match["align"]) if len(match["align"]) < 9 else 0
                if self.align < 1 or self.align & (self.align - 1):
                    raise fail(f".align {match['align'][:12]} is not a power of two")
            elif match["vector"]:
                lanes = match["vector"] + "."
            elif match["pointer"]:
                self.is_pointer = True
            elif match["type"]:
                if match["type"] not in TYPE_NAMES or self.type:
                    raise fail(f'".{match["type"]}" is not understood in a declaration')
                self.type = match["type"]
        if not self.type:
            raise fail("a declaration has no type")
        self.type = lanes + self.type
        self.rest = text[position:].strip()


def read_variables(text: str, space: str, extern: bool, fail: Fail) -> list[Variable]:
    """The variables of a declaration such as `.align 4 .b8 a[16] = {1, 2}, b[4]`: `text` is what follows the state space.

    Sizes in bytes. Raises FormatError (made by `fail`) where it is no declaration.
    """
    specifier = _Specifier(text, fail)
    if space == "reg":
        _check_register_type(specifier.type.rpartition(".")[2], fail)
    return [_variable(piece, specifier, space, extern, fail) for piece in split_top(specifier.rest, fail)]


def _check_register_type(type: str, fail: Fail) -> None:
    if type not in REGISTER_TYPES:
        raise fail(f"a register cannot be of type .{type}: PTX holds it in registers of bits (.b{max(16, type_bits(type))})")


def _variable(text: str, specifier: _Specifier, space: str, extern: bool, fail: Fail) -> Variable:
    ranged = _RANGE.fullmatch(text)
    match = _DECLARATOR.fullmatch(text)
    if match is None or ranged is not None:
        raise fail(f'"{_printable(text)}" is not understood in a declaration')
    name, brackets, initial = match[1], match[2], match[3]
    dimensions = [_dimension(part, fail) for part in re.findall(r"\[([^\]]*)\]", brackets)]
    element = max(1, type_bits(specifier.type) // 8)
    scalar = specifier.type.partition(".")[2] if specifier.type[:2] in {"v2", "v4", "v8"} else specifier.type
    data = b""
    symbols: tuple[SymbolAddress, ...] = ()
    size = element
    for count in dimensions:
        size *= max(count, 0)
    if initial is not None:
        shape = tuple(max(count, 0) for count in dimensions)
        if scalar != specifier.type:
            shape = (*shape, int(specifier.type[1]))
        layout = Initializer(scalar, shape, fail)
        layout.read(initial)
        if dimensions and dimensions[0] < 0:
            rest = size_of_row(dimensions, element)
            size = -(-len(layout.data) // rest) * rest
        if len(layout.data) > size:
            raise fail(f'"{_printable(name)}" has more initial values ({len(layout.data)} bytes) than its size ({size} bytes)')
        if size > MAX_INITIAL_BYTES:
            raise fail(f'"{_printable(name)}" is an initialised variable of {size} bytes: larger than any module can hold')
        data, symbols = bytes(layout.data) + bytes(size - len(layout.data)), tuple(layout.symbols)
        if not symbols and not any(data):
            data = b""
    if size > MAX_VARIABLE_BYTES:
        raise fail(f'"{_printable(name)}" is {size} bytes: larger than the memory of any GPU')
    align = specifier.align or element
    return Variable(name, space, specifier.type, size, align, extern, data, symbols, specifier.is_pointer)


def size_of_row(dimensions: list[int], element: int) -> int:
    """Bytes of what the first dimension counts."""
    size = element
    for count in dimensions[1:]:
        size *= max(count, 1)
    return max(size, 1)


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
    """Declare what `.reg` names: `.b32 %r<10>, %s`, `.v4 .f32 q`. Raises FormatError where it cannot be meant."""
    match = _REGISTER.fullmatch(text)
    if match is None or match[2] not in TYPE_NAMES:
        raise fail("a .reg declaration is not understood")
    _check_register_type(match[2], fail)
    lanes, type, rest = match[1], match[2], match[3]
    for piece in split_top(rest, fail):
        ranged = _RANGE.fullmatch(piece)
        if ranged is not None and not lanes:
            if not names.declare_range(ranged[1], int(ranged[2]), type):
                raise fail(f'registers "{_printable(piece)}" are declared twice')
        elif ranged is not None:
            for number in range(min(int(ranged[2]), MAX_REGISTERS)):
                declare_register(f"{ranged[1]}{number}", type, lanes, names, fail)
        elif _NAME_ONLY.fullmatch(piece):
            declare_register(piece, type, lanes, names, fail)
        else:
            raise fail(f'"{_printable(piece)}" is not understood in a .reg declaration')
        if names.declared > MAX_REGISTERS:
            raise fail(f"more than {MAX_REGISTERS:,} registers are declared")


def declare_register(name: str, type: str, lanes: str | None, names: Names, fail: Fail) -> None:
    """Declare one register, or with `lanes` (`v2`, `v4`) a vector of them. Raises FormatError (made by `fail`) if it is there."""
    if not lanes:
        if not names.declare_register(name, type):
            raise fail(f'register "{_printable(name)}" is declared twice')
        return
    elements = []
    for axis in VECTOR_AXES[: int(lanes[1])]:
        if not names.declare_register(f"{name}.{axis}", type):
            raise fail(f'register "{_printable(name)}" is declared twice')
        elements.append(names.scopes[-1].registers[f"{name}.{axis}"])
    names.scopes[-1].vectors[name] = tuple(elements)


def _printable(text: str) -> str:
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= 40 else clean[:37] + "..."
