"""A disassembler's listing of machine code: instructions with their 128-bit encodings, labels and functions.

The text is that of `nvdisasm -c -hex -gp` (NVIDIA CUDA Binary Utilities, "nvdisasm"): an instruction has its address within its
section, its mnemonic and operands, and the two halves of its encoding on its own line and the next; a comment before it names the
line of the PTX text that it was made from, and with `-gi` one the line of the source and those of the calls that it is part of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from warpsight.base.errors import FormatError, UnsupportedError
from warpsight.isa.ptx.program import ExpandedCall

_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s\"]+|\"[^\"]+\"),")
_LABEL = re.compile(r"^([^\s:/][^\s:]*):\s*$")
_PTX_TEXT = ".nv_debug_ptx_txt"
_SOURCE_LINE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+([^;]*);\s*(?:/\* 0x([0-9a-f]{16}) \*/)?\s*$")
_UPPER_HALF = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/\s*$")
_FAR = " " * 40  # no instruction begins there
_TARGETS = re.compile(r'\(\*"BRANCH_TARGETS ([^"]*)"\*\)')
_REMARK = re.compile(r'\(\*"[^"]*"\*\)')  # of the disassembler, as (*"SpillRefill"*)
_BRACKET = re.compile(r"[\[({]")
_RELATIVE = re.compile(r"^U?R\d+ \S")
SourceLine = tuple[str, int, tuple[ExpandedCall, ...]]  # file, line, and the expanded calls around it
NO_LINE: SourceLine = ("", 0, ())
AT_LEVEL_PTX = "use `level='ptx'`"  # the remedy for machine code that is not modelled
_GUARD = re.compile(r"^@(!?)(U?P(?:\d|T))\s+(.*)$")


@dataclass(frozen=True, slots=True)
class ListedInstruction:
    """One line. `address` is the byte offset in its section, `guard` a predicate (`!P0`) or "", `mnemonic` the dotted opcode.

    `operands` are separate texts. `targets` are the labels of an indexed branch. `encoding` has 128 bits, 0 if it was not listed;
    `ptx_line` is 0 where no line is known, `source` None.
    """

    address: int
    guard: str
    mnemonic: str
    operands: tuple[str, ...]
    targets: tuple[str, ...]
    encoding: int
    ptx_line: int
    source: SourceLine | None = None

    @property
    def text(self) -> str:
        """The instruction in one line, `@!P0 LDG.E R2, [R4.64]`."""
        guard = f"@{self.guard} " if self.guard else ""
        return f"{guard}{self.mnemonic} {', '.join(self.operands)}".rstrip()

    def refused(self, section: str, what: str) -> UnsupportedError:
        """The error for an instruction of `section` (with the path) that is not understood."""
        line = f"{self.source[0]}:{self.source[1]}" if self.source else f"PTX line {self.ptx_line}" if self.ptx_line else ""
        place = f"{section}+{self.address:#x}" + (f" ({line})" if line else "")
        return UnsupportedError(what, place=place, remedy=AT_LEVEL_PTX)


# What reading the operands of an instruction raises that has others, or fewer, than it should have: of a damaged file, or of a form
# that nobody has seen.
MISSHAPEN = (ValueError, LookupError, TypeError, AttributeError, AssertionError, StopIteration)


@dataclass
class ListedSection:
    """The code of one section, that of a kernel or of a function: `labels` and `functions` are addresses by name."""

    name: str
    instructions: list[ListedInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)


def split_operands(text: str) -> tuple[str, ...]:
    """The operands of an instruction: separated by commas, but not by those within brackets."""
    if not _BRACKET.search(text):
        return tuple(filter(None, (piece.strip() for part in text.split(",") for piece in _pieces(part.strip()))))
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "[({":
            depth += 1
        elif letter in "])}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    last = text[start:].strip()
    parts += [last] if last else []
    return tuple(piece for part in parts for piece in _pieces(part))


def _pieces(part: str) -> list[str]:
    """A branch or call by register has the place that the register counts from behind it: ``RET.REL.NODEC R20 `(kernel)``."""
    return part.split(" ", 1) if " " in part and _RELATIVE.match(part) else [part]


def _instruction(match: re.Match[str], following: str, ptx_line: int, source: SourceLine | None) -> ListedInstruction:
    """The instruction of a line; the line behind it has the upper half of its encoding."""
    address, text, lower = match.groups()
    text = text.strip()
    targets: tuple[str, ...] = ()
    if listed := _TARGETS.search(text):
        targets = tuple(listed[1].split(","))
        text = text[: listed.start()].strip()
    if "(*" in text:
        text = _REMARK.sub("", text).strip()
    guard = ""
    if guarded := _GUARD.match(text):
        guard, text = guarded[1] + guarded[2], guarded[3]
    mnemonic, _, rest = text.strip().partition(" ")
    upper = _UPPER_HALF.match(following)
    encoding = int(lower or "0", 16) | (int(upper[1], 16) << 64 if upper else 0)
    return ListedInstruction(int(address, 16), guard, mnemonic, split_operands(rest), targets, encoding, ptx_line, source)


def read_listing(text: str, place: str, ptx_lines: int | None = None) -> dict[str, ListedSection]:
    """The sections of a listing by name. If the PTX text is known to have `ptx_lines`, lines behind its end are left out.

    Raises FormatError, with the line, for what it does not recognize.
    """
    sections: dict[str, ListedSection] = {}
    section: ListedSection | None = None
    functions: set[str] = set()
    ptx_line = 0
    source: SourceLine | None = None  # goes on in the next section if that begins with the same line
    is_call = False  # the line before names a place that is inlined: this one says where
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith(_FAR) and _UPPER_HALF.match(line):
            continue
        if section is not None and (match := _INSTRUCTION.match(line)):
            following = lines[number] if number < len(lines) else ""
            known = ptx_line if ptx_lines is None or ptx_line <= ptx_lines else 0
            section.instructions.append(_instruction(match, following, known, source if ptx_line else None))
        elif match := _SECTION.match(line):
            name = match[1].strip('"')
            section, functions, ptx_line = sections.setdefault(name, ListedSection(name)), set(), 0
        elif section is None or not line.strip():
            continue
        elif match := _SOURCE_LINE.match(line):
            is_ptx = match[1].startswith(_PTX_TEXT)
            ptx_line, source = (int(match[2]), source) if is_ptx else (ptx_line, _source_line(match, source if is_call else None))
            is_call = match[3] is not None
        elif match := _LABEL.match(line):
            name, address = match[1], _next_address(section)
            section.labels[name] = address
            if name in functions:
                section.functions[name] = address
        elif line.lstrip().startswith(".type") and "@function" in line:
            functions.add(line.split()[1].rstrip(",").partition(",")[0])
        elif line.startswith("//-----") and "SYMBOLS" in line:
            section = None
        elif line.lstrip().startswith((".", "//")):
            continue
        else:
            raise FormatError(f"line {number} of the disassembler's listing is not recognized: {line.strip()}", place=place)
    return sections


def _source_line(match: re.Match[str], innermost: SourceLine | None) -> SourceLine:
    """The place of a comment. One that follows a place that is inlined, `innermost`, is where that is called."""
    file, line, calls = innermost or (match[1], int(match[2]), ())
    return file, line, calls if match[3] is None else (*calls, ExpandedCall("", match[3], int(match[4])))


def _next_address(section: ListedSection) -> int:
    return section.instructions[-1].address + 16 if section.instructions else 0
