"""Does the command line take what it says it takes, and refuse the rest in one clear line?"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import assert_one_error, run

import warpsight
from warpsight.cli.main import COMMANDS

pytestmark = pytest.mark.unit

HEAVY = ("numpy", "numba", "scipy", "pyarrow", "rich", "pydantic", "ruamel", "llvmlite")


def test_help_names_every_command_and_loads_nothing_heavy() -> None:
    code = f"import sys; from warpsight.cli.main import main; main(['--help']); print(sorted(set(sys.modules) & set({HEAVY!r})))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
    for command in COMMANDS:
        assert re.search(rf"^  {command.name} ", out, re.MULTILINE)


def test_import_of_the_package_loads_nothing_heavy() -> None:
    code = f"import sys, warpsight; print(sorted(set(sys.modules) & set({HEAVY!r})))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version").out == f"warpsight {warpsight.__version__}\n"


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_help_of_a_command_has_an_example_of_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run(capsys, command, "--help")
    assert outcome.code == 0
    assert re.search(rf"^examples?:\n(.*\n)*  .*warpsight {command}\b", outcome.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["pridict"], ['"pridict" is not a command; did you mean "predict"?']),
        (["--versoin"], ['did you mean "--version"?']),
        (["predict", "k.cu", "--gird", "128"], ['--gird: is not an option of `warpsight predict`; did you mean "--grid"?']),
        (["predict"], ["KERNEL"]),
        (["predict", "k.cu", "more.cu"], ['unexpected argument "more.cu"']),
        (["predict", "k.cu", "--representative", "mean"], ['--representative: "mean" is not one of kmeans, max, min']),
        (["predict", "k.cu", "--seed", "x"], ['--seed: "x" is not a whole number']),
        (["predict", "k.cu", "--max-instructions", "-3"], ['--max-instructions: "-3" is not a whole number']),
        (["trace", "k.cu", "--grid", "1", "--block", "1"], ["--output"]),
        (["gpus"], ["list|show|compare|use|check|import|from-device"]),
        (["gpus", "lsit"], ['did you mean "list"?']),
        (["gpus", "show", "mdm-pascal", "--jsn"], ['did you mean "--json"?']),
        (["model", "--gpu", "mdm-pascal"], ["--profile"]),
        (["predict", "k.cu", "--js"], ["--js: is not an option"]),
    ],
)
def test_wrong_words_are_refused_in_one_line(words: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert_one_error(run(capsys, *words), 2, *parts)


def test_no_words_show_the_help_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run(capsys)
    assert outcome.code == 2
    assert "usage: warpsight COMMAND" in outcome.out


def test_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    script = f"{sys.executable} -m warpsight gpus show mdm-pascal --json | head -c 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "{"
    assert done.stderr == ""


def test_interrupt_exits_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("warpsight.cli.gpus.list_gpus", interrupted)
    outcome = run(capsys, "gpus", "list")
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "interrupted\n")
