"""From a name, a file or a spec, and `--set` overrides, to a checked `GpuSpec`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.base.errors import SpecError, UsageError, suggestion
from warpsight.gpu.catalog import catalog_names, catalog_path
from warpsight.gpu.document import Document, Text, Value, check_geometry, parse_value, read_document, read_spec, read_values
from warpsight.gpu.keys import KEYS, ORDER, WORD, Key, Problems
from warpsight.gpu.spec import CacheSpec, DramSpec, DvfsSpec, GpuSpec, MwpSpec, NocSpec, OrderSpec, SmSpec

OVERRIDE_SOURCE = "set by the user (--set)"

Gpu = str | os.PathLike[str] | GpuSpec


@dataclass
class _Draft:
    """A GPU before it is complete. A value is None where the text was refused, so that it is not called missing as well."""

    name: str
    description: str
    place: str
    values: dict[str, Value | None]


def load_gpu(gpu: Gpu, overrides: Sequence[str] = ()) -> GpuSpec:
    """The GPU of a catalogue name, a YAML file or a spec, with `overrides` (`l1.ways=4`, `noc.bandwidth=525GB/s`) applied together.

    A name of the catalogue wins over a file of that name. In the result every number has its source in `sources`, by key.
    Raises SpecError (`file:line`, key, remedy) for a description or an override that is wrong, UsageError for a name that is none.
    """
    problems = Problems()
    spec = _load(gpu, overrides, problems)
    problems.raise_first()
    assert spec is not None
    return spec


def check_gpu(gpu: Gpu, overrides: Sequence[str] = ()) -> list[SpecError]:
    """Everything that is wrong with a description, empty when `load_gpu` takes it. Raises UsageError for a name that is none."""
    problems = Problems()
    try:
        _load(gpu, overrides, problems)
    except SpecError as error:
        problems.append(error)
    return list(problems)


def _load(gpu: Gpu, overrides: Sequence[str], problems: Problems) -> GpuSpec | None:
    """The spec, or None when `problems` were found."""
    if isinstance(gpu, GpuSpec):
        draft = _Draft(gpu.name, gpu.description, f"GpuSpec {gpu.name}", read_spec(gpu))
    else:
        path, shown = _locate(os.fspath(gpu), Path())
        draft = _read(path, shown, (), problems)
    _hold_order(draft)
    _override(draft, overrides, problems)
    values = _complete(draft, problems)
    if not problems:
        check_geometry(values, problems)
    return None if problems else _build(draft, values)


def _locate(gpu: str, folder: Path, place: str = "") -> tuple[Path, str]:
    """The file of a catalogue name or a path (relative to `folder`), and what to call it. UsageError when it is neither."""
    known = catalog_path(gpu)
    if known is not None:
        return known, known.name
    path = folder / gpu
    if gpu and path.exists():
        return path, str(path)
    what = f'"{gpu}" is neither a GPU of the catalogue nor a file{suggestion(gpu, catalog_names())}'
    raise UsageError(what, place=place, remedy=f"the catalogue has: {', '.join(catalog_names())}")


def _read(path: Path, shown: str, chain: tuple[tuple[Path, str], ...], problems: Problems) -> _Draft:
    """One file on top of those that it is `like`."""
    chain = (*chain, (path.resolve(), shown))
    document = read_document(path, shown, problems)
    own = read_values(document, problems)
    like = document.texts.get("like")
    base: dict[str, Value | None] = {}
    if like is not None:
        parent, parent_shown = _locate(like.text, path.parent, like.place)
        if parent.resolve() in [link for link, _ in chain]:
            circle = " -> ".join([*(link for _, link in chain), parent_shown])
            raise SpecError(f"like goes in a circle: {circle}", place=like.place, remedy="let one of them name no other")
        base = _read(parent, parent_shown, chain, problems).values
    description = _text(document, "description", f"like {like.text}" if like else "")
    return _Draft(_name(document, path, problems), description, shown, base | own)


def _text(document: Document, key: str, default: str) -> str:
    """A text of the file on one line."""
    return " ".join(document.texts[key].text.split()) if key in document.texts else default


def _name(document: Document, path: Path, problems: Problems) -> str:
    """The GPU's name: the file's own without its extension unless the file says another."""
    name = _text(document, "name", path.stem)
    if not name.isprintable():
        problems.add("name has characters that cannot be printed", place=document.texts["name"].place, remedy="write a plain name")
    return name


def _hold_order(draft: _Draft) -> None:
    """The order of accesses stays as the description says, whatever is changed on top (docs/adr/0015-order-of-accesses.md)."""
    for name, followed in ORDER.items():
        given = draft.values.get(followed)
        if name not in draft.values and given is not None:
            draft.values[name] = Value(given.content, given.place, KEYS[name].reason)


def _override(draft: _Draft, overrides: Sequence[str], problems: Problems) -> None:
    """Puts `key=value` texts over the draft's values."""
    seen: set[str] = set()
    for override in overrides:
        place = f"--set {override}"
        name, equals, text = (part.strip() for part in override.partition("="))
        if not equals or not name:
            problems.add("is not key=value", place=place, remedy='write for example --set l1.ways=4, or --set "core_clock=1.4 GHz"')
        elif name not in KEYS:
            problems.unknown_key(name, place, dotted=True)
        elif name in seen:
            problems.add(f"{name} is set twice; which one is meant?", place=place, remedy="remove one of the two")
        else:
            draft.values[name] = _parse(KEYS[name], Text(text, place), OVERRIDE_SOURCE, problems)
        seen.add(name)


def _parse(key: Key, text: Text, source: str, problems: Problems) -> Value | None:
    """The value of `text`, or None when it was refused."""
    try:
        return Value(parse_value(key, text), text.place, source)
    except SpecError as error:
        problems.append(error)
        return None


def _complete(draft: _Draft, problems: Problems) -> dict[str, Value]:
    """All values, in the order of the table: given ones, then defaults, which may follow another key."""
    values: dict[str, Value] = {}
    for name, key in KEYS.items():
        given = draft.values.get(name)
        if given is not None:
            values[name] = given
        elif name in draft.values:
            continue
        elif key.default is None:
            section, _, last = name.rpartition(".")
            example = f"{section}: {{{last}: ...}}" if section else f"{name}: ..."
            remedy = f"add `{example}`, or `like:` a GPU that has it"
            problems.add(f"{name} is missing ({key.meaning})", place=draft.place, remedy=remedy)
        elif not key.default:
            continue
        elif not key.default.startswith("="):
            source = "" if key.kind == WORD else key.reason
            values[name] = Value(parse_value(key, Text(key.default, draft.place)), draft.place, source)
        elif key.default[1:] in values:
            values[name] = Value(values[key.default[1:]].content, draft.place, key.reason)
    return values


def _build(draft: _Draft, values: dict[str, Value]) -> GpuSpec:
    """The frozen spec."""
    parts: dict[str, Any] = {}
    for name, value in values.items():
        # "l1.size_bytes" goes to parts["l1"]["size_bytes"], "latency_cycles[int]" to parts["latency_cycles"]["int"]
        owner, _, attribute = KEYS[name].path.replace("[", ".").rstrip("]").partition(".")
        if attribute:
            parts.setdefault(owner, {})[attribute] = value.content
        else:
            parts[owner] = value.content
    sources = {name: value.source for name, value in values.items() if value.source}
    kinds = {"sm": SmSpec, "l1": CacheSpec, "noc": NocSpec, "l2": CacheSpec, "dram": DramSpec,
             "mwp": MwpSpec, "dvfs": DvfsSpec, "order": OrderSpec}  # fmt: skip
    built = {owner: kinds[owner](**part) if owner in kinds else part for owner, part in parts.items()}
    return GpuSpec(name=draft.name, description=draft.description, sources=sources, **built)
