"""Runs the PTX instruction tests of ZLUDA and GPUOcelot through `warpsight.trace` and shows which give the expected results.

    python validation/ptx_suites.py zluda=/checkout/ZLUDA gpuocelot=/checkout/gpuocelot
    python validation/ptx_suites.py --only 'cvt|shfl' zluda=/checkout/ZLUDA
    python validation/ptx_suites.py --write --gpu rtx2060,a100,h100-sxm zluda=/checkout/ZLUDA gpuocelot=/checkout/gpuocelot

It downloads nothing. The suites are public:

    git clone https://github.com/vosen/ZLUDA
    git clone --recurse-submodules=ocelot/hydrazine https://github.com/gtcasl/gpuocelot

`--write` puts the tables into `validation/ptx_suites.md`, with what is known about each test that does not pass
(`validation/ptx_suites.yaml`). With `--gpu` the tests also run as machine code of these GPUs. GPUOcelot's needs `g++`; all takes
about ten minutes, and as long again for each GPU.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ruamel.yaml import YAML

import suite_gpuocelot
import suite_zluda
from suite_case import FAILED, PASSED, REFUSED, Case, Outcome, run_case
from warpsight.gpu.loader import load_gpu
from warpsight.kernels.toolkit import parse_architecture

NOTES = Path(__file__).with_suffix(".yaml")
PAGE = Path(__file__).with_suffix(".md")
HEAD = """# PTX instruction tests of other projects

`python validation/ptx_suites.py --write --gpu NAMES SUITE=FOLDER ...` generates this page; its help says how to obtain the
suites. ZLUDA's tests list inputs and outputs. GPUOcelot's draw random inputs, ten per test here, and compute the expected
results in C++, floating point within their own tolerance. "Refused" means that Warpsight reports that it does not accept the
kernel; "failed" that it ran with a different result. Each test is executed as PTX, and as the machine code that NVIDIA's
assembler generates from it for some GPUs, if its PTX targets them.

"""
TARGET, MOST = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE), 10**6
NAMES = {"zluda": "ZLUDA", "gpuocelot": "GPUOcelot"}


@dataclass
class Suite:
    """What became of a suite's tests as machine code of `gpu`, or as PTX, and the names of those that state no expectation."""

    key: str
    gpu: str | None
    outcomes: list[Outcome] = field(default_factory=list)
    without: list[str] = field(default_factory=list)

    def count(self, kind: str) -> int:
        """How many tests ended so."""
        return sum(outcome.kind == kind for outcome in self.outcomes)


def run_suite(key: str, root: Path, only: re.Pattern[str], gpu: str | None) -> Suite:
    """Run the tests of the suite checked out at `root` whose names contain `only`; the first failure of a test counts.

    They run as machine code of `gpu`, those alone whose PTX is for it, or without a GPU as PTX.
    """
    newest = parse_architecture(load_gpu(gpu).compute_capability).number if gpu else MOST
    cases, without = (suite_zluda.read_cases(root)) if key == "zluda" else (suite_gpuocelot.read_cases(root), [])
    tests: dict[tuple[str, str], list[Case]] = {}  # GPUOcelot registers four tests twice
    for case in cases:
        target = TARGET.search(case.ptx)
        if only.search(case.name) and target is not None and int(target[1]) <= newest:
            tests.setdefault((case.name, case.ptx), []).append(case)
    suite = Suite(key, gpu, without=without)
    for number, group in enumerate(tests.values(), 1):
        outcome = next((o for case in group if (o := run_case(case, gpu)).kind != PASSED), Outcome(group[0].name, PASSED))
        suite.outcomes.append(outcome)
        print(f"{key} {gpu or 'ptx'} {number}/{len(tests)} {outcome.name}: {outcome.kind}", file=sys.stderr)
    return suite


def report(suites: list[Suite]) -> str:
    """The table of suites, and the table of tests that did not pass with the notes about them; of GPUs alike, the first."""
    notes = YAML(typ="safe", pure=True).load(NOTES)
    lines = ["| suite | executed | tests | passed | failed | refused |", "|---|---|---:|---:|---:|---:|"]
    for suite in suites:
        counts = " | ".join(str(suite.count(kind)) for kind in (PASSED, FAILED, REFUSED))
        lines.append(f"| {NAMES[suite.key]} | {suite.gpu or 'PTX'} | {len(suite.outcomes)} | {counts} |")
    lines += ["", "| suite | test | executed | outcome | what Warpsight says | note |", "|---|---|---|---|---|---|"]
    same: dict[tuple[str, str, str, str], list[str]] = {}
    for suite in suites:
        for outcome in suite.outcomes:
            if outcome.kind != PASSED:
                same.setdefault((suite.key, outcome.name, outcome.kind, outcome.why), []).append(suite.gpu or "PTX")
    for (key, name, kind, why), executed in same.items():
        note = notes[key].get(name, "")
        lines.append(f"| {NAMES[key]} | {name} | {', '.join(executed)} | {kind} | {_cell(why)} | {_cell(note)} |")
    for suite in suites:
        if suite.without and suite.gpu is None:
            lines += ["", f"{NAMES[suite.key]} states no expectation for {', '.join(suite.without)}: not run."]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Run the suites named on the command line and print, or with --write also keep, the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="+", metavar="SUITE=FOLDER", help="zluda= or gpuocelot= and the folder of the checkout")
    parser.add_argument("--only", default="", metavar="REGEX", help="only tests whose names contain this")
    parser.add_argument("--gpu", default="", metavar="NAMES", help="also as machine code of these GPUs, as rtx2060,a100")
    parser.add_argument("--write", action="store_true", help="also rewrite validation/ptx_suites.md")
    options = parser.parse_args()
    given = [text.partition("=") for text in options.suites]
    for key, _, folder in given:
        if key not in NAMES or not Path(folder).is_dir():
            parser.error(f'"{key}={folder}" is not zluda= or gpuocelot= with a folder that exists')
    gpus = [None, *filter(None, options.gpu.split(","))]
    text = report([run_suite(key, Path(folder), re.compile(options.only), gpu) for key, _, folder in given for gpu in gpus])
    print(text)
    if options.write:
        PAGE.write_text(HEAD + text + "\n")


if __name__ == "__main__":
    main()
