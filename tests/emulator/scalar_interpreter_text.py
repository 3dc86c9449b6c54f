"""Reads the PTX that the random kernels are made of. Written apart from the product's parser, with which it shares nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

WIDTHS = {"pred": 1, **{f"{kind}{bits}": bits for kind in "usbf" for bits in (8, 16, 32, 64)}}

_STATEMENT = re.compile(r"\s*([\w$]+)\s*:|\s*([{}])|\s*([^;{}]+);")
_GUARD = re.compile(r"@(!?)(%\w+)\s+")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.+)")
_SHARED = re.compile(r"\.shared\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(\w+)\s*\[\s*(\d+)\s*\]")
_ENTRY = re.compile(r"\.entry\s+(\w+)\s*\(([^)]*)\)[^{]*\{")


@dataclass(frozen=True)
class Operand:
    """What an instruction names: `kind` is register, special, integer, float, address, symbol or vector."""

    kind: str
    name: str = ""
    value: int = 0
    elements: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Step:
    """One instruction."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str
    negated: bool
    text: str


@dataclass
class Code:
    """One kernel: its parameters as (name, bytes), steps, labels, register widths and shared arrays by offset."""

    name: str
    parameters: list[tuple[str, int]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0

    def width(self, register: str) -> int:
        """Bits of a register, numbered ones by their declared stem. Raises KeyError if it was never declared."""
        if register in self.widths:
            return self.widths[register]
        return self.widths[register.rstrip("0123456789") + "<>"]


def read_kernel(text: str, name: str) -> Code:
    """Parse kernel `name` of a PTX module. Raises ValueError on anything that is not understood."""
    text = re.sub(r"/\*.*?\*/", " ", re.sub(r"//[^\n]*", "", text), flags=re.S)
    # A vector {a, b} becomes <a b>, so that braces only open scopes and commas only part operands.
    text = re.sub(r"\{([^{};]*)\}", lambda vector: f"<{vector.group(1).replace(',', ' ')}>", text)
    entry = next((m for m in _ENTRY.finditer(text) if m.group(1) == name), None)
    if entry is None:
        raise ValueError(f"no kernel {name}")
    code = Code(name)
    for parameter in filter(None, (part.strip() for part in entry.group(2).split(","))):
        kind, label = re.fullmatch(r"\.param\s+\.(\w+)\s+(\w+)", parameter).groups()  # type: ignore[union-attr]
        code.parameters.append((label, WIDTHS[kind] // 8))
    at, depth = entry.end(), 1
    while depth:
        match = _STATEMENT.match(text, at)
        if match is None:
            raise ValueError(f"cannot read {text[at : at + 40]!r}")
        at = match.end()
        label, brace, statement = match.groups()
        if label:
            code.labels[label] = len(code.steps)
        elif brace:
            depth += 1 if brace == "{" else -1
        else:
            _take(code, statement.strip())
    return code


def _take(code: Code, statement: str) -> None:
    if declared := _REGISTERS.fullmatch(statement):
        for name in declared.group(2).split(","):
            code.widths[re.sub(r"<\d+>", "<>", name.strip())] = WIDTHS[declared.group(1)]
    elif array := _SHARED.fullmatch(statement):
        code.shared[array.group(2)] = code.shared_bytes
        code.shared_bytes += -(-int(array.group(3)) * WIDTHS[array.group(1)] // 64) * 8
    elif statement.startswith("."):
        raise ValueError(f"unknown directive {statement!r}")
    else:
        code.steps.append(_step(statement))


def _step(statement: str) -> Step:
    guard, negated, rest = "", False, statement
    if match := _GUARD.match(statement):
        guard, negated, rest = match.group(2), bool(match.group(1)), statement[match.end() :]
    word, _, tail = rest.partition(" ")
    opcode, *modifiers = word.split(".")
    operands = tuple(operand(part.strip()) for part in re.split(r"[,|]", tail) if part.strip())
    return Step(opcode, tuple(modifiers), operands, guard, negated, statement)


def operand(text: str) -> Operand:
    """One operand. `a|b` has been split by the caller. Raises ValueError if it is none."""
    if text.startswith("<"):
        return Operand("vector", elements=tuple(operand(part) for part in text.strip("<>").split()))
    if text.startswith("["):
        base, _, offset = text.strip("[] ").partition("+")
        return Operand("address", base.strip(), int(offset or "0", 0))
    if re.fullmatch(r"%(n?tid|n?ctaid)\.[xyz]|%laneid", text):
        return Operand("special", text)
    if text.startswith(("%", "!%")):
        return Operand("register", text)
    if match := re.fullmatch(r"0[fd]([0-9a-fA-F]+)", text):
        return Operand("float", value=int(match.group(1), 16))
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)U?", text):
        return Operand("integer", value=int(text.rstrip("U"), 0))
    if re.fullmatch(r"[\w$]+", text):
        return Operand("symbol", text)
    raise ValueError(f"cannot read operand {text!r}")
