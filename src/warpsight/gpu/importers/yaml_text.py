"""An imported GPU as the YAML that `load_gpu` reads, with what was not carried over as comments."""

from __future__ import annotations

import json
from dataclasses import dataclass

from warpsight.gpu.document import SCHEMA
from warpsight.gpu.keys import KEYS
from warpsight.gpu.values import Value, value_text


@dataclass(frozen=True)
class Imported:
    """A description to be written: `values` in the order of the key table, each with its source; `notes` on what is not in it.

    `like` is the GPU that gives the rest, empty where the values are all.
    """

    name: str
    description: str
    files: tuple[str, ...]
    values: dict[str, Value]
    notes: tuple[str, ...]
    like: str = ""


def made_yaml(made: Imported) -> str:
    """The file: what it does not say as comments, then texts, sections, and a source for every value that has one."""
    lines = [f"# {made.description}", "#", "# Not in the description, or not as it stands there:"]
    lines += [f"# - {' '.join(note.split())}" for note in made.notes]
    lines += [f"schema: {SCHEMA}", *([f"like: {_quoted(made.like)}"] if made.like else []), f"name: {_quoted(made.name)}",
              f"description: {_quoted(made.description)}"]  # fmt: skip
    section = ""
    ordered = [key for key in KEYS if key in made.values]
    # keys without a section first, and a section's keys together, though the key table lists some of them apart
    sections = list(dict.fromkeys(key.rpartition(".")[0] for key in ordered))
    for key in sorted(ordered, key=lambda key: sections.index(key.rpartition(".")[0])):
        owner, _, last = key.rpartition(".")
        if owner != section:
            lines.append(f"{owner}:")
            section = owner
        lines.append(f"{'  ' if owner else ''}{last}: {value_text(key, made.values[key].content)}")
    lines.append("sources:")
    lines += [f"  {key}: {_quoted(made.values[key].source)}" for key in ordered if made.values[key].source]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A string that means the same in JSON and YAML."""
    return json.dumps(text)
