"""Operands of PTX instructions (PTX ISA, section "Instruction Operands")."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from warpsight.base.errors import FormatError
from warpsight.isa.ptx.constants import constant, literal, type_bits
from warpsight.isa.ptx.lexer import IDENTIFIER, split_top
from warpsight.isa.ptx.names import SINK, SPECIAL_REGISTERS, Names
from warpsight.isa.ptx.program import Address, Immediate, Negated, Operand, Register, SpecialRegister, Symbol, Variable, Vector

Parsed = tuple[tuple[Operand | Negated, ...], Register | None, tuple[str, ...]]
Fail = Callable[[str], FormatError]

_NAME = re.compile(rf"{IDENTIFIER}(?:\.[a-z]\w*)?|_")
_SUM = re.compile(rf"({IDENTIFIER}(?:\.[xyzwrgba])?)\s*([+-].*)?", re.DOTALL)
_INDEXED = re.compile(rf"({IDENTIFIER})\s*\[([^\[\]]+)\]")
_SELECTOR = re.compile(r"(.+)\.([bh][0-7]{1,4})")
_NUMERIC = frozenset("0123456789+-(~!.")
_AXES = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}


class OperandReader:
    """Reads the operand texts of one function. `used` collects, with the line, each symbol that the body does not declare."""

    def __init__(self, names: Names, variables: Mapping[str, Variable], line_of_statement: Callable[[], int]) -> None:
        """`variables` are the module's own, so far."""
        self._names = names
        self._variables = variables
        self._line_of_statement = line_of_statement
        self._cache: dict[str, Parsed] = {}
        self._single: dict[str, Operand | Negated] = {}
        self.used: dict[str, int] = {}

    def forget(self) -> None:
        """Drop what names meant: a scope was left or something was declared."""
        self._cache.clear()
        self._single.clear()

    def read(self, text: str, fail: Fail) -> Parsed:
        """The operands of an instruction, the second of a paired destination (`%p|%q`), and byte or half-word selectors and signs.

        A selector (`%r1.b0`, video instructions) is returned as `0.b0`: operand position, dot, selector.
        """
        if text not in self._cache:
            self._cache[text] = self._read(text, fail)
        return self._cache[text]

    def _read(self, text: str, fail: Fail) -> Parsed:
        operands: list[Operand | Negated] = []
        pair: Register | None = None
        selectors: list[str] = []
        for position, piece in enumerate(split_top(text, fail)):
            name = piece
            if "|" in piece and position == 0 and "(" not in piece:
                name, _, second = (part.strip() for part in piece.partition("|"))
                pair = self._destination(second, fail)
            if name[:1] == "-" and _NAME.fullmatch(name[1:]) and name[1:] != "WARP_SZ":
                name = name[1:]
                selectors.append(f"{position}.neg")
            selected = _SELECTOR.fullmatch(name) if "." in name and name[0] not in "[{" else None
            if selected and name not in SPECIAL_REGISTERS and self._names.vector(selected[1]) is None:
                name = selected[1]
                selectors.append(f"{position}.{selected[2]}")
            if name.startswith("[") and "," in name:
                operands.extend(self._compound_address(name, fail))
            else:
                operands.append(self.operand(name, fail))
        return tuple(operands), pair, tuple(selectors)

    def operand(self, text: str, fail: Fail) -> Operand | Negated:
        """One operand of any kind."""
        if text not in self._single:
            self._single[text] = self._operand(text, fail)
        return self._single[text]

    def _operand(self, text: str, fail: Fail) -> Operand | Negated:
        first = text[:1]
        if first == "[":
            return self._address(text, fail)
        if first == "{":
            return self._vector(text, fail)
        if first == "!" and _NAME.fullmatch(text[1:].lstrip()):
            return Negated(self.register(text[1:].lstrip(), fail))
        if _NAME.fullmatch(text) and text != "WARP_SZ":
            return self._name(text, fail)
        return constant(text) or self._offset_symbol(text, fail)

    def register(self, name: str, fail: Fail) -> Register:
        """A declared register by the name that it has in the current scope."""
        flat = self._names.register(name)
        if flat is None and "." in name:
            stem, _, axis = name.rpartition(".")
            elements = self._names.vector(stem)
            if elements is not None and _AXES.get(axis, 9) < len(elements):
                flat = elements[_AXES[axis]]
        if flat is None:
            raise fail(f'"{name}" is not a declared register')
        return Register(flat)

    def _destination(self, name: str, fail: Fail) -> Register:
        return Register(SINK) if name == SINK else self.register(name, fail)

    def _name(self, name: str, fail: Fail) -> Operand:
        flat = SINK if name == SINK else self._names.register(name)
        if flat is not None:
            return Register(flat)
        if name in SPECIAL_REGISTERS:
            return SpecialRegister(name)
        elements = self._names.vector(name)
        if elements is not None:
            return Vector(tuple(Register(element) for element in elements))
        if name in {"%tid", "%ntid", "%ctaid", "%nctaid"}:
            return Vector(tuple(SpecialRegister(f"{name}.{axis}") for axis in "xyzw"))
        if (name[0] == "%" or "." in name) and self._names.symbol(name) is None:
            return self.register(name, fail)
        return self._symbol(name, 0)

    def _symbol(self, name: str, offset: int) -> Symbol:
        flat = self._names.symbol(name)
        if flat is None:
            self.used.setdefault(name, self._line_of_statement())
        return Symbol(flat or name, offset)

    def _vector(self, text: str, fail: Fail) -> Vector:
        if text[-1] != "}":
            raise fail(f"{_short(text)} is not an operand")
        inner = text[1:-1].strip()
        if not inner:
            raise fail("a vector has no elements")
        return self._elements(inner, fail)

    def _elements(self, inner: str, fail: Fail) -> Vector:
        """The elements of a vector or of an argument list: operands, or None for `_`."""
        elements: list[Operand | None] = []
        for text in split_top(inner, fail):
            if text[:1] in {"{", "!"}:
                raise fail(f"{_short(text)} is not an element of a vector")
            operand = self.operand(text, fail) if text != SINK else None
            elements.append(None if isinstance(operand, Negated) else operand)
        return Vector(tuple(elements))

    def _sum(self, text: str, fail: Fail) -> tuple[str, int]:
        match = _SUM.fullmatch(text)
        if match is None:
            raise fail(f"{_short(text)} is not an operand")
        if match[2] is None:
            return match[1], 0
        offset = literal(match[2].lstrip("+ \t")) or constant("0" + match[2])
        if offset is None or not isinstance(offset.value, int):
            raise fail(f"{_short(match[2])} is not an integer offset")
        return match[1], offset.value

    def variable(self, symbol: Symbol) -> Variable | None:
        """The declaration of a variable, by its flat name: of the function, else of the module; None for any other symbol."""
        return self._names.variables.get(symbol.name) or self._variables.get(symbol.name)

    def _offset_symbol(self, text: str, fail: Fail) -> Operand:
        """`a+4`, or `a[1]`: an element's address."""
        if indexed := _INDEXED.fullmatch(text):
            array, index = self._name(indexed[1], fail), constant(indexed[2].strip())
            declared = self.variable(array) if isinstance(array, Symbol) else None
            if declared is None or index is None or not isinstance(index.value, int):
                raise fail(f"{_short(text)} is not an element of an array")
            return Symbol(array.name, index.value * max(1, type_bits(declared.type) // 8))  # type: ignore[union-attr]
        name, offset = self._sum(text, fail)
        base = self._name(name, fail)
        if not isinstance(base, Symbol):
            raise fail(f"{_short(text)} is not an operand")
        return Symbol(base.name, offset)

    def _address(self, text: str, fail: Fail) -> Address:
        if text[-1] != "]":
            raise fail(f"{_short(text)} is not an address")
        inner = text[1:-1].strip()
        number = constant(inner) if inner[:1] in _NUMERIC else None
        if number is not None:
            if number.is_float:
                raise fail(f"{_short(text)} is not an address")
            return Address(number)
        name, offset = self._sum(inner, fail)
        base = self._name(name, fail)
        if not isinstance(base, Register | Symbol | Immediate) or base == Register(SINK):
            raise fail(f"{_short(text)} is not an address")
        return Address(base, offset)

    def _compound_address(self, text: str, fail: Fail) -> list[Operand]:
        """`[texture, {coordinates}]`: the address part and then the rest as operands of their own."""
        if text[-1] != "]":
            raise fail(f"{_short(text)} is not an address")
        first, *rest = split_top(text[1:-1], fail)
        operands: list[Operand] = [self._address(f"[{first}]", fail)]
        for piece in rest:
            operand = self.operand(piece, fail)
            if isinstance(operand, Negated):
                raise fail(f"{_short(text)} is not an address")
            operands.append(operand)
        return operands

    def call(self, text: str, fail: Fail) -> tuple[Operand, ...]:
        """Operands of a `call`: (Vector of returns, target, Vector of arguments[, prototype or list of targets])."""
        pieces = split_top(text, fail)
        returns = self._list(pieces, fail)
        if not pieces or not pieces[0] or pieces[0].startswith("("):
            raise fail("a call names no function")
        target = self.operand(pieces.pop(0), fail)
        if not isinstance(target, Symbol | Register):
            raise fail("a call's target is neither a function nor a register")
        arguments = self._list(pieces, fail)
        rest = [self.operand(piece, fail) for piece in pieces]
        if len(rest) > 1 or not all(isinstance(piece, Symbol) for piece in rest):
            raise fail("a call has too many operands")
        return (returns, target, arguments, *(piece for piece in rest if isinstance(piece, Symbol)))

    def _list(self, pieces: list[str], fail: Fail) -> Vector:
        """The list in parentheses with which `pieces` begin, taken off them; an empty one if they begin otherwise."""
        if not pieces or not pieces[0].startswith("("):
            return Vector(())
        text = pieces.pop(0)
        if text[-1] != ")":
            raise fail(f"{_short(text)} is not a list of parameters")
        inner = text[1:-1].strip()
        return self._elements(inner, fail) if inner else Vector(())


def _short(text: str) -> str:
    clean = " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text).split())
    return f'"{clean if len(clean) <= 40 else clean[:37] + "..."}"'
