"""From a name, a file or a spec, and `--set` overrides, to a checked `GpuSpec`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Any

from warpsight.base.errors import SpecError, UsageError
from warpsight.base.progress import note
from warpsight.gpu.catalog import catalog_path, no_such_gpu, product_name, variants
from warpsight.gpu.default import chosen_gpu
from warpsight.gpu.document import (
    Document,
    Text,
    Value,
    check_geometry,
    checked,
    parse_value,
    read_document,
    read_spec,
    read_values,
)
from warpsight.gpu.key import WORD
from warpsight.gpu.keys import Problems, find_key, key_of
from warpsight.gpu.power import PowerSpec
from warpsight.gpu.spec import KEYS, DispatchSpec, DramSpec, GpuSpec, L1Spec, L2Spec, NocSpec, Reference, SmSpec

OVERRIDE_SOURCE = "set by the user (--set)"

Gpu = str | os.PathLike[str] | GpuSpec


@dataclass
class _Draft:
    """A GPU before it is complete. A value is None where the text was refused, so that it is not called missing as well.

    `reference` is the GPU whose timing orders its accesses.
    """

    name: str
    description: str
    place: str
    values: dict[str, Value | None]
    reference: Reference | None


def load_gpu(gpu: Gpu | None, overrides: Sequence[str] = ()) -> GpuSpec:
    """The GPU of a catalogue name, a YAML file or a spec, with `overrides` (`l1.ways=4`, `noc.bandwidth=525GB/s`) applied together.

    None is the default GPU. A name of the catalogue wins over a file of that name. In the result every number has its source in
    `sources`, by key.
    Raises SpecError (`file:line`, key, remedy) for a description or an override that is wrong, UsageError for a name that is none.
    """
    if not isinstance(gpu, (str, os.PathLike, GpuSpec, NoneType)):
        what = f"an object of type {type(gpu).__name__} is not a GPU"
        raise UsageError(what, place="gpu", remedy='give a name of the catalogue ("a100"), a description file or a GpuSpec')
    if isinstance(overrides, str):
        raise UsageError("is one text", place="overrides", remedy=f'give a list of changes: ["{overrides}"]')
    problems = Problems()
    spec = _load(default_gpu() if gpu is None else gpu, overrides, problems)
    problems.raise_first()
    assert spec is not None
    return spec


def default_gpu() -> str:
    """The name or file of the GPU that is meant where none is named. Raises UsageError, with what says so, where it is neither."""
    chosen = chosen_gpu()
    _locate(chosen.gpu, Path(), chosen.place, chosen.remedy)
    return chosen.gpu


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
        draft = _Draft(gpu.name, gpu.description, f"GpuSpec {gpu.name}", read_spec(gpu), gpu.reference)
    else:
        draft = _read(*_locate(os.fspath(gpu), Path()), (), problems)
    _override(draft, overrides, problems)
    values = _complete(draft, problems)
    if not problems:
        check_geometry(values, problems)
    return None if problems else _build(draft, values)


def _locate(gpu: str, folder: Path, place: str = "", remedy: str = "") -> tuple[Path, str]:
    """The file of a catalogue name or a path (relative to `folder`), and what to call it. UsageError when it is neither."""
    known = catalog_path(gpu)
    if known is not None:
        others = [name for name in variants(gpu) if name != known.stem] if known.stem != gpu else []
        if others:
            note(f'"{gpu}" is {known.stem}, the {product_name(known.stem)}; the catalogue also has {" and ".join(others)}')
        return known, known.name
    path = folder / gpu
    if gpu and path.exists():
        return path, str(path)
    what, listed = no_such_gpu(gpu)
    raise UsageError(what, place=place, remedy=remedy or listed)


def _read(path: Path, shown: str, chain: tuple[tuple[Path, str], ...], problems: Problems) -> _Draft:
    """One file on top of those that it is `like`. What the catalogue says is read once in a process."""
    if catalog_path(path.stem) != path:
        return _read_file(path, shown, chain, problems)
    status = path.stat()
    kept = _of_catalog(path, shown, (status.st_mtime_ns, status.st_size))
    problems += kept[1]
    return replace(kept[0], values=dict(kept[0].values))


@lru_cache(maxsize=128)
def _of_catalog(path: Path, shown: str, state: tuple[int, int]) -> tuple[_Draft, Problems]:
    """The GPU of a file of the catalogue, as long as the file's `state` stays, and what is wrong with it."""
    problems = Problems()
    return _read_file(path, shown, (), problems), problems


def _read_file(path: Path, shown: str, chain: tuple[tuple[Path, str], ...], problems: Problems) -> _Draft:
    chain = (*chain, (path.resolve(), shown))
    document = read_document(path, shown, problems)
    own = read_values(document, problems)
    like = document.texts.get("like")
    values, reference = own, None
    if like is not None:
        parent, parent_shown = _locate(like.text, path.parent, like.place)
        if parent.resolve() in [link for link, _ in chain]:
            circle = " -> ".join([*(link for _, link in chain), parent_shown])
            raise SpecError(f"`like` is circular: {circle}", place=like.place, remedy="remove `like` from one of them")
        base = _read(parent, parent_shown, chain, problems)
        values, reference = base.values | own, base.reference
    if reference is None or catalog_path(path.stem) == path:
        reference = _reference(path, values)
    description = _text(document, "description", f"like {like.text}" if like else "")
    name = _text(document, "name", path.stem)
    if not name.isprintable():
        problems.add("name has characters that cannot be printed", place=document.texts["name"].place, remedy="write a plain name")
    return _Draft(name, description, shown, values, reference)


def _reference(path: Path, values: dict[str, Value | None]) -> Reference:
    """The GPU described in `path` as the one that its changes are compared with."""
    given = {name: value.content for name, key in KEYS.items() if key.orders and (value := values.get(name)) is not None}
    defaults = {name: parse_value(key, Text(key.default, str(path))) for name, key in KEYS.items() if key.orders and key.default}
    timing = defaults | given
    return Reference(path.stem if catalog_path(path.stem) == path else str(path.resolve()), timing)


def _text(document: Document, key: str, default: str) -> str:
    """A text of the file on one line."""
    return " ".join(document.texts[key].text.split()) if key in document.texts else default


def _override(draft: _Draft, overrides: Sequence[str], problems: Problems) -> None:
    """Puts `key=value` texts over the draft's values."""
    seen: set[str] = set()
    for override in overrides:
        place = f"--set {override}"
        name, equals, text = (part.strip() for part in override.partition("="))
        if not equals or not name:
            problems.add("is not key=value", place=place, remedy='write for example --set l1.ways=4, or --set "core_clock=1.4 GHz"')
        elif (key := find_key(name)) is None:
            problems.unknown_key(name, place, dotted=True)
        elif name in seen:
            problems.add(f"{name} is set twice; which one is meant?", place=place, remedy="remove one of the two")
        else:
            draft.values[name] = checked(key, Text(text, place), OVERRIDE_SOURCE, problems)
        seen.add(name)


def _complete(draft: _Draft, problems: Problems) -> dict[str, Value]:
    """All values, in the order of the table: given ones, then defaults, which may follow another key."""
    values: dict[str, Value] = {}
    for name, key in KEYS.items():
        value = draft.values.get(name)
        if value is not None:
            values[name] = value
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
    return values | {name: value for name, value in draft.values.items() if name not in KEYS and value is not None}


def _build(draft: _Draft, values: dict[str, Value]) -> GpuSpec:
    """The frozen spec."""
    parts: dict[str, Any] = {"parameters": {}}
    for name, value in values.items():
        # "l1.size_bytes" goes to parts["l1"]["size_bytes"], "latency_cycles[int]" to parts["latency_cycles"]["int"]
        owner, _, attribute = key_of(name).path.replace("[", ".").rstrip("]").partition(".")
        if not owner:
            parts["parameters"][name] = value.content
        elif attribute:
            parts.setdefault(owner, {})[attribute] = value.content
        else:
            parts[owner] = value.content
    sources = {name: value.source for name, value in values.items() if value.source}
    kinds = {"sm": SmSpec, "l1": L1Spec, "noc": NocSpec, "l2": L2Spec, "dram": DramSpec, "dispatch": DispatchSpec,
             "power": PowerSpec}  # fmt: skip
    built = {owner: kinds[owner](**part) if owner in kinds else part for owner, part in parts.items()}
    return GpuSpec(name=draft.name, description=draft.description, sources=sources, reference=draft.reference, **built)
