"""One YAML file of a GPU description as written: keys, texts and the line of each. Only the key names are interpreted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import SpecError
from warpsight.base.yaml_nodes import AS_LINES, Composed, compose
from warpsight.gpu.keys import KEYS, SECTIONS, TEXT_KEYS
from warpsight.gpu.problems import Problems

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

SCHEMA = "1"
_START = 'start with "like: mdm-pascal", "name: ..." and the keys that differ'
_FILE = Composed("GPU description", "the YAML file of a GPU", _START, SpecError)


@dataclass(frozen=True)
class Text:
    """A value as written, and where: `file.yaml:7`."""

    text: str
    place: str


@dataclass
class Document:
    """What one file says. `settings` by key of the table, `sources` by key pattern, `texts` the rest (`name`, `like`, ...)."""

    place: str
    settings: dict[str, Text] = field(default_factory=dict)
    sources: dict[str, Text] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)


def read_document(path: Path, shown: str, problems: Problems) -> Document:
    """Reads `path`, called `shown` in messages, and records in `problems` what is wrong with its keys and form.

    Raises SpecError when it cannot be read as a mapping at all: missing, not text, not YAML, empty.
    """
    reader = _Reader(Document(shown), problems)
    reader.read(compose(path, shown, _FILE))
    document = reader.document
    schema = document.texts.get("schema", Text(SCHEMA, shown))
    if schema.text != SCHEMA:
        problems.add(f'schema "{schema.text}" is not known', place=schema.place, remedy=f"this version reads schema {SCHEMA}")
    return document


class _Reader:
    """Walks the nodes of one file."""

    def __init__(self, document: Document, problems: Problems) -> None:
        self.document, self.problems = document, problems
        self.seen: set[str] = set()

    def read(self, root: Any) -> None:
        """The top level."""
        for name, node, place in self.entries(root, ""):
            if name == "sources":
                self.read_sources(node, place)
            elif name in SECTIONS:
                self.read_section(name, node, place)
            elif name in KEYS:
                self.keep(self.document.settings, name, node, place)
            elif name in TEXT_KEYS:
                self.keep(self.document.texts, name, node, place)
            else:
                self.problems.unknown_key(name, place)

    def entries(self, node: Any, prefix: str) -> Iterator[tuple[str, Node, str]]:
        """Full key, value node and place of each entry of a mapping; a key met twice is recorded and dropped."""
        for key, value in node.value:
            place = f"{self.document.place}:{key.start_mark.line + 1}"
            if key.id != "scalar":
                self.problems.add("a key is not a word", place=place, remedy=AS_LINES)
                continue
            name = f"{prefix}{key.value}"
            if name in self.seen:
                shown = name.removeprefix("sources:")
                self.problems.add(f"{shown} is given twice; which one is meant?", place=place, remedy="remove one of the two")
                continue
            self.seen.add(name)
            yield name, value, place

    def read_section(self, section: str, node: Any, place: str) -> None:
        """The keys of a section such as `l1`."""
        if node.id != "mapping":
            example = next(key for key in KEYS if key.startswith(f"{section}.")).partition(".")[2]
            self.problems.add(f"{section} is a section, not a value", place=place, remedy=f"write `{section}: {{{example}: ...}}`")
            return
        for name, value, line in self.entries(node, f"{section}."):
            if name in KEYS:
                self.keep(self.document.settings, name, value, line)
            else:
                self.problems.unknown_key(name, line)

    def read_sources(self, node: Any, place: str) -> None:
        """`sources`: a mapping of key pattern to text; one text alone stands for every key."""
        if node.id == "scalar":
            self.keep(self.document.sources, "*", node, place)
        elif node.id == "mapping":
            for name, value, line in self.entries(node, "sources:"):
                self.keep(self.document.sources, name.removeprefix("sources:"), value, line)
        else:
            self.problems.add("sources is a list", place=place, remedy='write `sources: {"l1.*": "data sheet", ...}`')

    def keep(self, into: dict[str, Text], name: str, node: Any, place: str) -> None:
        """Keeps a scalar."""
        if node.id != "scalar":
            self.problems.add(f"{name} has more than one value", place=place, remedy="write one value")
        elif node.tag.endswith(":null") or not node.value.strip():
            self.problems.add(f"{name} has no value", place=place, remedy="write one, or remove the line")
        else:
            into[name] = Text(node.value.strip(), place)
