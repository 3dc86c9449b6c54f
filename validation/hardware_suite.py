"""Warpsight's suite on a GPU of this machine: its results compared with the emulator's, and predictions with measurements.

    python validation/hardware_suite.py                      # measures, and prints the page
    python validation/hardware_suite.py --write              # also writes validation/hardware/NAME.json, NAME.ncu.csv and NAME.md
    python validation/hardware_suite.py --cases DIR --only-cases         # compiles and emulates; needs no GPU
    python validation/hardware_suite.py --from validation/hardware/NAME.json --write     # the page again; needs no GPU

Exits with 3 and the reason if there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hardware_tables import compared, page
from warpsight.base.errors import FormatError, UsageError, WarpsightError
from warpsight.hardware.device.measure import Settings
from warpsight.hardware.device.prepare import prepare_cases
from warpsight.hardware.device.profiler import profile_cases
from warpsight.hardware.device.suite import SCHEMA, device_document, measure_cases
from warpsight.hardware.measurements.ncu import read_ncu
from warpsight.pipeline.suites import Suite, SuiteKernel, load_suite

FOLDER = Path(__file__).resolve().parent / "hardware"
COMMAND = "python validation/hardware_suite.py"
PROFILED_SECONDS = 180


class Clock:
    """Progress on stderr, with the seconds since the beginning."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    def __call__(self, text: str) -> None:
        """One line."""
        print(f"[{time.monotonic() - self.start:5.0f} s] {text}", file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, or read what was; print the page, and with --write keep all."""
    arguments = _parser().parse_args(words)
    clock = Clock()
    try:
        _refuse_together(arguments)
        suite = load_suite(arguments.suite)
        if arguments.only_cases:
            return _only_cases(arguments, suite, clock)
        document, text = _read(Path(arguments.given)) if arguments.given else _measure(arguments, suite, clock)
        name = Path(arguments.given).stem if arguments.given else arguments.name or _short(document["device"]["name"])
        folder = Path(arguments.out)
        if arguments.write and not arguments.given:
            # kept before anything is predicted: what was measured is not lost by what comes after
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
            if text:
                (folder / f"{name}.ncu.csv").write_text(text, "utf-8")
            clock(f"kept {folder / name}.json")
        if arguments.no_page:
            return 0
        profiled = read_ncu(text, f"{name}.ncu.csv") if text else None
        made = page(compared(document, suite, profiled), f"{COMMAND} --from validation/hardware/{name}.json --write")
    except WarpsightError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(made, end="")
    if arguments.write:
        place = Path(arguments.given).parent if arguments.given else folder
        (place / f"{name}.md").write_text(made, "utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="warpsight", help="a suite's name or folder (default: warpsight)")
    parser.add_argument("--kernels", metavar="NAME[,NAME]", default="", help="only these")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="which GPU (default: 0)")
    parser.add_argument("--runs", type=int, default=Settings.runs, help="measured runs of each kernel")
    parser.add_argument("--warm-up", type=int, default=Settings.warm_up, help="runs before them")
    parser.add_argument("--warm", action="store_true", help="leave the caches as the run before left them")
    parser.add_argument("--no-ncu", action="store_true", help="do without Nsight Compute")
    parser.add_argument("--cases", metavar="DIR", help="where compiled and emulated kernels are kept and found again")
    parser.add_argument("--only-cases", action="store_true", help="make the cases, and do nothing else")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that emulate (default: one a processor)")
    parser.add_argument("--from", dest="given", metavar="FILE.json", help="what was measured before, on this machine or another")
    parser.add_argument("--write", action="store_true", help="keep what was measured and the page")
    parser.add_argument("--no-page", action="store_true", help="measure only; the page can be made anywhere with --from")
    parser.add_argument("--name", default="", help="of the files (default: the GPU's name)")
    parser.add_argument("--out", metavar="DIR", default=str(FOLDER), help="their folder (default: validation/hardware)")
    return parser


def _refuse_together(arguments: argparse.Namespace) -> None:
    """Options that say how to measure say nothing where nothing is measured."""
    measuring = ("kernels", "device", "runs", "warm_up", "warm", "no_ncu", "cases", "only_cases", "no_page", "name", "out")
    usual = _parser().parse_args([])
    changed = [name for name in measuring if getattr(arguments, name) != getattr(usual, name)]
    if arguments.given and changed:
        what = "says how to measure, and --from takes what was measured"
        raise UsageError(what, place=f"--{changed[0].replace('_', '-')}", remedy="leave one of them out")


def _chosen(arguments: argparse.Namespace, suite: Suite) -> list[SuiteKernel]:
    names = [name for name in arguments.kernels.split(",") if name]
    return [suite.kernel(name) for name in names] if names else list(suite)


def _cases(arguments: argparse.Namespace, kernels: Sequence[SuiteKernel], folder: Path, clock: Clock) -> dict[str, str]:
    missing = [kernel for kernel in kernels if not (folder / f"{kernel.name}.npz").exists()]
    clock(f"compiling and emulating {len(missing)} of {len(kernels)} kernels")
    return prepare_cases([(k.name, k.request()) for k in missing], folder, processes=arguments.jobs, log=clock)


def _only_cases(arguments: argparse.Namespace, suite: Suite, clock: Clock) -> int:
    if not arguments.cases:
        raise UsageError("there is no folder to keep them in", place="--only-cases", remedy="give --cases DIR")
    return 1 if _cases(arguments, _chosen(arguments, suite), Path(arguments.cases), clock) else 0


def _measure(arguments: argparse.Namespace, suite: Suite, clock: Clock) -> tuple[dict[str, Any], str]:
    """The document and what ncu wrote."""
    kernels = _chosen(arguments, suite)
    settings = Settings(arguments.runs, arguments.warm_up, not arguments.warm)
    # without a GPU nothing need be compiled to say so
    clock(f"GPU {arguments.device}: {device_document(arguments.device)['name']}")
    with TemporaryDirectory() as place:
        folder = Path(arguments.cases or place)
        failed = _cases(arguments, kernels, folder, clock)
        document = measure_cases(kernels, folder, settings, device=arguments.device, log=clock)
        for row in document["kernels"]:
            if row["name"] in failed:
                row["failed"] = failed[row["name"]]
        document["suite"] = suite.name
        good = [row for row in document["kernels"] if "measured" in row]
        document["profiler"] = {"kernels": [], "version": "", "why_not": "it was not asked for"}
        if arguments.no_ncu or not good:
            return document, ""
        clock(f"the same {len(good)} launches under Nsight Compute")
        names = [row["name"] for row in good]
        paths = [folder / f"{name}.npz" for name in names]
        found = profile_cases(paths, [row["kernel"] for row in good], device=arguments.device, limit=PROFILED_SECONDS)
        clock(f"Nsight Compute: {found.why_not or f'{len(good)} launches'}")
        document["profiler"] = {"kernels": [] if found.why_not else names, "version": found.version, "why_not": found.why_not}
        return document, found.text


def _read(path: Path) -> tuple[dict[str, Any], str]:
    """A document that was kept, and ncu's table beside it. Raises UsageError or FormatError."""
    profiled = path.with_suffix(".ncu.csv")
    try:
        document = json.loads(path.read_text("utf-8"))
        text = profiled.read_text("utf-8") if profiled.exists() else ""
    except OSError as error:
        remedy = "name a file of validation/hardware/"
        raise UsageError(f"cannot be read: {error.strerror}", place=str(path), remedy=remedy) from None
    except ValueError as error:
        raise FormatError(f"is no JSON: {error}", place=str(path), remedy="measure again") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise FormatError(f"is no measurement of schema {SCHEMA}", place=str(path), remedy="measure again")
    if bool(text) != bool(document["profiler"]["kernels"]):
        what = f"{'has' if text else 'has no'} table of Nsight Compute beside it, {profiled.name}, against its own word"
        raise FormatError(what, place=str(path), remedy="keep both files together")
    return document, text


def _short(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


if __name__ == "__main__":
    sys.exit(main())
