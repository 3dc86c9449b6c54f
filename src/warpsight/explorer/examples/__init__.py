"""Kernels to begin with: each a `.cu` file, whose first comment is its title, beside the rest of its question as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from warpsight.explorer.question import Question, question_of

NAMES = ("saxpy", "transpose", "matmul", "reduction")


@dataclass(frozen=True)
class Example:
    """A question to begin with, and what it shows."""

    name: str
    title: str
    question: Question


@cache
def examples() -> tuple[Example, ...]:
    """The examples, the simplest first."""
    return tuple(map(_example, NAMES))


def _example(name: str) -> Example:
    folder = files(__package__)
    source = folder.joinpath(f"{name}.cu").read_text("utf-8")
    launch = json.loads(folder.joinpath(f"{name}.json").read_text("utf-8"))
    title = source.partition("\n")[0].removeprefix("//").strip()
    return Example(name, title, question_of({"source": source, **launch}))
