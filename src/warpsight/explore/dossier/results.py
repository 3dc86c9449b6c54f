"""Results from a file: predictions as `predict --json` and `simulate --json` write them, and dossiers of `report --json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from warpsight.base.errors import FormatError, UsageError
from warpsight.explore.dossier.kernel import COMPARISON, KERNEL, SCHEMA, STUDY, result_dossier
from warpsight.result.prediction import COMPONENTS

_TEXTS = ("kernel", "gpu", "model", "bound_by", "class", "occupancy_limiter")
_NUMBERS = ("cycles", "seconds", "ipc_sm_warp", "cpi", "warp_instructions", "occupancy")
# What a document that was damaged makes the code raise that draws it.
DAMAGE = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)
_DEEPEST, _LARGEST = 50, 1e300  # of nesting and of numbers: what is beyond comes from no result, and its sums would be no numbers
_REMEDY = "give what `warpsight predict --json`, `simulate --json` or `report --json` printed"


def is_result(path: str) -> bool:
    """Whether a report's input is a file of results, by its name."""
    return path.lower().endswith(".json") and Path(path).is_file()


def dossier_of_file(path: str) -> dict[str, Any]:
    """The dossier of a file of results: as it is, or made of the predictions in it. Raises UsageError and FormatError."""
    found = _read(path)
    if isinstance(found, dict) and "kind" in found:
        if found.get("schema") != SCHEMA or found["kind"] not in (KERNEL, STUDY, COMPARISON):
            what = f"is no document of schema {SCHEMA} that a report is made of"
            raise FormatError(what, place=path, remedy="make it again with `warpsight report --json`")
        if found["kind"] == KERNEL:
            _predictions(found.get("predictions"), f"{path}: predictions")
        return found
    return result_dossier(_predictions(found, path))


def alone_of_file(path: str) -> dict[str, Any]:
    """The dossier of a file, to be set beside another one: of one kernel. Raises as `dossier_of_file` does, or UsageError."""
    found = dossier_of_file(path)
    if found["kind"] != KERNEL:
        raise UsageError(f"is a {found['kind']}, which is shown alone", place=path, remedy="give results of one kernel on one GPU")
    return found


def _read(path: str) -> Any:
    try:
        found = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", place=path, remedy=_REMEDY) from None
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        place = f"{path}:{line}" if line else path
        raise FormatError(f"is not JSON: {getattr(error, 'msg', error)}", place=place, remedy=_REMEDY) from None
    what = _unfit(found)
    if what:
        raise FormatError(what, place=path, remedy=_REMEDY)
    return found


def _unfit(found: Any) -> str:
    """What keeps JSON from being a document of ours, whatever its keys: Python reads more than JSON has; empty for nothing."""
    waiting = [(found, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > _DEEPEST:
            return f"is nested deeper than {_DEEPEST} levels"
        if isinstance(value, dict):
            waiting += [(each, depth + 1) for pair in value.items() for each in pair]
        elif isinstance(value, list):
            waiting += [(each, depth + 1) for each in value]
        elif isinstance(value, int | float) and not abs(value) <= _LARGEST:
            return "has a number that is none (NaN, infinity, or beyond what any result has)"
        elif isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            return "has a text with half a character (a lone surrogate)"
    return ""


def _predictions(found: Any, path: str) -> list[dict[str, Any]]:
    """The prediction documents: one object, or a list of them."""
    documents = found if isinstance(found, list) else [found]
    if not documents:
        raise FormatError("has no prediction in it", place=path, remedy=_REMEDY)
    for number, document in enumerate(documents, 1):
        place = f"{path}: prediction {number}" if isinstance(found, list) else path
        what = _wrong(document)
        if what:
            raise FormatError(what, place=place, remedy=_REMEDY)
    return documents


def _wrong(document: Any) -> str:
    """What keeps `document` from being a prediction; empty for nothing."""
    if not isinstance(document, dict) or "cpi_stack" not in document:
        return "is no prediction: it has no cpi_stack"
    for key in _TEXTS:
        if not isinstance(document.get(key), str):
            return f"{key} is not a text"
    for key in _NUMBERS:
        if not _is_number(document.get(key)):
            return f"{key} is not a number of 0 or more"
    if "dpki" not in document or not (document["dpki"] is None or _is_number(document["dpki"])):
        return "dpki is neither a number of 0 or more nor null"
    stack = document["cpi_stack"]
    if not isinstance(stack, dict) or not all(_is_number(value) for value in stack.values()):
        return "cpi_stack is not an object of numbers"
    if not set(COMPONENTS) & set(stack):
        return f"cpi_stack has none of {', '.join(COMPONENTS)}"
    if abs(sum(stack.values()) - document["cpi"]) > 1e-6 * max(1.0, document["cpi"]):
        return "cpi is not the sum of cpi_stack"
    return "" if isinstance(document.get("provenance"), dict) else "provenance is not an object"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
