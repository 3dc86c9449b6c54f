"""Do settings, steps, completion, the beginning of a help and the pager do what they say?"""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import assert_one_error, run

from warpsight.cli.parser import COMMON

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of settings, and no variable that wins over them."""
    for name in ("WARPSIGHT_GPU", "WARPSIGHT_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WARPSIGHT_CONFIG", str(tmp_path / "settings"))
    return tmp_path / "settings"


def test_settings_are_kept_shown_used_and_forgotten(settings: Path, launch_file: Path, capsys: Capture) -> None:
    assert run(capsys, "config", "gpu", "Tesla T4").code == 0
    assert run(capsys, "config", "model", "mdm").code == 0
    rows = {row["setting"]: row for row in json.loads(run(capsys, "config", "--json").out)["settings"]}
    assert (rows["gpu"]["value"], rows["gpu"]["from"]) == ("t4", str(settings / "gpu"))
    document = json.loads(run(capsys, "predict", launch_file, "--json").out)
    assert (document["gpu"], document["model"]) == ("t4", "mdm")
    for name in ("gpu", "model"):
        assert run(capsys, "config", name, "--clear").code == 0
    rows = {row["setting"]: row for row in json.loads(run(capsys, "config", "--json").out)["settings"]}
    assert [(rows[name]["value"], rows[name]["from"]) for name in ("gpu", "model")] == [
        ("a100", "built in"), ("warpsight", "built in"),
    ]  # fmt: skip


def test_the_cache_folder_is_the_chosen_one(
    settings: Path, launch_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.delenv("WARPSIGHT_CACHE")
    assert run(capsys, "config", "cache", str(tmp_path / "kept")).code == 0
    assert run(capsys, "init", launch_file.parent / "saxpy.cu", "--kernel", "saxpy", "-o", "-").code == 0
    assert list((tmp_path / "kept" / "ptx").rglob("*"))


def test_times_are_in_the_unit_that_was_chosen(settings: Path, launch_file: Path, capsys: Capture) -> None:
    words = ("predict", launch_file, "--model", "mdm", "--gpu", "mdm-pascal")
    document = json.loads(run(capsys, *words, "--json").out)
    own = run(capsys, *words).out
    assert run(capsys, "config", "units", "ms").code == 0
    time = f"{1e3 * document['seconds']:.4g} ms"
    assert time not in own
    assert time in run(capsys, *words).out
    assert time in run(capsys, "compare", launch_file, "--gpu", "mdm-pascal,gpumech", "--model", "mdm").out
    assert json.loads(run(capsys, *words, "--json").out) == document


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("model", "mdn"), ('did you mean "mdm"',)),
            (("gpu", "8800"), ('"8800gt" or "8800gtx"',)),
        (("--clear",), ("--clear: needs the name",)),
        (("units", "hours"), ('"hours" is no unit', "auto, s, ms, us, ns")),
        (("cache", "file"), ("file: is a file, not a folder",)),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_not_kept(
    words: tuple[str, ...], parts: tuple[str, ...], settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert_one_error(run(capsys, "config", *words), 2, *parts)
    assert not settings.exists()


def test_verbose_tells_each_step_with_its_time(launch_file: Path, capsys: Capture) -> None:
    words = ("predict", launch_file, "--model", "mdm", "--sample", "2")
    quiet = run(capsys, *words)
    told = run(capsys, *words, "--verbose")
    assert (quiet.err, told.out) == ("", quiet.out.replace("--sample 2", "--sample 2 --verbose"))
    lines = told.err.splitlines()
    assert all(float(line.split(" s  ")[0]) >= 0 for line in lines)
    for part in ("compile ", "from the cache", "run saxpy on ", "2 of 8 blocks recorded",
                 "caches of mdm-pascal, exact, clocked, L2 cold", "representative warp by kmeans",
                 "model mdm", "in all; "):  # fmt: skip
        assert part in told.err
    assert run(capsys, "gpus", "list", "--verbose").code == 0


def test_a_note_is_told_once_and_on_stderr(launch_file: Path, capsys: Capture) -> None:
    outcome = run(capsys, "predict", launch_file, "--gpu", "A100", "--json")
    assert outcome.err == 'note: "A100" is a100, the NVIDIA A100 SXM4 40 GB; the catalogue also has a100-80gb\n'
    assert json.loads(outcome.out)["gpu"] == "a100"


@pytest.mark.parametrize("command", ["predict", "explain", "advise", "report", "simulate"])
def test_help_begins_with_the_common_options(command: str, capsys: Capture) -> None:
    text = run(capsys, command, "--help").out
    head, _, rest = text.partition("common options:")
    assert head.startswith(f"usage: warpsight {command} ")
    first = rest.partition("\n\n")[0]
    shown = [line.split()[0] for line in first.splitlines() if line.startswith("  -")]
    assert shown == [option for option in COMMON if option in shown]
    assert set(shown) >= {"--grid", "--block", "--arg", "--gpu"}
    assert "--heap" in rest
    assert rest.count("  --grid ") == 1


def _completed(script: str, *words: str) -> set[str]:
    code = f'{script}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _warpsight; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", code, "bash", "warpsight", *words], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_options_and_values(capsys: Capture) -> None:
    script = run(capsys, "completion", "bash").out
    assert _completed(script, "pre") == {"predict"}
    assert _completed(script, "predict", "--cache") == {"--caches", "--caches-before"}
    assert _completed(script, "predict", "--gpu", "rtx40") == {"rtx4070", "rtx4080", "rtx4090"}
    assert _completed(script, "predict", "x.cu", "--level", "") == {"auto", "ptx", "sass"}
    assert _completed(script, "gpus", "c") == {"compare", "check"}
    assert _completed(script, "sweep", "pa") == {"pareto"}


def test_fish_and_zsh_have_every_command(capsys: Capture) -> None:
    fish, zsh = (run(capsys, "completion", shell).out for shell in ("fish", "zsh"))
    assert "complete -c warpsight -n __fish_use_subcommand -f -a predict -d 'predict the cycles" in fish
    assert "complete -c warpsight -n '__fish_seen_subcommand_from predict' -l level -x -a 'auto ptx sass'" in fish
    assert zsh.startswith("autoload -U +X compinit")
    assert "complete -o bashdefault -o default -F _warpsight warpsight" in zsh


@pytest.mark.parametrize(("pager", "paged"), [("sed s/^/:/", True), ("", False), ("no-such-pager", False)])
def test_long_answers_on_a_terminal_go_through_the_pager(pager: str, paged: bool) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "WARPSIGHT_PAGER": pager, "TERM": "xterm", "LINES": "10", "COLUMNS": "80"}
    command = [sys.executable, "-m", "warpsight", "models", "list"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 4096):
            text += part
    except OSError:  # the other end is closed
        pass
    assert process.wait() == 0
    os.close(ours)
    assert all(line.startswith(b":") == paged for line in text.splitlines())
    assert b"mdm" in text
