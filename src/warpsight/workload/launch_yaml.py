"""The YAML of a launch file, with the line of every key. Every scalar stays text: what it means is decided where it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpsight.base.errors import FormatError, UsageError

_DEPTH = 2
_QUOTE = "quote texts that have brackets or commas: args: ['f32[1024]:uniform']"


def _value(node: Any, path: str, depth: int = 0) -> Any:
    from ruamel.yaml.nodes import ScalarNode, SequenceNode

    if isinstance(node, ScalarNode):
        return None if node.tag == "tag:yaml.org,2002:null" else str(node.value)
    if isinstance(node, SequenceNode):
        if depth == _DEPTH:  # aliases can make a short text endless
            what = f"lists are {depth} deep here, and no key takes a deeper one"
            raise UsageError(what, place=f"{path}:{node.start_mark.line + 1}", remedy=_QUOTE)
        return [_value(item, path, depth + 1) for item in node.value]
    raise UsageError("a mapping is not expected here", place=f"{path}:{node.start_mark.line + 1}", remedy=_QUOTE)


def read_yaml(path: str, *, needs: str = "a launch needs source, grid, block") -> tuple[dict[str, Any], dict[str, int]]:
    """The values (texts, lists of texts, None) and the line of each key; `needs` is the remedy for an empty file.

    Raises FormatError for what is not YAML, UsageError for a duplicate key or a value that is a mapping, with file and line.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.nodes import MappingNode

    try:
        root = YAML(typ="safe", pure=True).compose(Path(path).read_text(encoding="utf-8"))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise FormatError(f"is not YAML: {error.problem}", place=f"{path}:{line}", remedy=_QUOTE) from error
    except (YAMLError, UnicodeDecodeError, OSError) as error:
        raise FormatError(f"is not YAML: {str(error).splitlines()[0]}", place=path, remedy=_QUOTE) from error
    except RecursionError as error:
        raise FormatError("is not a launch: its lists are too deep to read", place=path, remedy=_QUOTE) from error
    if root is None:
        raise FormatError("is empty", place=path, remedy=needs)
    if not isinstance(root, MappingNode):
        raise FormatError("has no keys", place=f"{path}:{root.start_mark.line + 1}", remedy="write e.g. source: k.cu")
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in root.value:
        key, line = str(key_node.value), key_node.start_mark.line + 1
        if key in lines:
            raise UsageError(f"{key} is given twice, first in line {lines[key]}", place=f"{path}:{line}", remedy="keep one of them")
        values[key], lines[key] = _value(value_node, path), line
    return values, lines
