"""An imported GPU as the YAML that `load_gpu` reads, with what was not carried over as comments."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from warpsight.gpu.document import SCHEMA
from warpsight.gpu.keys import KEYS
from warpsight.gpu.values import Value, value_text


def description_yaml(name: str, description: str, values: Mapping[str, Value], comments: Iterable[str], like: str = "") -> str:
    """The file: comments, texts, sections, and a source for every value that has one. `like`: the GPU that it inherits from."""
    lines = [f"# {' '.join(comment.split())}".rstrip() for comment in comments]
    lines += [f"schema: {SCHEMA}", *([f"like: {json.dumps(like)}"] if like else []), f"name: {_quoted(name)}",
              f"description: {_quoted(description)}"]  # fmt: skip
    section = ""
    for key in (key for key in KEYS if key in values):
        owner, _, last = key.rpartition(".")
        if owner != section:
            lines += [f"{owner}:"] * bool(owner)
            section = owner
        lines.append(f"{'  ' if owner else ''}{last}: {value_text(key, values[key].content)}")
    lines.append("sources:")
    lines += [f"  {key}: {_quoted(values[key].source)}" for key in KEYS if key in values and values[key].source]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A string that means the same in JSON and YAML."""
    return json.dumps(text, ensure_ascii=False)
