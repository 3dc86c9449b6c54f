"""Results and report data in files: one file, a folder of them for a server, and the output file of a report."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from warpsight.analysis.report_data.comparison import comparison_report_data, names_of_sides
from warpsight.analysis.report_data.kernel import (
    COMPARISON_REPORT,
    KERNEL_REPORT,
    PROGRAM_REPORT,
    SCHEMA,
    STUDY_REPORT,
    predictions_report_data,
)
from warpsight.analysis.report_data.program import program_report_data
from warpsight.analysis.report_data.study import study_report_data
from warpsight.base.errors import FormatError, UsageError, WarpsightError
from warpsight.base.inputs import read_input
from warpsight.base.outputs import check_place, write_whole
from warpsight.result.prediction import COMPONENTS
from warpsight.sweeps.folder import RESULTS, STUDY, base_gpus, is_study, open_folder
from warpsight.sweeps.result import Sweep
from warpsight.traces.store_format import HEADER as TRACE_HEADER

_TEXTS = ("kernel", "gpu", "model", "bound_by", "class", "occupancy_limiter")
_NUMBERS = ("cycles", "seconds", "ipc_sm_warp", "cpi", "warp_instructions", "occupancy")
# Exceptions of the renderer for a damaged document.
DAMAGE = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)
_DEEPEST, _LARGEST = 50, 1e300  # limits of nesting and of numbers: no result exceeds them
_REMEDY = "give the output of `warpsight predict --json`, `simulate --json`, `run --json` or `report --json`"


def is_result(path: str) -> bool:
    """Whether a report's input is a file of results, by its name."""
    return path.lower().endswith(".json") and Path(path).is_file()


def report_data_of_file(path: str) -> dict[str, Any]:
    """The report data of a file: as stored, or built from the predictions in it. Raises UsageError and FormatError."""
    document = _read(path)
    if isinstance(document, dict) and "kind" in document:
        kinds = (KERNEL_REPORT, STUDY_REPORT, COMPARISON_REPORT, PROGRAM_REPORT)
        if document.get("schema") != SCHEMA or document["kind"] not in kinds:
            what = f"is not report data of schema {SCHEMA}"
            raise FormatError(what, place=path, remedy="create it again with `warpsight report --json`")
        if document["kind"] == KERNEL_REPORT:
            _predictions(document.get("predictions"), f"{path}: predictions")
        return document
    if isinstance(document, dict) and "launches" in document:
        try:
            return program_report_data(document)
        except DAMAGE as error:
            what = f"is not a result of `warpsight run --json` ({type(error).__name__}: {error})"
            raise FormatError(what, place=path, remedy=_REMEDY) from error
    return predictions_report_data(_predictions(document, path))


def alone_of_file(path: str) -> dict[str, Any]:
    """The report data of one kernel in a file, for a comparison. Raises as `report_data_of_file`; UsageError for other kinds."""
    document = report_data_of_file(path)
    if document["kind"] != KERNEL_REPORT:
        remedy = "give results of one kernel on one GPU"
        raise UsageError(f"is a {document['kind']} and cannot be compared", place=path, remedy=remedy)
    return document


def _read(path: str) -> Any:
    try:
        document = json.loads(read_input(path))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", place=path, remedy=_REMEDY) from None
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        place = f"{path}:{line}" if line else path
        raise FormatError(f"is not JSON: {getattr(error, 'msg', error)}", place=place, remedy=_REMEDY) from None
    if problem := _unfit(document):
        raise FormatError(problem, place=path, remedy=_REMEDY)
    return document


def _unfit(document: Any) -> str:
    """Why JSON cannot be a result, whatever its keys (Python reads more than JSON allows); empty if it can."""
    level = [document]
    for _ in range(_DEEPEST + 1):
        below: list[Any] = []
        for value in level:
            if isinstance(value, str):
                if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
                    return "has a string with a lone surrogate"
            elif isinstance(value, dict):
                below += value
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, int | float) and not abs(value) <= _LARGEST:
                return "has an invalid number (NaN, infinity, or out of range)"
        if not below:
            return ""
        level = below
    return f"is nested deeper than {_DEEPEST} levels"


def _predictions(content: Any, path: str) -> list[dict[str, Any]]:
    """The prediction documents: one object, or a list of them."""
    documents = content if isinstance(content, list) else [content]
    if not documents:
        raise FormatError("has no prediction", place=path, remedy=_REMEDY)
    for number, document in enumerate(documents, 1):
        if problem := _problem(document):
            place = f"{path}: prediction {number}" if isinstance(content, list) else path
            raise FormatError(problem, place=place, remedy=_REMEDY)
    return documents


def _problem(document: Any) -> str:
    """Why `document` is not a prediction; empty if it is one."""
    if not isinstance(document, dict) or "cpi_stack" not in document:
        return "is not a prediction: it has no cpi_stack"
    for key in _TEXTS:
        if not isinstance(document.get(key), str):
            return f"{key} is not a string"
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


# -- The results of a folder, for a server: prediction files, report data, studies. They are read, never written.

RESULT, STUDY_KIND = "result", "study"
_DEEPEST_FOLDER = 6
# A file of more bytes is not parsed for a list unless it has one of these words: timelines and traces are long, and no results.
_LARGE, _WORDS = 1 << 20, (b'"cpi_stack"', b'"designs"')


@dataclass(frozen=True)
class ResultFile:
    """A result: `ident` for URLs, `name` within the folder, `kind` (result or study), and a `stamp` that changes with the files."""

    ident: str
    name: str
    kind: str
    stamp: str


@dataclass(frozen=True)
class ResultSummary:
    """What a list says about a result. Studies and comparisons have no model, time and bottleneck, and are not `comparable`.

    `changed` is when the file was written, in seconds since 1970.
    """

    item: ResultFile
    changed: float
    kernel: str
    gpu: str
    model: str = ""
    seconds: float | None = None
    bound_by: str = ""
    comparable: bool = False


class ResultFolder:
    """The results below `folder`. Raises UsageError if it is not a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._known: dict[ResultFile, ResultSummary | str] = {}
        if not self.folder.is_dir():
            remedy = "give its folder" if self.folder.exists() else "make it with mkdir, or give the folder with your results"
            raise UsageError("is not a folder", place=str(folder), remedy=remedy)

    def items(self) -> list[ResultFile]:
        """The current files, by name: studies, and all JSON files; the page of one that is not a result shows the error."""
        results = []
        for path, kind in self._paths():
            name = path.relative_to(self.folder).as_posix()
            ident = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
            results.append(ResultFile(ident, name, kind, _stamp(path, kind)))
        return sorted(results, key=lambda item: item.name)

    def item(self, ident: str) -> ResultFile | None:
        """The result with that ident; None if it does not exist (any more)."""
        return next((item for item in self.items() if item.ident == ident), None)

    def report_data(self, item: ResultFile) -> dict[str, Any]:
        """The document of a result. Raises UsageError and FormatError if it cannot be read."""
        path = self.folder / item.name
        return study_report_data(Sweep.open(path)) if item.kind == STUDY_KIND else report_data_of_file(str(path))

    def listing(self) -> tuple[list[ResultSummary], list[tuple[ResultFile, str]]]:
        """The results, the newest first; and the JSON files that are not results, each with the reason. Files are read when new."""
        self._known = {item: self._known.get(item) or self._summary(item) for item in self.items()}
        found = [each for each in self._known.values() if isinstance(each, ResultSummary)]
        others = [(item, each) for item, each in self._known.items() if isinstance(each, str)]
        return sorted(found, key=lambda each: -each.changed), others

    def _summary(self, item: ResultFile) -> ResultSummary | str:
        """The summary of a result, or why it is none."""
        path = self.folder / item.name
        try:
            if item.kind == STUDY_KIND:
                study = open_folder(path).study
                kernels = ", ".join(kernel.name for kernel in study.kernels)
                return ResultSummary(item, _changed(path / STUDY), f"study {study.name}: {kernels}", base_gpus(study))
            if _is_large_and_other(path):
                return "is not a result"
            document, changed = report_data_of_file(str(path)), _changed(path)
            if document["kind"] != KERNEL_REPORT:
                sides = document.get("sides", ())
                gpus = dict.fromkeys([side["predictions"][0]["gpu"] for side in sides] or [document.get("gpu", "")])
                return ResultSummary(item, changed, f"{document['kind']} {document['title']}", ", ".join(gpus))
            first = document["predictions"][0]
            figures = first["model"], first["seconds"], first["bound_by"]
        except WarpsightError as error:
            return error.what
        except DAMAGE:
            return "is not report data"
        return ResultSummary(item, changed, first["kernel"], first["gpu"], *figures, comparable=True)

    def comparison(self, items: Sequence[ResultFile]) -> dict[str, Any]:
        """The document that compares two results, the older one first. Raises UsageError and FormatError."""
        paths = sorted((self.folder / item.name for item in items), key=_changed)
        sides = [alone_of_file(str(path)) for path in paths]
        try:
            return comparison_report_data(sides[0], sides[1], names_of_sides(sides, [path.name for path in paths]))
        except DAMAGE as error:
            place = " or ".join(str(path) for path in paths)
            what = f"is not report data that can be compared ({type(error).__name__}: {error})"
            raise FormatError(what, place=place, remedy="create it again with `warpsight report --json`") from error

    def _paths(self) -> Iterator[tuple[Path, str]]:
        """Studies and JSON files; not those within studies, traces and hidden folders, and no links, which may leave the folder."""
        for root, folders, files in os.walk(self.folder):
            here = Path(root)
            if is_study(here):
                folders.clear()
                yield here, STUDY_KIND
                continue
            if TRACE_HEADER in files:
                folders.clear()
                continue
            deep = len(here.relative_to(self.folder).parts) >= _DEEPEST_FOLDER
            folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
            yield from ((here / name, RESULT) for name in files if name.endswith(".json") and _is_own_file(here / name))


def _is_own_file(path: Path) -> bool:
    """A regular file: not a link, and not a pipe, which would wait for a writer."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:  # removed meanwhile
        return False


def _is_large_and_other(path: Path) -> bool:
    """Whether a file is large, and has no word that every result has; False if it cannot be read, for which there is an error."""
    with suppress(OSError):
        if path.stat().st_size > _LARGE:
            content = path.read_bytes()
            return not any(word in content for word in _WORDS)
    return False


def _changed(path: Path) -> float:
    """When the file was written; 0 if it has gone meanwhile."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _stamp(path: Path, kind: str) -> str:
    """Changes whenever a file of the result is written."""
    stamps = []
    for part in (path / STUDY, path / RESULTS) if kind == STUDY_KIND else (path,):
        with suppress(OSError):
            status = part.stat()
            stamps.append(f"{status.st_mtime_ns}-{status.st_size}")
    return ".".join(stamps)


# -- The output file of a report, written atomically.

def report_place(path: str | PathLike[str]) -> Path:
    """`path`, before minutes are spent on a report. Raises UsageError if it is known that the report cannot be written there."""
    if Path(path).is_dir():
        raise UsageError("is a folder", place=str(path), remedy="name a file in it")
    try:
        check_place(Path(path))
    except OSError as error:
        raise _unwritable(path, error) from None
    return Path(path)


def write_report(path: str | PathLike[str], text: str) -> Path:
    """Write `text` to `path`; what was there stays until the new one is complete. A device or a pipe is written directly.

    Raises UsageError.
    """
    place = report_place(path)
    try:
        write_whole(place, text)
    except OSError as error:
        raise _unwritable(path, error) from None
    return place


def _unwritable(path: str | PathLike[str], error: OSError) -> UsageError:
    remedy = "name a file in an existing, writable folder"
    return UsageError(f"cannot be written: {error.strerror or error}", place=str(path), remedy=remedy)
