"""Runs programs of public benchmark suites under `warpsight run` and shows which pass their own verification, as a Markdown table.

    python validation/programs.py polybench=/build/polybench samples=/build/samples rodinia=/build/rodinia
    python validation/programs.py --only 'bfs|GEMM' --write polybench=/build/polybench

It downloads and builds nothing: each argument names a suite and a folder of programs, built with
`nvcc -cudart shared -gencode arch=compute_75,code=compute_75`. `validation/programs.yaml` lists programs with arguments and
pass criteria; other programs of the folder run without arguments. A program passes if it exits with 0, no launch failed
unexpectedly, and its output has its words of success and none of failure.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from reference_kernels import ROOT

PLAN = Path(__file__).with_suffix(".yaml")
TABLE = Path(__file__).with_suffix(".md")
BEGIN = "| suite | program | arguments | outcome | launches | warp instructions | seconds here | why |"


@dataclass(frozen=True)
class Case:
    """A program to run. `passes` must be found in its output, and `fails` must not; None where the program checks nothing."""

    suite: str
    program: Path
    arguments: tuple[str, ...]
    passes: str | None
    fails: str
    note: str
    faults: int  # launches that the program means to fail


def cases(folders: dict[str, Path], only: str) -> list[Case]:
    """All programs of the folders, with what the plan says of them."""
    plan = YAML(typ="safe").load(PLAN)
    found = []
    for suite, folder in folders.items():
        rules = plan["suites"].get(suite, {})
        named = rules.get("programs") or {}
        for program in sorted(p for p in folder.iterdir() if p.is_file() and p.stat().st_mode & 0o100):
            if not re.search(only, program.name):
                continue
            for row in named.get(program.name, [{}]):
                found.append(
                    Case(
                        suite,
                        program.resolve(),
                        tuple(str(word) for word in row.get("arguments", [])),
                        row.get("passes", rules.get("passes")),
                        row.get("fails", rules.get("fails", "(?!)")),
                        str(row.get("note", "")),
                        int(row.get("faults", 0)),
                    )
                )
    return found


def run(case: Case, seconds: int, gpu: str | None) -> dict[str, object]:
    """One row of the table; on `gpu` the program's kernels are executed as machine code."""
    command = [sys.executable, "-m", "warpsight", "run", "--json", "--launches", "1:3", *(["--gpu", gpu] if gpu else []), "--"]
    command += [str(case.program), *case.arguments]
    started = time.monotonic()
    row: dict[str, object] = {"suite": f"{case.suite} ({gpu})" if gpu else case.suite, "program": case.program.name}
    row |= {"arguments": " ".join(case.arguments), "note": case.note}
    ended = execute(command, case.program.parent, seconds)
    if ended is None:
        return row | {"outcome": "time-out", "seconds": seconds, "why": f"more than {seconds} s here"}
    code, standard_output, output = ended
    row["seconds"] = round(time.monotonic() - started, 1)
    errors = [line for line in output.splitlines() if line.startswith(("error:", "warpsight:"))]
    document = json.loads(standard_output) if standard_output.startswith("{") else {}
    totals = document.get("totals", {})
    row |= {"launches": totals.get("launches", ""), "warp_instructions": totals.get("warp_instructions", "")}
    ended_well = code == 0 and totals.get("failed", 0) == case.faults and not re.search(case.fails, output, re.MULTILINE)
    if ended_well:
        if case.passes is None or not totals.get("launches"):
            return row | {"outcome": "ran", "why": "it checks nothing" if case.passes is None else "it launches nothing"}
        if re.search(case.passes, output, re.MULTILINE):
            return row | {"outcome": "passed", "why": ""}
        return row | {"outcome": "failed", "why": "its words of success are not in its output"}
    outcome = "refused" if document.get("refused") or any("is not supported" in e for e in errors) else "failed"
    said = [line for line in output.splitlines() if re.search(case.fails, line)]
    last = [line for line in output.splitlines() if re.search(r"\w", line)]  # no ruler
    failed = totals.get("failed", 0)
    ended = [f"exit code {code}"] * (code != 0) + [f"{failed} launches failed"] * (failed != case.faults)
    return row | {"outcome": outcome, "why": "; ".join([*ended, *(errors or said or last[-1:])[:1]])[:160]}


def execute(command: list[str], folder: Path, seconds: int) -> tuple[int, str, str] | None:
    """Exit code, stdout and stderr; None where it took longer, and then nothing of it goes on running."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", cwd=folder, start_new_session=True
    ) as process:
        try:
            standard_output, output = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None
    return process.returncode, standard_output, output


def markdown(rows: list[dict[str, object]]) -> list[str]:
    """The rows as Markdown."""
    lines = []
    for row in rows:
        why = "; ".join(str(text) for text in (row["why"], row["note"]) if text).replace(str(ROOT), "").replace("|", "/")
        count = f"{row['warp_instructions']:,}" if isinstance(row.get("warp_instructions"), int) else ""
        cells = [row["suite"], row["program"], row["arguments"], row["outcome"], row.get("launches", ""), count]
        lines.append("| " + " | ".join(str(cell) for cell in [*cells, row["seconds"], why]) + " |")
    return lines


def write(lines: list[str]) -> None:
    """Replace rows of the same suite, program and arguments in the table, add the others, keep all sorted."""
    text = TABLE.read_text(encoding="utf-8")
    head, rest = text[: text.index(BEGIN)], text[text.index(BEGIN) :].splitlines()
    kept = {tuple(line.split("|")[1:4]): line for line in [*rest[2:], *lines] if line.startswith("| ")}
    ordered = [kept[key] for key in sorted(kept, key=lambda key: tuple(part.strip().lower() for part in key))]
    passed = sum("| passed |" in line for line in ordered)
    head = re.sub(r"\*\*.*\*\*", f"**{passed} of {len(ordered)} runs pass.**", head, count=1)
    TABLE.write_text("\n".join([head + BEGIN, "|---|---|---|---|---:|---:|---:|---|", *ordered]) + "\n", encoding="utf-8")


def main() -> int:
    """Run, print the rows, and keep them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="SUITE=FOLDER")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--seconds", type=int, default=200, help="time that a program may take")
    parser.add_argument("--gpu", metavar="NAME", help="a GPU whose machine code is executed (default: PTX)")
    parser.add_argument("--write", action="store_true", help=f"put the rows into {TABLE.name}")
    arguments = parser.parse_args()
    folders = {suite: Path(folder) for suite, _, folder in (word.partition("=") for word in arguments.folders)}
    for case in cases(folders, arguments.only):
        lines = markdown([run(case, arguments.seconds, arguments.gpu)])
        print(*lines, sep="\n", flush=True)
        if arguments.write:
            write(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
