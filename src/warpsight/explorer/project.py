"""A project: a folder in which every answer is kept as a version, with its kernel, its launch and its report's data.

    versions/0001/kernel.cu      the text
    versions/0001/launch.yaml    its launch, for `warpsight predict`, `report` and all others; a text in Python is one itself
    versions/0001/version.json   schema, number, date, the question, and the row of a list
    versions/0001/result.json    the report's data, as `warpsight report --json` prints them
"""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from warpsight.base.errors import FormatError, UsageError
from warpsight.base.outputs import folder_beside, put_in_place
from warpsight.explorer.question import Question, question_of
from warpsight.pipeline.simulation import NAME as SIMULATOR
from warpsight.reports.formats import json_line, json_text

SCHEMA = 1
VERSIONS = "versions"
_VERSION, _RESULT, _LAUNCH = "version.json", "result.json", "launch.yaml"
_FIGURES = ("kernel", "gpu", "model", "seconds", "cycles", "bound_by")


@dataclass(frozen=True)
class Version:
    """An answer that was kept: its `number` from 1, the time as ISO 8601, and the figures of a row of a list.

    `simulated` are the seconds of the cycle-level simulator, where it was asked.
    """

    number: int
    created: str
    kernel: str
    gpu: str
    model: str
    seconds: float
    cycles: float
    bound_by: str
    simulated: float | None = None


class Project:
    """The versions in `folder`, in which nothing is written before there is one. Raises UsageError where it cannot be read."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._numbers: dict[str, int] = {}  # the version of each question that was answered
        self._known: dict[int, Version] = {}
        self._writing = threading.Lock()
        try:
            paths = sorted((self.folder / VERSIONS).glob(f"[0-9]*/{_VERSION}"))
        except OSError as error:
            raise UsageError(f"cannot be used: {error.strerror}", place=str(folder), remedy="name a folder of your own") from None
        for path in paths:
            document = _read(path)
            version = _version(path, document)
            self._known[version.number] = version
            self._numbers[question_of(document["question"]).key] = version.number

    def versions(self) -> list[Version]:
        """All versions, the newest last."""
        return [self._known[number] for number in sorted(self._known)]

    def keep(self, question: Question, form: dict[str, Any], document: dict[str, Any]) -> int:
        """Keep an answer, and give its number: that of the same question if it has been answered before. Raises UsageError."""
        with self._writing:
            number = self._numbers.get(question.key) or max(self._known, default=0) + 1
            figures = {name: document["predictions"][0][name] for name in _FIGURES}
            if question.overrides:
                figures["gpu"] += f" with {', '.join(question.overrides)}"
            simulated = next((each["seconds"] for each in document["predictions"] if each["model"] == SIMULATOR), None)
            version = Version(number, datetime.now(UTC).isoformat(timespec="seconds"), **figures, simulated=simulated)
            texts = {
                question.file: question.source,
                **({_LAUNCH: _launch_text(question, form)} if form["kernel"] else {}),
                _RESULT: json_line(document) + "\n",  # with indents it would take six times as long, and the page waits
                _VERSION: json_text({"schema": SCHEMA, "version": asdict(version), "question": question.to_json()}),
            }
            place = self._place(number)
            try:
                place.parent.mkdir(exist_ok=True)
                new = folder_beside(place)
                for name, text in texts.items():
                    (new.path / name).write_text(text, "utf-8", "surrogatepass")
                put_in_place(new, place)
            except OSError as error:
                what = f"cannot be written: {error.strerror}"
                raise UsageError(what, place=str(place), remedy="free space, or name another folder") from None
            self._numbers[question.key], self._known[number] = number, version
            return number

    def question(self, number: int) -> Question:
        """What was asked. Raises UsageError for a number that no version has, FormatError for a damaged file."""
        return question_of(_read(self._found(number) / _VERSION)["question"])

    def document(self, number: int) -> dict[str, Any]:
        """The report's data of a version. Raises as `question`."""
        return _read(self._found(number) / _RESULT)

    def _found(self, number: int) -> Path:
        if number not in self._known:
            raise UsageError(f"there is no version {number}", place="version", remedy="choose one of the list")
        return self._place(number)

    def _place(self, number: int) -> Path:
        return self.folder / VERSIONS / f"{number:04d}"


def _launch_text(question: Question, form: dict[str, Any]) -> str:
    """A launch file, all of whose values are JSON, which is YAML too."""
    values = {
        "source": question.file, "kernel": form["kernel"], **{each["name"]: each["value"] for each in form["dimensions"]},
        "args": [each["value"] for each in form["parameters"]],
    }  # fmt: skip
    head = f"# {' '.join(('--gpu', question.gpu, '--model', question.model, *(f'--set {each}' for each in question.overrides)))}"
    return "\n".join([head, *(f"{key}: {json.dumps(value)}" for key, value in values.items()), ""])


def _version(path: Path, document: dict[str, Any]) -> Version:
    try:
        return Version(**document["version"])
    except (KeyError, TypeError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> FormatError:
    return FormatError(f"is not a version of a project: {error}", place=str(path), remedy="remove its folder, or restore it")


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
        if path.name == _VERSION and (document["schema"] != SCHEMA or not isinstance(document["question"], dict)):
            raise ValueError(f"its schema is not {SCHEMA}")
        return dict(document)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, error) from None
