"""Do `explain` and `advise` take the inputs of `predict`, agree with it, and refuse the rest in one clear line?"""

from __future__ import annotations

import json
import re
import shlex
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from command_line import LAUNCH, assert_one_error, run

from warpsight.cli import advise
from warpsight.cli.main import parse
from warpsight.kernels.sources import load_source
from warpsight.result.prediction import COMPONENTS

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]


def _document(capsys: Capture, *words: object) -> dict[str, Any]:
    outcome = run(capsys, *words, "--json")
    assert outcome.code == 0, outcome.err
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def _sums(document: dict[str, Any]) -> dict[str, float]:
    rest = {part["component"]: part["cpi"] for part in document["rest"]}
    return {name: sum(row["cpi_stack"][name] for row in document["rows"]) + rest.get(name, 0.0) for name in COMPONENTS}


@pytest.mark.parametrize("model", ["mdm", "gpumech"])
@pytest.mark.parametrize("view", ["line", "source", "block"])
def test_explain_sums_to_what_predict_prints(view: str, model: str, launch_file: Path, capsys: Capture) -> None:
    words = (launch_file, "--model", model, "--set", "sm_count=4")
    prediction = _document(capsys, "predict", *words)
    document = _document(capsys, "explain", *words, "--by", view)
    del prediction["summary"]
    assert document["prediction"] == prediction
    assert _sums(document) == pytest.approx(prediction["cpi_stack"], abs=1e-9)
    cycles = sum(row["issue_cycles"] + row["wait_cycles"] for row in document["rows"]) + sum(
        part["wait_cycles"] for part in document["rest"]
    )
    assert cycles == pytest.approx(prediction["cycles"])


def test_explain_of_a_kernel_and_of_its_trace_is_the_same(launch_file: Path, capsys: Capture) -> None:
    folder = launch_file.parent / "saxpy.trace"
    assert run(capsys, "trace", launch_file, "-o", folder).code == 0
    documents = [_document(capsys, "explain", path, "--by", "line") for path in (launch_file, folder)]
    assert documents[0]["rows"] == documents[1]["rows"]
    texts = [row["text"] for row in documents[0]["rows"]]
    assert any(text.startswith("ld.global.f32 %f") and text.endswith(";") for text in texts)


def test_explain_shows_source_text_and_without_lines_the_ptx(saxpy: Path, capsys: Capture) -> None:
    outcome = run(capsys, "explain", saxpy, *LAUNCH)
    assert outcome.code == 0
    (line,) = [line for line in outcome.out.splitlines() if "a * x[i]" in line]
    assert line.split()[2] == "3"
    # PTX whose line information is taken out has only its own lines
    ptx = saxpy.parent / "bare.ptx"
    text = load_source(saxpy).ptx
    ptx.write_text("\n".join(part for part in text.splitlines() if not part.strip().startswith((".loc", ".file"))))
    assert _document(capsys, "explain", ptx, *LAUNCH)["by"] == "line"
    (row,) = [line for line in run(capsys, "explain", ptx, *LAUNCH, "--by", "source").out.splitlines() if "no source line" in line]
    assert row.endswith("  ld.global")  # an operand without a line is told by its opcode alone


_ROW = re.compile(r" *([\d.]+) % +(\d+)  (.*?)  +([\d.,]+) +([\d.,]+)  (\w+)")


@pytest.mark.parametrize("width", [80, 120, 200])
def test_source_lines_stand_by_their_cycles_and_a_listing_by_the_file(
    width: int, launch_file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    document = _document(capsys, "explain", launch_file)
    source = launch_file.with_name("saxpy.cu").read_text().splitlines()
    own = {row["line"]: row for row in document["rows"] if row["file"]}
    text, listing = (run(capsys, "explain", launch_file, *more).out.splitlines() for more in ((), ("--listing",)))
    assert max(map(len, [*text[:-1], *listing[:-1]])) <= width
    rows = [match for match in map(_ROW.match, text) if match]
    lines = [int(row[2]) for row in rows]
    assert sorted(lines) == sorted(own)
    assert lines == sorted(own, key=lambda line: -own[line]["share"])
    for row in rows:
        found = own[int(row[2])]
        assert (row[1], row[6]) == (f"{100 * found['share']:.1f}", found["cause"])
        assert source[found["line"] - 1].strip().startswith(row[3])
        for cycles, key in ((row[4], "issue_cycles"), (row[5], "wait_cycles")):
            assert float(cycles.replace(",", "")) == pytest.approx(found[key], rel=0.006)
    listed = [int(row[2]) for row in map(_ROW.match, listing) if row]
    assert listed == sorted(own)
    assert next(line for line in text if "total" in line).split()[:2] == ["100", "%"]


def test_small_lines_are_added_up_and_long_ones_are_broken_but_whole(tmp_path: Path, capsys: Capture) -> None:
    long = "y[i] += " + " + ".join(f"alpha * x[i + {k}]" for k in range(9)) + ";"
    small = "\n".join(f"  if (i == -{k}) y[{k}] = {k};" for k in range(2, 40))
    (tmp_path / "k.cu").write_text(f"""__global__ void k(const float* x, float* y, float alpha) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int turn = 0; turn < 64; turn++) {long}
{small}
}}
""")
    words = (tmp_path / "k.cu", "--grid", "8", "--block", "64", "--arg", "f32[1024]:uniform", "--arg", "f32[1024]:zeros",
             "--arg", "2")  # fmt: skip
    document, text = _document(capsys, "explain", *words), run(capsys, "explain", *words).out
    assert " ".join(text.split()).count("alpha * x[i + 1]") == 1
    match = re.search(r"([\d.]+) % +(\d+) more lines \(--listing shows all\) +([\d.,]+) ", text)
    assert match is not None
    left = sorted(row["share"] for row in document["rows"])[: int(match[2])]
    assert float(match[1]) == pytest.approx(100 * sum(left), abs=0.05)
    assert max(left) < 0.005
    assert "more lines" not in run(capsys, "explain", *words, "--listing").out


@pytest.mark.parametrize("command", ["explain", "advise"])
def test_next_line_is_a_command_that_parses(command: str, launch_file: Path, capsys: Capture) -> None:
    own = ["--by", "block"] if command == "explain" else ["--top", "1"]
    outcome = run(capsys, command, launch_file, *own, "--gpu", "gpumech", "--model", "gpumech")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert max(map(len, lines[1:-1])) <= 120
    words = shlex.split(lines[-1].removeprefix("next: warpsight "), comments=True)
    arguments = parse(words)[1]
    assert (arguments.path, arguments.gpu, arguments.models) == (str(launch_file), "gpumech", ["gpumech"])


def test_advise_json_has_all_changes_and_top_the_first(launch_file: Path, capsys: Capture) -> None:
    everything = _document(capsys, "advise", launch_file)
    prediction = _document(capsys, "predict", launch_file)
    del prediction["summary"]
    assert everything["prediction"] == prediction
    assert everything["with_gain"] == len(everything["advice"]) > 1
    first = _document(capsys, "advise", launch_file, "--top", "1")
    assert first["advice"] == everything["advice"][:1]
    keys = {"title", "place", "owner", "rule", "reason", "cost", "setting", "cycles", "gain_cycles", "gain"}
    assert keys <= set(first["advice"][0])
    for change in everything["advice"]:
        assert change["owner"] == ("architect" if change["setting"] else "programmer")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["explain", "--by", "file"], ['"file" is not one of line, source, block']),
        (["explain", "--model", "mdm,gpumech"], ["takes one model"]),
        (["explain", "--listing", "--by", "block"], ["--listing: is of source lines", "leave out one of them"]),
        (["explain", "--model", "mmd"], ['did you mean "mdm"']),
        (["advise", "--model", "mdm,gpumech"], ["takes one model"]),
        (["advise", "--top", "0"], ["--top", "at least 1"]),
        (["advise", "--top", "-3"], ["--top"]),
        (["advise", "--model", "mmd"], ['did you mean "mdm"']),
    ],
)
def test_wrong_words_are_refused_in_one_line(words: list[str], parts: list[str], launch_file: Path, capsys: Capture) -> None:
    assert_one_error(run(capsys, words[0], launch_file, *words[1:]), 2, *parts)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([(0.3, ""), (0.5, "l2.size=80 MiB")], ["explain"]),  # what the programmer can do comes first
        ([(0.02, ""), (0.3, "l2.size=80 MiB")], ["predict", "--set", "l2.size=80 MiB"]),
        ([(0.02, "l2.size=80 MiB")], ["explain"]),
        ([], ["explain"]),
    ],
)
def test_after_advice_comes_the_change_that_is_worth_it(changes: list[tuple[float, str]], words: list[str]) -> None:
    advice = [{"gain": gain, "setting": setting or None} for gain, setting in changes]
    arguments = Namespace(command_line=["advise", "k.yaml", "--top", "3"])
    found = shlex.split(advise._next({"advice": advice, "model": "mdm"}, arguments).removeprefix("next: "), comments=True)
    assert found == ["warpsight", words[0], "k.yaml", *words[1:]]
