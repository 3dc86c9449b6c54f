"""Runs Triton's own unit tests on Warpsight: kernels are executed here, and the tests compare with NumPy and PyTorch.

    python validation/triton_suite.py /checkout/triton --gpu a100 --level ptx --count 40
    python validation/triton_suite.py /checkout/triton --gpu a100,h100-sxm --level ptx,sass --count 200 --write

The folder is a checkout of https://github.com/triton-lang/triton of the version that is installed (`pip install 'warpsight[triton]'
torch pytest scipy expecttest`); nothing of it is changed and nothing is downloaded. Of each file `--count` cases are run, chosen
by a fixed seed (`--seed` for a further sample), or all with `--count 0`; with `--each N` at most N cases of one test function, so
that few cases reach many features. `--write` puts the table into `validation/triton.md`; with
`--add` it keeps the rows of that page that were not run again. Rows of a checkout of another version than the one installed, or of
another seed, say so. A case that ends the process, or takes more than `--seconds` of CPU time, counts as failed, and the rest go
on.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from warpsight.base.errors import WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.kernels.machine_code import native_architecture
from warpsight.pipeline.kernel_input import wanted_architecture
from warpsight.programs.script import ScriptDevice, seen_by_scripts
from warpsight.programs.session import Observer

triton = importlib.import_module("triton")  # before pytest finds the one in the checkout, which is not built
PAGE, SETTINGS, SEED = Path(__file__).with_name("triton.md"), "WARPSIGHT_TRITON_SUITE", 21
UNIT, GLUON = "unit/language", "gluon"
FILES = {UNIT: ("test_core.py", "test_annotations.py", "test_block_pointer.py", "test_conversions.py", "test_decorator.py",
         "test_libdevice.py", "test_matmul.py", "test_pipeliner.py", "test_random.py", "test_standard.py",
         "test_tensor_descriptor.py", "test_tuple.py", "test_warp_specialization.py", "test_clc.py", "test_mxfp.py"),
         GLUON: ("test_core.py", "test_lowerings.py")}  # fmt: skip
MOST_INSTRUCTIONS = 20_000_000
PASSED, FAILED, REFUSED, SKIPPED = "passed", "failed", "refused", "skipped"
_REFUSALS = ("UnsupportedError", "LimitError")
_RACES = "the test races: a block writes by TMA into another one's shared memory, which that block may initialise later"
NOTES = {  # by test function: why its cases do not pass
    "test_cross_cta_tma": _RACES, "test_tma_gather_scatter_subslice": _RACES,
    "test_cat": "only the order differs, which `can_reorder` leaves to the compiler; the test is of a later version",
}  # fmt: skip
HEAD = """# Triton's own unit tests

`python validation/triton_suite.py CHECKOUT --write` generates this page; its help says how to obtain the tests. The tests run
as published, with Warpsight as the device; their expected results come from NumPy and PyTorch on the CPU. From each file a
sample was run, drawn with a fixed seed; the table gives its size, and files that it does not name were not run. Accesses
slightly beyond a tensor do not end a test, as on a GPU. "Refused" means that Warpsight reports that it does not model what the
kernel needs, or that the launch exceeds {limit:,} warp instructions; "failed" that something else went wrong; "skipped" that
the test itself says that it does not apply to this GPU. Triton {version}. Rows "of" another version use that version's test files,
run with Triton {version}; "seed" marks an additional sample with that seed, "each N" one with at most N cases of a test function.

"""


# -- Inside of pytest: this module is a plug-in of it, in a process of its own.

def _settings() -> dict[str, Any]:
    return dict(json.loads(os.environ[SETTINGS]))


class AsOnAGpu(Observer):
    """Accesses just past a tensor end no launch, as they end none on a GPU: some tests make them."""

    @property
    def out_of_bounds(self) -> Callable[[WarpsightError, int], None]:
        """They are let through."""
        return lambda error, accesses: None


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Iterator[None]:
    """All tests see the device, and so do their files when they are read."""
    settings = _settings()
    gpu = load_gpu(settings["gpu"])
    architecture = native_architecture(wanted_architecture(gpu))[0] if settings["level"] == "sass" else None
    with seen_by_scripts(ScriptDevice(gpu, architecture, AsOnAGpu(), MOST_INSTRUCTIONS)):
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The sample, without what has run already."""
    settings = _settings()
    chosen = sorted(items, key=lambda item: item.nodeid)
    if settings["count"] or settings["each"]:
        random.Random(settings["seed"]).shuffle(chosen)
    if settings["each"]:
        seen: collections.Counter[str] = collections.Counter()
        of_functions, chosen = chosen, []
        for item in of_functions:
            function = item.nodeid.partition("[")[0]
            seen[function] += 1
            if seen[function] <= settings["each"]:
                chosen.append(item)
    if settings["count"]:
        chosen = chosen[: settings["count"]]
    done = {row["test"] for row in _rows(Path(settings["log"]))}
    items[:] = [item for item in chosen if item.nodeid not in done]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """One test, which an interrupt ends where it takes too long."""
    seconds = _settings()["seconds"]

    def stop(*_: object) -> None:
        pytest.fail(f"stopped after {seconds} s of CPU time", pytrace=False)

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Written before the test, so that a process that dies says in which one."""
    _note(nodeid, FAILED, "the process ended")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """What became of a test."""
    if report.when == "call" or report.outcome != PASSED:
        _note(report.nodeid, *_outcome(report))


def _outcome(report: pytest.TestReport) -> tuple[str, str]:
    if report.outcome == SKIPPED:
        return SKIPPED, ""
    if report.outcome == PASSED:
        return PASSED, ""
    text = report.longreprtext
    said = [line[2:].strip() for line in text.splitlines() if line.startswith("E ")] or text.splitlines()[-1:]
    message = next((line for line in said if re.match(r"[\w.]*(Error|Exception|Fault|Resources)\b", line)), said[0] if said else "")
    return REFUSED if any(name in message for name in _REFUSALS) else FAILED, message


def _note(test: str, outcome: str, message: str) -> None:
    with Path(_settings()["log"]).open("a") as log:
        log.write(json.dumps({"test": test, "outcome": outcome, "message": message}) + "\n")


# -- Outside.

def _rows(log: Path) -> list[dict[str, str]]:
    """The last word on each test."""
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return list({row["test"]: row for row in rows}.values())


def run_file(file: Path, gpu: str, level: str, sample: dict[str, int]) -> list[dict[str, str]]:
    """The outcomes of the tests of one file: as many processes as it takes."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        settings = {"gpu": gpu, "level": level, **sample, "log": str(log)}
        paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, SETTINGS: json.dumps(settings), "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "triton_suite", "-p", "no:cacheprovider", "--tb=short", str(file)]
        before = -1
        while before < len(_rows(log)):
            before = len(_rows(log))
            ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
            if ended.returncode in (0, 1, 5):
                break
            print(f"{file.name}: the process ended with {ended.returncode}: {ended.stderr[-500:]}", file=sys.stderr, flush=True)
        if not _rows(log):
            print(ended.stdout[-2000:], ended.stderr[-2000:], file=sys.stderr)
        return _rows(log)


Results = dict[tuple[str, str, str], list[dict[str, Any]]]  # by file, GPU and level


def _kept(log: Path) -> Results:
    """The outcomes that a log has."""
    results: Results = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        row = json.loads(line)
        results.setdefault(tuple(row["on"]), []).append(row)
    return results


_FIRST = "| file | GPU | level | tests | passed | failed | refused | skipped |"
_SECOND = "| outcome | on | tests | what is said | for example |"


def _rows_of(page: str, head: str) -> list[str]:
    """The rows of the table on the page that begins with `head`."""
    lines = page.split("\n")
    start = lines.index(head) + 2 if head in lines else len(lines)
    end = next((k for k in range(start, len(lines)) if not lines[k].startswith("|")), len(lines))
    return lines[start:end]


def label(folder: Path, seed: int, each: int) -> str:
    """What a row says behind the file's name: another version of its checkout, another seed, few cases of one function."""
    package = (folder / "python" / "triton" / "__init__.py").read_text()
    version = re.search(r"__version__ = '([\d.]+)'", package)
    other = f" of {version[1]}" if version is not None and version[1] != triton.__version__ else ""
    return other + (f", seed {seed}" if seed != SEED else "") + (f", each {each}" if each else "")


def table(results: Results, page: str = "") -> str:
    """Counts by file, GPU and level, then why tests did not pass; with the rows of `page` that are not among the results."""
    run = {f"| {' | '.join(key)} |" for key in results}
    lines = [_FIRST, "|---|---|---|---:|---:|---:|---:|---:|"]
    lines += [row for row in _rows_of(page, _FIRST) if not any(row.startswith(key) for key in run)]
    why: collections.Counter[tuple[str, str, str]] = collections.Counter()
    example: dict[tuple[str, str, str], str] = {}
    for (file, gpu, level), rows in results.items():
        counts = collections.Counter(row["outcome"] for row in rows)
        numbers = " | ".join(str(counts[kind]) for kind in (PASSED, FAILED, REFUSED, SKIPPED))
        lines.append(f"| {file} | {gpu} | {level} | {len(rows)} | {numbers} |")
        for row in rows:
            if row["outcome"] in (FAILED, REFUSED):
                note = NOTES.get(row["test"].rpartition("::")[2].partition("[")[0], "")
                key = (row["outcome"], f"{gpu}, {level}", _general(row["message"]) + (f"; {note}" if note else ""))
                why[key] += 1
                example.setdefault(key, row["test"].rpartition("::")[2])
    lines += ["", _SECOND, "|---|---|---:|---|---|", *_rows_of(page, _SECOND)]
    for key, number in why.most_common():
        outcome, place, message = key
        lines.append(f"| {outcome} | {place} | {number} | {message} | `{example[key].replace('|', '/')}` |")
    return "\n".join(lines)


def _general(message: str) -> str:
    """A message without what differs from test to test."""
    message = re.sub(r"(?:/[\w.+-]+)+/(?=\w+\.py)", "", message)  # where the checkout is
    message = re.sub(r"\(Triton\)(:\d+|\+0x[0-9a-f]+)*", "(Triton)", message.replace("|", "/"))
    message = re.sub(r"\b\w+ \(Triton\):?", "", message)
    return re.sub(r"\s+", " ", re.sub(r"0x[0-9a-f]+|\d{4,}", "N", message)).strip()[:200]


def main() -> int:
    """Run and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a checkout of Triton")
    parser.add_argument("--gpu", default="a100", help="names, separated by commas")
    parser.add_argument("--level", default="ptx", help="ptx, sass, or both, separated by a comma")
    parser.add_argument("--count", type=int, default=100, help="cases of each file, 0 for all")
    parser.add_argument("--each", type=int, default=0, help="cases of each test function at most, 0 for any number")
    parser.add_argument("--seconds", type=float, default=120, help="CPU time after which a case is stopped")
    parser.add_argument("--only", default="", help="only files whose folder and name match this regular expression")
    parser.add_argument("--log", type=Path, help="keep outcomes in this file, as JSON lines; files that it has are not run again")
    parser.add_argument("--seed", type=int, default=SEED, help="chooses the cases")
    parser.add_argument("--add", action="store_true", help="keep the page's other rows")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    arguments = parser.parse_args()
    tests = arguments.folder / "python" / "test"
    names = [(folder, name) for folder, inside in FILES.items() for name in inside if re.search(arguments.only, f"{folder}/{name}")]
    files = {name if folder == UNIT else f"{folder}/{name}": tests / folder / name for folder, name in names}
    files = {name: file for name, file in files.items() if file.is_file()}
    if not files:
        parser.error(f"{tests} has none of the tests")
    results = _kept(arguments.log) if arguments.log is not None else {}
    behind = label(arguments.folder, arguments.seed, arguments.each)
    sample = {name: getattr(arguments, name) for name in ("count", "each", "seed", "seconds")}
    for gpu in arguments.gpu.split(","):
        for level in arguments.level.split(","):
            for name, file in files.items():
                key = (name + behind, gpu, level)
                if key in results:
                    continue
                results[key] = run_file(file, gpu, level, sample)
                counts = dict(collections.Counter(row["outcome"] for row in results[key]))
                print(f"{' '.join(key)}: {counts}", file=sys.stderr, flush=True)
                if arguments.log is not None:
                    with arguments.log.open("a") as log:
                        log.writelines(json.dumps({**row, "on": key}) + "\n" for row in results[key])
    made = table(results, PAGE.read_text() if arguments.add else "")
    if arguments.write:
        PAGE.write_text(HEAD.format(limit=MOST_INSTRUCTIONS, version=triton.__version__) + made + "\n")
    else:
        print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
