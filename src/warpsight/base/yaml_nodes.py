"""YAML files that people write: read as nodes, so that every message has the line, and every scalar stays the text that it is."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from warpsight.base.errors import UsageError, WarpsightError, suggestion
from warpsight.base.inputs import read_input

AS_LINES = "write `key: value` lines"
_LARGEST = 1 << 18
_MOST_NODES = _LARGEST  # which no file without aliases has


@dataclass(frozen=True)
class Composed:
    """What a kind of file is called in messages, what to give in its place, how to start one, and which error tells of it."""

    what: str
    give: str
    start: str
    error: type[WarpsightError]


@lru_cache(maxsize=16)
def _root(text: str) -> Any:
    """The root node of a text, which nobody changes: descriptions of GPUs are read again and again."""
    from ruamel import yaml  # a part of a namespace package, which lazy_loader cannot load

    with warnings.catch_warnings():
        # YAML allows it: an alias means the last anchor of its name.
        warnings.simplefilter("ignore", yaml.error.ReusedAnchorWarning)
        return yaml.YAML(typ="safe", pure=True).compose(text)


def compose(path: Path, shown: str, kind: Composed) -> Any:
    """The root mapping of a file, called `shown` in messages, as a node of ruamel.yaml with the line of every node under it.

    Raises `kind.error`: missing, too large, not text, not YAML, empty, no mapping.
    """
    from ruamel import yaml  # as above

    try:
        if path.is_file() and path.stat().st_size > _LARGEST:
            raise kind.error(f"is larger than any {kind.what}", place=shown, remedy=f"give {kind.give}")
        data = read_input(path, _LARGEST)
        root = _root(data.decode("utf-8-sig"))
    except OSError as error:
        raise kind.error(f"cannot be read: {error.strerror}", place=shown, remedy="check the path") from None
    except UnicodeDecodeError:
        raise kind.error("is not UTF-8 text", place=shown, remedy="give a YAML file") from None
    except ValueError as error:
        raise kind.error(f"cannot be read: {error}", place=shown, remedy="check the path") from None
    except yaml.error.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{shown}:{mark.line + 1}" if mark else shown
        raise kind.error(f"is not YAML: {error.problem or error.context}", place=place, remedy="correct the syntax") from None
    except RecursionError:
        raise kind.error("its lists are nested too deeply", place=shown, remedy="correct the syntax") from None
    except yaml.error.YAMLError as error:
        raise kind.error(f"is not YAML: {str(error).splitlines()[0]}", place=shown, remedy="correct the syntax") from None
    if root is None:
        raise kind.error("is empty", place=shown, remedy=kind.start)
    if root.id != "mapping":
        raise kind.error("is not a mapping of keys to values", place=f"{shown}:{root.start_mark.line + 1}", remedy=AS_LINES)
    return root


class YamlNode:
    """A node of a composed file, read as what it should be. `name` is the key that it belongs to, `place` is `file:line`.

    Every reading raises UsageError at that place for what it is not.
    """

    def __init__(self, node: Any, name: str, shown: str, line: int | None = None, budget: Iterator[int] | None = None) -> None:
        self._node, self._shown, self.name = node, shown, name
        self.place = f"{shown}:{line or node.start_mark.line + 1}"
        # Aliases can make a short text endless: what has been looked at is counted.
        self._budget = iter(range(_MOST_NODES)) if budget is None else budget
        if next(self._budget, None) is None:
            self.refuse(f"the file has more than {_MOST_NODES:,} values", "leave out aliases that repeat each other")

    def refuse(self, what: str, remedy: str = "") -> NoReturn:
        """Raise UsageError at this node."""
        raise UsageError(what, place=self.place, remedy=remedy)

    @property
    def is_list(self) -> bool:
        """A sequence of nodes."""
        return bool(self._node.id == "sequence")

    @property
    def is_mapping(self) -> bool:
        """Keys and values."""
        return bool(self._node.id == "mapping")

    def text(self) -> str:
        """The scalar as written, without blanks around it."""
        if self._node.id != "scalar":
            self.refuse(f"{self.name} has more than one value", "write one value")
        text = str(self._node.value).strip()
        if self._node.tag.endswith(":null") or not text:
            self.refuse(f"{self.name} has no value", "write one, or remove the line")
        return text

    def whole(self, least: int, most: int = 2**63 - 1) -> int:
        """A whole number of `least` to `most`; underscores separate digits."""
        text = self.text()
        if not re.fullmatch(r"\d[\d_]{0,30}", text, re.ASCII) or not least <= int(text.replace("_", "")) <= most:
            self.refuse(f'{self.name} is "{text[:60]}", not a whole number of {least:,} to {most:,}', f"write {self.name}: {least}")
        return int(text.replace("_", ""))

    def flag(self) -> bool:
        """`true` or `false`."""
        text = self.text()
        if text.lower() not in ("true", "false"):
            self.refuse(f'{self.name} is "{text[:60]}", neither true nor false', f"write {self.name}: true")
        return text.lower() == "true"

    def one_of(self, words: Sequence[str]) -> str:
        """One of `words`."""
        text = self.text()
        if text not in words:
            self.refuse(f'{self.name}: "{text}" is not known{suggestion(text, words)}', f"known: {', '.join(words)}")
        return text

    def items(self) -> Iterator[YamlNode]:
        """The elements of a list."""
        if not self.is_list:
            self.refuse(f"{self.name} is not a list", f"write {self.name}: [..., ...]")
        for item in self._node.value:
            yield YamlNode(item, self.name, self._shown, budget=self._budget)

    def entries(self, known: Sequence[str] | None = None) -> Mapping[str, YamlNode]:
        """The entries of a mapping, in order; where `known` is given, of these keys alone. A key given twice is refused."""
        if not self.is_mapping:
            self.refuse(f"{self.name} is not a mapping", AS_LINES)
        entries: dict[str, YamlNode] = {}
        for key, value in self._node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                raise UsageError("a key is not a word", place=f"{self._shown}:{line}", remedy=AS_LINES)
            node = YamlNode(value, str(key.value), self._shown, line, self._budget)
            if node.name in entries:
                node.refuse(f"{node.name} is given twice; which one is meant?", "remove one of the two")
            if known is not None and node.name not in known:
                node.refuse(f"{node.name} is not a known key{suggestion(node.name, known)}", f"known here: {', '.join(known)}")
            entries[node.name] = node
        return entries
