"""Do the documents name commands that exist, and the README begin with the two that a stranger needs?"""

from __future__ import annotations

import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest

from warpsight.cli.main import parse

pytestmark = pytest.mark.unit

DOCUMENTS = {
    "README.md": 5,
    "docs/tutorial.md": 5,
    "docs/tutorials/sgemm.md": 7,
    "docs/tutorials/designs.md": 4,
    "docs/tutorials/figure.md": 2,
    "docs/tutorials/program.md": 3,
    "docs/tutorials/triton.md": 3,
    "docs/explanation/explain.md": 2,
    "docs/explanation/advise.md": 3,
    "docs/explanation/warpsight-model.md": 4,
    "docs/explanation/sweeps.md": 3,
    "docs/reference/check.md": 2,
    "docs/reference/command-line.md": 3,
    "docs/reference/compare.md": 5,
    "docs/reference/launch-file.md": 1,
    "docs/reference/sweep.md": 12,
    "docs/reference/measurements.md": 3,
    "docs/reference/validate.md": 5,
}


def _commands(text: str) -> list[list[str]]:
    """Every `warpsight ...` line of a shell block, continuation lines joined."""
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if re.match(r"(\$ )?warpsight ", line)]
    # outputs begin with the tool's version, which is no command; what a shell does with the output is not ours
    ours = [list(takewhile(lambda word: word not in ("|", ">", "2>"), words)) for words in found]
    return [words[1:] for words in ours if not re.match(r"\d+\.\d+", words[1])]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_in_documents_are_accepted_by_the_command_line(name: str, root: Path) -> None:
    commands = _commands((root / name).read_text("utf-8"))
    assert len(commands) >= DOCUMENTS[name]
    for words in commands:
        parse(words)


def test_readme_begins_with_the_install_and_the_test_command(root: Path) -> None:
    text = (root / "README.md").read_text("utf-8")
    first, second = re.findall(r"^(?:<!-- test-command -->\n)?```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[:2]
    assert first == "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/warpsight demo\n"
    marked = re.search(r"<!-- test-command -->\n```sh\n(.*?)\n```", text)
    assert marked is not None
    assert f"{marked[1]}\n" == second
    assert marked[1] == "python3 -m venv .venv && .venv/bin/pip install '.[test]' && .venv/bin/pytest -n auto"
