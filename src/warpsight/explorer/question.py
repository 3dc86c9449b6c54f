"""What the explorer is asked: a kernel's text, its launch, a GPU and a model, checked as they come from a browser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from warpsight.base.diskcache import content_key
from warpsight.base.errors import UsageError, suggestion
from warpsight.gpu.catalog import catalog_path
from warpsight.pipeline.request import DEFAULT_MODEL

FILES = {"cuda": "kernel.cu", "ptx": "kernel.ptx", "python": "kernel.py"}
"""What the text of each language is called in messages, in line information and in a project."""
MOST_TEXT = 1 << 20


@dataclass(frozen=True)
class Question:
    """A kernel to predict. An empty `kernel`, `grid`, `block` or `shared` and an argument that is left out are suggested.

    `args` are texts as of `--arg`, by the parameter's name in the source. `overrides` change the GPU, as `sm_count=56`. Files are
    never named: neither the GPU nor an argument can be one. A text in Python is a launch file, which names all but the GPU and the
    model itself. `simulator`: the cycle-level simulator answers as well.
    """

    source: str
    language: str = "cuda"
    kernel: str = ""
    grid: str = ""
    block: str = ""
    shared: str = ""
    args: Mapping[str, str] = field(default_factory=dict)
    gpu: str = "a100"
    overrides: tuple[str, ...] = ()
    model: str = DEFAULT_MODEL
    simulator: bool = False

    @property
    def file(self) -> str:
        """What the text is called."""
        return FILES[self.language]

    @property
    def key(self) -> str:
        """The same for questions that are alike."""
        return content_key(json.dumps(self.to_json(), sort_keys=True))

    def to_json(self) -> dict[str, Any]:
        """The question as plain values, from which `question_of` makes it again."""
        return asdict(self) | {"args": dict(self.args), "overrides": list(self.overrides)}


def question_of(document: Any) -> Question:
    """The question that JSON from a browser asks. Raises UsageError for an unknown key, and a value that no question has."""
    if not isinstance(document, dict):
        raise UsageError("is not an object", place="question", remedy="send the keys of a question as JSON")
    names = [each.name for each in fields(Question)]
    for name, value in document.items():
        if name not in names:
            raise UsageError(f"is not a key of a question{suggestion(str(name), names)}", place=str(name),
                             remedy=f"the keys are: {', '.join(names)}")  # fmt: skip
        _check_kind(name, value)
    question = Question(**{**document, "overrides": tuple(document.get("overrides", ())), "source": document.get("source", "")})
    _check_values(question)
    return question


def _check_kind(name: str, value: Any) -> None:
    if name == "overrides":
        checked_overrides(value)
        return
    if name == "args":
        fits = isinstance(value, dict) and all(isinstance(text, str) for pair in value.items() for text in pair)
    else:
        fits = isinstance(value, bool if name == "simulator" else str)
    if not fits:
        kind = {"args": "an object of texts", "simulator": "true or false"}.get(name, "a text")
        raise UsageError(f"is not {kind}", place=name, remedy=f"send {kind}")


def _check_values(question: Question) -> None:
    if not question.source.strip():
        raise UsageError("is empty: there is no kernel to run", place="source", remedy="write a kernel, or begin with an example")
    if len(question.source) > MOST_TEXT:
        what = f"has {len(question.source):,} characters, and the explorer takes {MOST_TEXT:,}"
        raise UsageError(what, place="source", remedy="use `warpsight report` for it")
    if question.language not in FILES:
        raise UsageError(f'"{question.language}" is not a language', place="language", remedy=f"known: {', '.join(FILES)}")
    known_gpu(question.gpu)
    for name, text in question.args.items():
        if text.strip().startswith("@") or text.strip().endswith(".npy"):
            what = "the explorer reads no files"
            raise UsageError(what, place=name, remedy="give a rule such as f32[1024]:uniform, or use `warpsight predict`")


def known_gpu(name: Any) -> str:
    """The name of a GPU of the catalogue. Raises UsageError for anything else, such as a file's name."""
    if not isinstance(name, str) or catalog_path(name) is None:
        raise UsageError(f'"{name}" is not a GPU of the catalogue', place="gpu", remedy="choose one of the list")
    return name


def checked_overrides(value: Any) -> tuple[str, ...]:
    """Overrides as JSON has them. Raises UsageError for anything but a list of texts."""
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise UsageError("is not a list of texts", place="overrides", remedy="send a list of texts")
    return tuple(value)
