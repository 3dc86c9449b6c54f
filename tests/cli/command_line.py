"""Runs the command line in this process and gives what a shell would see."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from warpsight.cli.main import DEFECT, main

# what `saxpy` needs after its file name
LAUNCH = ("--kernel", "saxpy", "--grid", "8", "--block", "256", "--arg", "2.0", "--arg", "f32[2048]:uniform",
          "--arg", "f32[2048]:zeros", "--arg", "2048")  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """Exit code, stdout and stderr of one command line."""

    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *words: object) -> Outcome:
    """`warpsight WORDS`. An exception that no code handles fails the test: it is a defect."""
    capsys.readouterr()
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    assert code != DEFECT, captured.err
    return Outcome(code, captured.out, captured.err)


def assert_one_error(outcome: Outcome, code: int, *parts: str) -> None:
    """One `error:` line and at most one remedy line, nothing on stdout, the given exit code, every part said."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    lines = outcome.err.splitlines()
    assert lines[0].startswith("error: ")
    assert len(lines) <= 2, outcome.err
    assert all(line.startswith("       -> ") for line in lines[1:])
    for part in parts:
        assert part in outcome.err
