"""The provenance section: the model's assumptions and which of them are violated, the GPU key by key, and how to reproduce it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from warpsight.base.units import percent, three_digits


def provenance(document: dict[str, Any]) -> dict[str, Any]:
    """The template's values; for a file of results, what the provenance in it has."""
    first = document["predictions"][0]
    own = first["provenance"]
    more = document.get("provenance") or {}
    gpu = more.get("gpu") or list(_rows(own.get("gpu") or {}))
    estimated = [row["key"] for row in gpu if row["estimated"]]
    return {
        "first": first,
        "about": (document.get("models") or {}).get(first["model"]),
        "checks": _checks(document.get("assumptions")),
        "gpu": gpu,
        "estimated": estimated,
        "hashes": more.get("hashes") or _hashes(own),
        "versions": more.get("versions") or {"prediction made by": own.get("tool", "")},
        "command": more.get("command"),
        "method": own.get("method") or {},
        "launch": own.get("launch") or {},
        "trace": own.get("trace") or {},
        "notes": [*own.get("notes", []), *own.get("profile_notes", [])],
    }


def _checks(assumptions: dict[str, Any] | None) -> dict[str, Any] | None:
    """The checks, violated or not, with their numbers as text."""
    if not assumptions:
        return None
    groups: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for row in assumptions["checks"]:
        texts = {"shown": _number(row["value"], row["unit"]), "limit": _number(row["bound"], row["unit"])}
        groups[bool(row["violated"])].append({**row, **texts})
    return {"violated": groups[True], "kept": groups[False], "untouched": assumptions["untouched"]}


def _number(value: float, unit: str) -> str:
    return percent(value) if unit == "share" else three_digits(value)


def _rows(resolved: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The keys of a resolved description as rows, without their meaning, which it does not hold."""
    sources = resolved.get("sources", {})
    for name, content in resolved.items():
        if name in ("schema", "name", "description", "sources"):
            continue
        values = {f"{name}.{key}": value for key, value in content.items()} if isinstance(content, dict) else {name: content}
        for key, value in values.items():
            source = str(sources.get(key, ""))
            shown = ("false", "true")[value] if isinstance(value, bool) else str(value)
            yield {"key": key, "value": shown, "source": source, "estimated": "estimated" in source.lower(), "meaning": ""}


def _hashes(own: dict[str, Any]) -> dict[str, str]:
    names = {"kernel": "kernel_hash", "inputs": "input_hash", "GPU": "gpu_hash"}
    return {name: own[key] for name, key in names.items() if own.get(key)}
