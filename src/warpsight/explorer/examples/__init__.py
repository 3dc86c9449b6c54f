"""Kernels to begin with: each a text, whose first comment is its title, beside the rest of its question as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from warpsight.explorer.question import Question, question_of

FILES = ("saxpy.cu", "transpose.cu", "matmul.cu", "reduction.cu", "triton.txt")


@dataclass(frozen=True)
class Example:
    """A question to begin with, and what it shows."""

    name: str
    title: str
    question: Question


@cache
def examples() -> tuple[Example, ...]:
    """The examples, the simplest first."""
    return tuple(map(_example, FILES))


def _example(file: str) -> Example:
    folder, name = files(__package__), file.partition(".")[0]
    source = folder.joinpath(file).read_text("utf-8")
    launch = json.loads(folder.joinpath(f"{name}.json").read_text("utf-8"))
    title = source.partition("\n")[0].lstrip("/#").strip()
    return Example(name, title, question_of({"source": source, **launch}))
