"""A GPU as data for people and files: the resolved description, its hash, rows for listings, and its YAML, imported or not."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warpsight.gpu.catalog import catalog_names
from warpsight.gpu.document import GIVEN_IN_PYTHON, SCHEMA, Value, value_text
from warpsight.gpu.keys import key_of
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import KEYS, Content, GpuSpec
from warpsight.gpu.steps import BY_REFERENCE, order_timing, timing_of


@dataclass(frozen=True)
class KeyRow:
    """One key of a GPU: its value as a file writes it, where the number comes from (empty for a word), what it means."""

    key: str
    value: str
    source: str
    meaning: str


@dataclass(frozen=True)
class GpuSummary:
    """One line of the catalogue."""

    name: str
    description: str


def list_gpus() -> list[GpuSummary]:
    """The catalogue, by name."""
    return [GpuSummary(spec.name, spec.description) for spec in map(load_gpu, catalog_names())]


def describe(spec: GpuSpec) -> list[KeyRow]:
    """Every key of a GPU, in the order of the table, then the models' parameters that it states."""
    values = spec.by_key.items()
    return [KeyRow(name, value_text(name, content), _source(spec, name), key_of(name).meaning) for name, content in values]


def _source(spec: GpuSpec, name: str) -> str:
    return spec.sources.get(name, GIVEN_IN_PYTHON if key_of(name).numeric else "")


def resolved(spec: GpuSpec) -> dict[str, Any]:
    """Every value, inherited and default ones included, in the shape of the YAML: quantities as text with unit, counts as int.

    Plain JSON types. This is what results keep of the GPU they are for. `like` names the GPU whose timing orders the accesses.
    """
    document: dict[str, Any] = {"schema": int(SCHEMA), "name": spec.name}
    reference = spec.reference
    if reference is not None and (reference.like in catalog_names() or reference.timing != timing_of(spec)):
        document["like"] = reference.like
    if spec.description:
        document["description"] = spec.description
    values = spec.by_key
    document |= _nested(values)
    document["sources"] = {name: source for name in values if (source := _source(spec, name))}
    return document


def _nested(values: Mapping[str, Content]) -> dict[str, Any]:
    """Values by key as text, by section."""
    document: dict[str, Any] = {}
    for name, content in values.items():
        text = value_text(name, content)
        section, _, last = name.rpartition(".")
        part = document.setdefault(section, {}) if section else document
        part[last] = content if isinstance(content, bool) else int(text) if text.isdecimal() else text
    return document


def spec_hash(spec: GpuSpec) -> str:
    """SHA-256 (64 hexadecimal digits) of what a model computes with: every value and the timing that orders accesses, not texts."""
    return hashlib.sha256(json.dumps([_nested(spec.by_key), order_document(spec)], sort_keys=True).encode()).hexdigest()


def order_document(spec: GpuSpec, order: str = BY_REFERENCE) -> dict[str, str]:
    """The timing by which the accesses of `spec` are ordered, by key, as a file writes it."""
    return {name: value_text(name, value) for name, value in order_timing(spec, order).items()}


def dump_yaml(spec: GpuSpec) -> str:
    """YAML that `load_gpu` turns back into an equal spec, when `spec` came from `load_gpu`."""
    from ruamel.yaml import YAML

    yaml, out = YAML(pure=True), io.StringIO()
    yaml.width = 4096
    yaml.dump(resolved(spec), out)
    return out.getvalue()


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
    lines = [f"# {made.description}", "#", "# Not carried over, or changed:"]
    lines += [f"# - {' '.join(note.split())}" for note in made.notes]
    lines += [f"schema: {SCHEMA}", *([f"like: {_quoted(made.like)}"] if made.like else []), f"name: {_quoted(made.name)}",
              f"description: {_quoted(made.description)}"]  # fmt: skip
    ordered = [*(key for key in KEYS if key in made.values), *(key for key in made.values if key not in KEYS)]
    # a section's keys together, though the key table lists some of them apart; those without a section stand first there
    for section in dict.fromkeys(key.rpartition(".")[0] for key in ordered):
        lines += [f"{section}:"] if section else []
        for key in (key for key in ordered if key.rpartition(".")[0] == section):
            lines.append(f"{'  ' if section else ''}{key.rpartition('.')[2]}: {value_text(key, made.values[key].content)}")
    lines.append("sources:")
    lines += [f"  {key}: {_quoted(made.values[key].source)}" for key in ordered if made.values[key].source]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A string that means the same in JSON and YAML."""
    return json.dumps(text)
