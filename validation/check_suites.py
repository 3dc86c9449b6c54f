"""Runs `warpsight check` over public suites of correct and faulty kernels and writes what it finds, misses and reports falsely.

    python validation/check_suites.py nvidia=/build/nvidia scor=/build/scor faial=/sources/faial/examples/drf
    python validation/check_suites.py --level sass --write gpurepair=/sources/gpurepair/tests/testsuite
    python validation/check_suites.py --slowdown --write

It downloads and builds nothing: each argument names a suite of `check_suites.yaml` and a folder, with programs built by
`nvcc -cudart shared -lineinfo -gencode arch=compute_75,code=compute_75`, or with the suite's kernels as sources. The labels of that
file say what is wrong in each. A planted bug is found if a finding of its kind names one of its lines, and found at another line if
a finding of its kind names others only. A finding of a kind that the labels do not have is a false alarm. `--slowdown` measures
what each check costs on the kernels of Warpsight's own suite: processor time of the execution, the least of three, in turn with
the unchecked one.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import os
import re
import signal
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from marked_page import get, put
from warpsight.base.findings import INITCHECK, MEMCHECK, RACECHECK, SYNCCHECK, WATCHING
from warpsight.cli.main import main as warpsight_main
from warpsight.emulator.run.launch import execute as emulate
from warpsight.emulator.run.launch import prepare_kernel
from warpsight.kernels.launch import RunOptions
from warpsight.pipeline.kernel_input import prepare
from warpsight.pipeline.suites import SuiteKernel, load_suite

PLAN = Path(__file__).with_suffix(".yaml")
PROGRAMS = Path(__file__).with_name("programs.yaml")  # right programs of other suites, and their arguments
PAGE = Path(__file__).with_name("check.md")
COMMAND = "python validation/check_suites.py --write"
LIMITED = ("--max-instructions", "5_000_000")  # of runs that execute a few thousand, unless they never end
LIMIT = 4  # the exit code there
CLASSES = {"oob": "memory", "misaligned": "memory", "warprace": "race"}  # a label's kind as a class of findings, where they differ
KINDS = ("oob", "misaligned", "leak", "api", "uninit", "race", "warprace", "sync", "hang")
TOOLS = {"racecheck": "race", "initcheck": "uninit", "synccheck": "sync"}
# The suites' annotations for static analysers mean nothing where a kernel is executed.
ANNOTATIONS = """#define __requires(...) ((void)0)
#define __ensures(...) ((void)0)
#define __assume(...) ((void)0)
#define __assert(...) ((void)0)
#define __invariant(...) true
#define __global_invariant(...) true
#define __builtin_memcpy memcpy
#define __builtin_memset memset
"""
GROUPS = "#include <cooperative_groups.h>\n#define synchronize(group) (group).sync()\n"


@dataclass(frozen=True)
class Label:
    """A planted bug: its kind, and the lines of which a finding must name one (none: any)."""

    kind: str
    lines: frozenset[int]

    @property
    def finding(self) -> str:
        """The class of findings that shows it."""
        return CLASSES.get(self.kind, self.kind)


def label(text: str) -> Label:
    """KIND[@LINE[,LINE]]."""
    kind, _, lines = text.partition("@")
    return Label(kind, frozenset(int(line) for line in lines.split(",") if line))


@dataclass(frozen=True)
class Case:
    """One run of one program or kernel, and what is wrong in it."""

    suite: str
    name: str
    command: tuple[str, ...]  # what follows `warpsight check` and its own options
    expect: tuple[Label, ...]
    may: frozenset[str]  # classes of findings that are not judged
    wrapper: str = ""  # the source to be checked, where it isn't the file itself


@dataclass
class Outcome:
    """What a check of a case said."""

    case: Case
    found: list[Label] = field(default_factory=list)
    elsewhere: list[Label] = field(default_factory=list)
    missed: list[Label] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    refused: str = ""
    seconds: float = 0.0


def cases(folders: dict[str, Path], only: str, work: Path) -> Iterator[Case]:
    """All runs of the suites in the folders; `work` takes the input that Indigo's programs need."""
    plan, right = (YAML(typ="safe").load(path) for path in (PLAN, PROGRAMS))
    for suite, folder in folders.items():
        if suite not in plan and suite not in right["suites"]:
            sys.exit(f"error: no suite {suite!r} in {PLAN.name} or {PROGRAMS.name}: {', '.join([*plan, *right['suites']])}")
        rules, folder = plan.get(suite, {}), folder.resolve()  # noqa: PLW2901
        if suite in right["suites"]:
            made = right_programs(suite, folder, rules, right["suites"][suite].get("programs", {}))
        else:
            made = kernels(suite, folder, rules) if "kernels" in rules else programs(suite, folder, rules, work)
        yield from (case for case in made if re.search(only, f"{case.suite}/{case.name}"))


def labels(row: dict[str, Any], rules: dict[str, Any]) -> tuple[tuple[Label, ...], frozenset[str]]:
    """What a row of the plan says is wrong, and what is not judged."""
    may = [*rules.get("may", []), *row.get("may", [])]
    return tuple(label(text) for text in row.get("expect", [])), frozenset(CLASSES.get(kind, kind) for kind in may)


def programs(suite: str, folder: Path, rules: dict[str, Any], work: Path) -> Iterator[Case]:
    """The programs of a folder: those of the plan, or all, labelled by the words of their names."""
    named = rules.get("programs")
    for program in executables(folder):
        if named is not None and program.name not in named:
            continue
        row = {"arguments": rules.get("arguments", ""), "expect": [], "may": []} | (named[program.name] if named else {})
        for word, said in rules.get("words", {}).items():
            if word in program.name.split("_"):
                row["arguments"] = said.get("arguments", row["arguments"])
                row["expect"] = [*row["expect"], *said.get("expect", [])]
                row["may"] = [*row["may"], *said.get("may", [])]
        words = [str(graph(work)) if word == "GRAPH" else word for word in str(row["arguments"]).split()]
        yield Case(suite, program.name, (*LIMITED, "--", str(program), *words), *labels(row, rules))


def executables(folder: Path) -> list[Path]:
    """The programs in a folder."""
    return sorted(p for p in folder.iterdir() if p.is_file() and p.stat().st_mode & 0o100)


def right_programs(suite: str, folder: Path, rules: dict[str, Any], runs: dict[str, Any]) -> Iterator[Case]:
    """The programs of a folder as `programs.yaml` runs them: right, but for what the plan says of them."""
    for program in executables(folder):
        for row in runs.get(program.name, [{}]):
            words = [str(word) for word in row.get("arguments", [])]
            known = rules.get("programs", {}).get(program.name, {})
            tools = ["--tool", known["tool"]] if "tool" in known else []
            name = " ".join([program.name, *words, *tools])
            yield Case(suite, name, (*tools, "--", str(program), *words), *labels(known, rules))


def kernels(suite: str, folder: Path, rules: dict[str, Any]) -> Iterator[Case]:
    """The kernels of the plan; each row is a run, a list of runs, or has `runs`."""
    for path, said in rules["kernels"].items():
        rows = said if isinstance(said, list) else [said | run for run in said["runs"]] if "runs" in said else [said]
        for row in ({"args": rules.get("args", ""), "at": rules.get("at", "")} | row for row in rows):
            grid, block = str(row["at"]).split()
            command = [*LIMITED, "--grid", grid, "--block", block, *(["--shared", str(row["shared"])] if "shared" in row else [])]
            arguments = [f"{a}:zeros" if a.endswith("]") else a for a in str(row["args"]).split()]
            command += [word for argument in arguments for word in ("--arg", argument)]
            # An include keeps the lines of the source.
            before = ANNOTATIONS + (GROUPS if row.get("groups") else "") + row.get("before", "")
            wrapper = f'{before}\n#include "{folder / path}"\n{row.get("after", "")}\n'
            yield Case(suite, f"{path} {row['at']}", tuple(command), *labels(row, rules), wrapper)


def graph(work: Path) -> Path:
    """101 vertices, the last without neighbours, in the format of Indigo: counts, row starts, neighbours.

    The first neighbour of all others is vertex 99, so that many warps and blocks meet there; then come one in a ring and a chord.
    """
    path = work / "graph.egr"
    if not path.exists():
        rows = [[99, (vertex + 1) % 100, (vertex * 7 + 3) % 100] for vertex in range(99)] + [[5, 17], []]
        starts = [sum(len(row) for row in rows[:vertex]) for vertex in range(len(rows) + 1)]
        numbers = [len(rows), starts[-1], *starts, *(neighbour for row in rows for neighbour in row)]
        path.write_bytes(struct.pack(f"<{len(numbers)}i", *numbers))
    return path


def run(case: Case, options: list[str], seconds: int, work: Path, *, here: bool = False) -> Outcome:
    """Check a case and compare the findings with its labels. The first is run `here`, so that the others find all code loaded."""
    outcome, said = Outcome(case), work / "findings.json"
    said.unlink(missing_ok=True)
    words = ["check", "--format", "json", "-o", str(said), *options]
    if case.wrapper:
        source = work / "kernel.cu"
        source.write_text(case.wrapper, encoding="utf-8")
        words += [str(source)]
    started = time.monotonic()
    words += case.command
    code, output = (warpsight_main(words), "") if here else spawn(words, work, seconds)
    outcome.seconds = time.monotonic() - started
    if code == LIMIT:
        judge(outcome, [{"tool": "hang"}])
        return outcome
    if code not in (0, 5) or not said.exists():
        errors = [line for line in output.splitlines() if "error" in line] or output.strip().splitlines()[-1:]
        outcome.refused = f"exit code {code}: {errors[0][:150] if errors else ''}" if code is not None else f"more than {seconds} s"
        return outcome
    judge(outcome, json.loads(said.read_text(encoding="utf-8"))["findings"])
    return outcome


def judge(outcome: Outcome, findings: list[dict[str, Any]]) -> None:
    """Sort labels into found, found elsewhere and missed, and findings of other classes into false alarms."""
    lines: dict[str, set[int]] = collections.defaultdict(set)
    for finding in findings:
        lines[kind(finding)] |= places(finding)
    for wanted in outcome.case.expect:
        if wanted.finding not in lines:
            outcome.missed.append(wanted)
        elif wanted.lines and not wanted.lines & lines[wanted.finding]:
            outcome.elsewhere.append(wanted)
        else:
            outcome.found.append(wanted)
    fine = {wanted.finding for wanted in outcome.case.expect} | outcome.case.may
    outcome.false = sorted({f"{kind(f)}: {f.get('message', f.get('kind', ''))}"[:140] for f in findings if kind(f) not in fine})


def kind(finding: dict[str, Any]) -> str:
    """The class of a finding: its tool's, and for memcheck whether it is an access, a leak or a failed call."""
    said = str(finding.get("kind", "")).lower()
    if finding.get("tool") != "memcheck":
        return TOOLS.get(str(finding.get("tool")), str(finding.get("tool")))
    return "leak" if "leak" in said else "api" if "api" in said or "call" in said else "memory"


def places(value: Any) -> set[int]:
    """All lines that a finding names, in whatever part of it."""
    if isinstance(value, dict):
        own = {value["line"]} if isinstance(value.get("line"), int) else set()
        return own.union(*(places(part) for part in value.values()))
    return set().union(*(places(part) for part in value)) if isinstance(value, list) else set()


def spawn(words: list[str], folder: Path, seconds: int) -> tuple[int | None, str]:
    """Exit code and output of a command line of Warpsight, run in a process of its own that begins with all that is imported here.

    None as code where it took longer, and then nothing of it goes on running.
    """
    output = folder / "output.txt"
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(folder)
        written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(written, 1)
        os.dup2(written, 2)
        os._exit(warpsight_main(words))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), output.read_text(encoding="utf-8", errors="replace")
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None, ""


def heading() -> list[str]:
    """The first lines of the table of suites."""
    names = ["suite", "runs", *KINDS, "found", "at another line", "missed", "right runs", "runs with a false alarm", "not run"]
    return [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]


def summary(suite: str, outcomes: list[Outcome]) -> str:
    """One row: of each kind found/planted, then the sums."""
    ran = [outcome for outcome in outcomes if not outcome.refused]
    planted = collections.Counter(wanted.kind for outcome in ran for wanted in outcome.case.expect)
    found = collections.Counter(wanted.kind for outcome in ran for wanted in outcome.found)
    kinds = [f"{found[name]}/{planted[name]}" if planted[name] else "" for name in KINDS]
    sums = [sum(len(getattr(outcome, name)) for outcome in ran) for name in ("found", "elsewhere", "missed")]
    right = sum(not outcome.case.expect for outcome in ran)
    alarms = sum(bool(outcome.false) for outcome in ran)
    cells = [suite, len(outcomes), *kinds, *sums, right, alarms, len(outcomes) - len(ran)]
    return f"| {' | '.join(map(str, cells))} |"


def differences(suite: str, outcomes: list[Outcome]) -> list[str]:
    """A row for each thing that is not as the labels say."""
    rows = []
    for outcome in outcomes:
        said = [f"missed {show(wanted)}" for wanted in outcome.missed]
        said += [f"{show(wanted)} at another line" for wanted in outcome.elsewhere]
        said += [f"false alarm: {text}" for text in outcome.false] + ([f"not run: {outcome.refused}"] if outcome.refused else [])
        rows += [f"| {suite} | {outcome.case.name} | {re.sub(r'/[^ :]*/', '', text).replace('|', '/')} |" for text in said]
    return rows


def show(wanted: Label) -> str:
    """A label as the plan has it."""
    return wanted.kind + ("@" + ",".join(map(str, sorted(wanted.lines))) if wanted.lines else "")


def merge(name: str, title: list[str], suites: set[str], rows: list[str]) -> str:
    """The table that stands in the page with the rows of `suites` replaced, sorted by suite."""
    kept = [row for row in get(PAGE, COMMAND, name).splitlines()[2:] if row.split("|")[1].strip() not in suites]
    return "\n".join([*title, *sorted([*kept, *rows], key=lambda row: row.split("|")[1])])


CHECKS = {tool: frozenset({tool}) for tool in (MEMCHECK, INITCHECK, RACECHECK, SYNCCHECK)} | {"all": WATCHING}


def slowdown(only: str) -> list[str]:
    """What each check costs on the kernels of the own suite, as a Markdown table."""
    rows, ratios = [], {name: [] for name in CHECKS}  # type: tuple[list[str], dict[str, list[float]]]
    for kernel in load_suite("warpsight"):
        if not re.search(only, kernel.name):
            continue
        instructions, plain, checked = cost(kernel)
        cells = [kernel.name, f"{instructions:,}", f"{plain:.3f}", *(f"{seconds / plain:.1f}" for seconds in checked.values())]
        rows.append(f"| {' | '.join(cells)} |")
        print(rows[-1], flush=True)
        for name, seconds in checked.items():
            ratios[name].append(seconds / plain)
    means = {name: (statistics.geometric_mean(of), statistics.median(of), max(of)) for name, of in ratios.items()}
    names = ("geometric mean", "median", "worst")
    sums = [f"| {name} | | | {' | '.join(f'{of[n]:.1f}' for of in means.values())} |" for n, name in enumerate(names)]
    title = f"| kernel | warp instructions | seconds unchecked | {' | '.join(CHECKS)} |"
    return [title, "|---|---:|---:" + "|---:" * len(CHECKS) + "|", *sums, *rows]


def cost(kernel: SuiteKernel) -> tuple[int, float, dict[str, float]]:
    """Warp instructions, the least processor time of a launch without checks, and with each, compiling aside."""
    ready = prepare(kernel.request())
    ways = {"": frozenset[str]()} | CHECKS
    prepared = {name: prepare_kernel(ready.source, ready.launch.kernel, checks=tools) for name, tools in ways.items()}
    best, instructions = dict.fromkeys(ways, math.inf), 0
    for _ in range(3):
        for name, tools in ways.items():
            begin = time.process_time()
            instructions = emulate(prepared[name], ready.launch, None, options=RunOptions(check=tools, found=lambda finding: None))
            best[name] = min(best[name], time.process_time() - begin)
    plain = best.pop("")
    return instructions, plain, best


def main() -> int:
    """Run the cases, print what is not as the labels say, and keep the tables if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="SUITE=FOLDER")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--seconds", type=int, default=60, help="time that a run may take")
    parser.add_argument("--level", choices=["ptx", "sass"], help="the instructions that are checked (default: those of the check)")
    parser.add_argument("--slowdown", action="store_true", help="measure what the checks cost")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    arguments = parser.parse_args()
    if arguments.only and arguments.write:
        parser.error("--write takes whole suites: leave --only out")
    tables = {"slowdown": "\n".join(slowdown(arguments.only))} if arguments.slowdown else {}
    folders = {suite: Path(folder) for suite, _, folder in (word.partition("=") for word in arguments.folders)}
    outcomes: dict[str, list[Outcome]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        run(Case("", "", ("--grid", "1", "--block", "1"), (), frozenset(), "__global__ void nothing() {}"), [], 60, work, here=True)
        for case in cases(folders, arguments.only, work):
            suite = f"{case.suite} ({arguments.level})" if arguments.level else case.suite
            options = ["--level", arguments.level] if arguments.level else []
            outcomes[suite].append(run(case, options, arguments.seconds, work))
            for row in differences(suite, outcomes[suite][-1:]):
                print(row, flush=True)
    sums = [summary(suite, of) for suite, of in outcomes.items()]
    print(*heading(), *sums, sep="\n")
    if arguments.write:
        if outcomes:
            tables["suites"] = merge("suites", heading(), set(outcomes), sums)
            rows = [row for suite, of in outcomes.items() for row in differences(suite, of)]
            tables["differences"] = merge("differences", ["| suite | run | what |", "|---|---|---|"], set(outcomes), rows)
        put(PAGE, COMMAND, tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
