"""What changed from one version to another: the text, the launch and the GPU, and what became of the time."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.explorer.project import Project
from warpsight.explorer.question import Question

_AROUND = 3  # lines that are the same, shown around a change
_MOST_LINES = 10_000


def changes(project: Project, before: int, after: int) -> dict[str, Any]:
    """Two versions side by side: `numbers`; `predictions`; `text`, parts of rows (`kind`, `before` and `after` with line and text);
    `question`, rows (`name`, `before`, `after`) of what else differs. Raises as `Project.question`.
    """
    questions = [project.question(number) for number in (before, after)]
    return {
        "numbers": [before, after],
        "predictions": [project.document(number)["predictions"][0] for number in (before, after)],
        "text": text_changes(questions[0].source, questions[1].source),
        "question": _question_changes(*questions),
    }


def text_changes(before: str, after: str) -> list[list[dict[str, Any]]]:
    """The lines that differ with those around them, in parts, side by side; none where the texts are the same."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > _MOST_LINES:
        what = f"a text of more than {_MOST_LINES:,} lines is not compared"
        raise UsageError(what, place="source", remedy="compare the files of the two versions with `diff`")
    groups = SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_AROUND)
    return [[row for code in group for row in _rows(code, old, new)] for group in groups]


def _rows(code: tuple[str, int, int, int, int], old: list[str], new: list[str]) -> list[dict[str, Any]]:
    kind, first, last, begin, end = code
    length = max(last - first, end - begin)
    return [{"kind": kind, "before": _line(old, first + k, last), "after": _line(new, begin + k, end)} for k in range(length)]


def _line(lines: list[str], at: int, end: int) -> dict[str, Any] | None:
    return {"line": at + 1, "text": lines[at]} if at < end else None


def _question_changes(before: Question, after: Question) -> list[dict[str, str]]:
    sides = [_flat(question) for question in (before, after)]
    rows = [{"name": name, "before": sides[0].get(name, ""), "after": sides[1].get(name, "")} for name in sides[0] | sides[1]]
    return [row for row in rows if row["before"] != row["after"]]


def _flat(question: Question) -> dict[str, str]:
    """Everything that is asked but the text, as texts by name."""
    values = question.to_json()
    overrides = dict(text.partition("=")[::2] for text in values.pop("overrides"))
    args = {f"argument {name}": text for name, text in values.pop("args").items()}
    del values["source"]
    return {**{name: str(value) for name, value in values.items()}, **args, **overrides}
