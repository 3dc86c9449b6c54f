"""The user's own rows of the table of native opcodes, from a YAML file (`--isa-file`)."""

from __future__ import annotations

from pathlib import Path

from warpsight.base.errors import UsageError
from warpsight.base.yaml_nodes import Composed, YamlNode, compose
from warpsight.isa.opcodes import OP_CLASSES
from warpsight.isa.sass.semantics import SassTable
from warpsight.isa.sass.table import SassOpcode

_KIND = Composed("file of opcodes", "a file of opcodes", "write e.g. `IMAD.FOO: {class: int}`", UsageError)
_MOST_DIGITS = 9
_KEYS = ("class", "space", "access", "what")
_SPACES = ("global", "shared", "local", "generic", "const")
_ACCESSES = ("load", "store", "atomic")


def read_isa_file(path: str | Path | None) -> SassTable:
    """The table with the rows of the file at `path` before its own; the plain table for None.

    An entry is ``PREFIX: CLASS`` or ``PREFIX: {class: CLASS, space: SPACE, access: ACCESS, what: TEXT}``. For tools that number
    opcodes it is ``NUMBER: OPCODE``, or a number in place of the prefix. Raises UsageError, with file and line, for anything else.
    """
    if path is None:
        return SassTable()
    root = YamlNode(compose(Path(path), str(path), _KIND), "file", str(path))
    rows, numbers = {}, {}
    for name, node in root.entries().items():
        if name.isdecimal() and len(name) <= _MOST_DIGITS:
            numbers[int(name)] = opcode = _numbered(int(name), node)
            if opcode == unnamed(int(name)):
                rows[opcode] = _row(opcode, node)
            continue
        if not name.replace(".", "").replace("_", "").isalnum() or name != name.upper():
            node.refuse(f'"{name}" is no opcode', "write it in capital letters, as a trace does: IMAD.WIDE")
        rows[name] = _row(name, node)
    return SassTable(rows, numbers)


def unnamed(number: int) -> str:
    """What an opcode is called of which only the number is known."""
    return f"OP{number}"


def _numbered(number: int, node: YamlNode) -> str:
    """The opcode that stands for a number, or `unnamed` where what it is follows."""
    text = "" if node.is_mapping else node.text()
    if text in OP_CLASSES or not text:
        return unnamed(number)
    if not text[:1].isalpha() or not text.replace(".", "").replace("_", "").isalnum():
        node.refuse(f'"{text}" is neither an opcode nor a class', "write e.g. `12: LDG.E`, or `12: int`")
    return text


def _row(name: str, node: YamlNode) -> SassOpcode:
    if not node.is_mapping:
        return SassOpcode(name, node.one_of(OP_CLASSES), "", "", "from the file of opcodes")
    entries = node.entries(_KEYS)
    if "class" not in entries:
        node.refuse(f"{name} has no class", f"write class: one of {', '.join(OP_CLASSES)}")
    space = entries["space"].one_of(_SPACES) if "space" in entries else ""
    access = entries["access"].one_of(_ACCESSES) if "access" in entries else ""
    if bool(space) != bool(access):
        node.refuse(f"{name} has only one of space and access", "give both, or neither")
    what = entries["what"].text() if "what" in entries else "from the file of opcodes"
    return SassOpcode(name, entries["class"].one_of(OP_CLASSES), space, access, what)
