"""The last line of an answer: the next useful command, ready to paste."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

# A line or a change with a smaller part of the cycles is not worth a command of its own.
_LEAST = 0.05
# The rule of `advise` that helps any short launch: a change that says nothing of the kernel itself.
ANY_SHORT_LAUNCH = "fusion"
# Options of `predict` that the other commands do not have.
_OWN, _OWN_FLAGS = ("--warps", "--repeat"), ("--cpi-stack", "--simulator")
_OF_PROFILES = ("--model", "--representative", "--interleaving", "--order", "--caches")


def line(command: Sequence[str], why: str = "") -> str:
    """`next: warpsight ...   # why`, quoted for a shell."""
    return f"next: {shlex.join(['warpsight', *command])}" + (f"   # {why}" if why else "")


def after_prediction(document: dict[str, Any], command: Sequence[str]) -> str:
    """The line after the prediction of `command` (without `warpsight`): the most useful next command.

    `advise` if a change of the kernel gains 5 % or may do so; else `explain` for the hottest line; else the simulator, if the
    launch violates an assumption of the model; else a report. After a table `explain`, for the launch of the row.
    """
    model, summary, varied = document["model"], document.get("summary"), document["provenance"].get("varied", {})

    def then(name: str, why: str, *added: str) -> str:
        several = any(word.partition("=")[0] == "--model" for word in command) and name != "simulate"
        options = (*_OWN, *_OF_PROFILES[: len(_OF_PROFILES) if name == "simulate" else several])
        return followed_by(
            name, command, model, why, without=options, flags=_OWN_FLAGS, added=(*added, *(("--model", model) if several else ()))
        )

    if varied:  # rows of launches, or of one launch in several ways
        launch = varied["launch"] if isinstance(varied.get("launch"), int) else None
        replaced = (("--launches",) if launch else ()) + (("--representative",) if "representative" in varied else ())
        without = (*_OWN, "--model", *replaced)
        added = (*(("--launches", str(launch)) if launch else ()), "--model", model)
        why = "the lines of the longest launch" if launch else "where the cycles are"
        return followed_by("explain", command, model, why, without=without, flags=_OWN_FLAGS, added=added)
    if summary is None:
        return line(["models", "show", model], "the model's assumptions")
    hot, place = summary["hottest"], (summary["hottest"] or {}).get("place")
    untried = untried_changes(summary)
    own = [change for change in summary["advice"] if change["rule"] != ANY_SHORT_LAUNCH]
    if own or untried:
        more = f" and {len(untried) - 1} more" if len(untried) > 1 else ""
        return then("advise", f"also {untried[0]}{more}" if untried else "each change with its cost")
    if hot and hot["share"] >= _LEAST:
        view = ("--by", summary["view"])
        return then("explain", f"{place} takes {100 * hot['share']:.0f} % of the cycles", *view)
    if summary["violated"] and not summary["simulator"]:
        return then("simulate", f"{model} assumes what this launch violates; the simulator does not")
    return then("report", "everything on one page", "-o", "report.html")


def untried_changes(summary: dict[str, Any]) -> list[str]:
    """The changes that were not tried, because they take long, and may save at least 5 % of the cycles; the largest part first."""
    large = [change for change in summary["not_tried"] if change["share"] >= _LEAST]
    return [change["title"] for change in sorted(large, key=lambda change: -change["share"])]


def followed_by(
    name: str, command: Sequence[str], model: str, why: str, *, without: Sequence[str] = (), flags: Sequence[str] = (),
    added: Sequence[str] = (),
) -> str:
    """The line with `command_after`; for input from stdin, which cannot be read again, the model's assumptions."""
    if "-" in command:
        return line(["models", "show", model], "the model's assumptions")
    return f"next: {command_after(name, command, without=without, flags=flags, added=added)}   # {why}"


def command_after(name: str, command: Sequence[str], *, without: Sequence[str], flags: Sequence[str], added: Sequence[str]) -> str:
    """`warpsight NAME ...`, quoted for a shell, for the same kernel and GPU as `command`.

    Omits the options `without` with their values and the `flags`, which take none, and appends `added`.
    """
    words, skip = ["warpsight", name], False
    for word in command[1:]:
        if not skip and word.partition("=")[0] not in without and word not in flags:
            words.append(word)
        skip = not skip and word in without
    return shlex.join([*words, *added])
