"""Benchmark suites: folders of kernels, each with a manifest that says what it is, how it is launched and how it is checked.

A suite is a folder, or the name of a suite that comes with Warpsight.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from warpsight.base.errors import UsageError, suggestion
from warpsight.kernels.launch_check import parse_dim3
from warpsight.kernels.launch_file import KEYS as LAUNCH_KEYS
from warpsight.kernels.launch_file import REQUIRED as LAUNCH_REQUIRED
from warpsight.kernels.launch_file import LaunchSpec, read_launch_file, read_yaml, spec_from_keys
from warpsight.kernels.values import shown
from warpsight.pipeline.request import KernelRequest
from warpsight.result.prediction import MEMORY_CLASSES

MANIFEST = "manifest.yaml"
DIVERGENT = "memory-divergent"


@dataclass(frozen=True)
class SuiteKernel:
    """One kernel of a suite, as its manifest says. `name` is its folder's, `path` the manifest's.

    `expected_class` is by DPKI on mdm-pascal, in the words of a prediction's `class`. A `holdout` kernel takes no part in choosing
    or fitting anything. `check` is the Python file that knows the right result, `tolerance` how far floats may be from it.
    `launch` holds the manifest's own launch keys; None where `launch_file`, a Python or YAML launch file, makes the launch.
    """

    name: str
    title: str
    domain: str
    expected_class: str
    holdout: bool
    path: str
    check: str
    tolerance: float = 0.0
    launch: LaunchSpec | None = None
    launch_file: str = ""

    @property
    def divergent(self) -> bool:
        """Whether its manifest calls it memory-divergent."""
        return self.expected_class == DIVERGENT

    def launch_spec(self) -> LaunchSpec:
        """The launch, with arrays of its own each time: what one run writes, the next does not see.

        A Python launch file is run for it. Raises what `read_launch_file` raises.
        """
        return self.launch if self.launch is not None else read_launch_file(self.launch_file)

    def request(self) -> KernelRequest:
        """The kernel as the pipeline takes one: `obtain_trace(kernel.request())`."""
        return KernelRequest(path=self.path)


@dataclass(frozen=True)
class Suite:
    """Kernels in the order of their names. `name` is the folder's, `path` the folder."""

    name: str
    path: str
    kernels: tuple[SuiteKernel, ...]

    def __iter__(self) -> Iterator[SuiteKernel]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    @property
    def holdout(self) -> tuple[SuiteKernel, ...]:
        """The kernels that are set aside: only for the last validation."""
        return tuple(kernel for kernel in self.kernels if kernel.holdout)

    @property
    def development(self) -> tuple[SuiteKernel, ...]:
        """The others: those that may be looked at while something is built."""
        return tuple(kernel for kernel in self.kernels if not kernel.holdout)

    def kernel(self, name: str) -> SuiteKernel:
        """The kernel of that name. Raises UsageError when there is none."""
        names = [kernel.name for kernel in self.kernels]
        if name not in names:
            message = f'"{name}" is not a kernel of the suite {self.name}{suggestion(name, names)}'
            raise UsageError(message, place=self.path, remedy=f"it has: {', '.join(names)}")
        return self.kernels[names.index(name)]


@cache
def _shipped_folder() -> Path:
    """Where the suites that come with Warpsight lie: in the installed package, or in the checkout that it is run from."""
    package = Path(str(files("warpsight")))
    installed = package / "pipeline" / "shipped_suites"
    return installed if installed.is_dir() else package.parents[1] / "suites"


def shipped_suites() -> list[str]:
    """Names of the suites that come with Warpsight, sorted."""
    return sorted({path.parents[1].name for path in _shipped_folder().glob(f"*/*/{MANIFEST}")})


def load_suite(suite: str | os.PathLike[str]) -> Suite:
    """The suite of a name (`warpsight`) or a folder with one folder for each kernel. A name that comes with Warpsight wins.

    Every manifest is read and checked; no kernel is compiled and no Python launch file is run. Folders whose name begins with a
    dot or an underscore are left out. Raises UsageError or FormatError with file and line.
    """
    folder = _locate(os.fspath(suite))
    try:
        folders = sorted(path for path in folder.iterdir() if path.is_dir() and path.name[:1] not in "._")
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise UsageError(message, place=str(folder), remedy="give a folder that you may read") from error
    kernels = tuple(read_manifest(path / MANIFEST) for path in folders)
    if not kernels:
        remedy = f"give the folder above the kernels' own, each of which has a {MANIFEST}"
        raise UsageError("is not a suite: it contains no folder with a kernel", place=str(folder), remedy=remedy)
    return Suite(Path(os.path.abspath(folder)).name, str(folder), kernels)


def _locate(suite: str) -> Path:
    if suite in shipped_suites():
        return _shipped_folder() / suite
    folder = Path(suite)
    if suite and "\0" not in suite and folder.is_dir():
        return folder
    known = shipped_suites()
    message = f'"{suite}" is neither a folder nor a suite that comes with Warpsight{suggestion(suite, known)}'
    raise UsageError(message, place="suite", remedy=f"known: {', '.join(known) or 'none'}; or give a folder of kernels")


# -- The manifest of a kernel in a suite: what it is and what is expected of it, beside the keys of a launch file.

OWN_KEYS = ("title", "domain", "class", "holdout", "check", "tolerance", "launch")
OWN_REQUIRED = ("title", "domain", "class", "holdout", "check")
_WRITE = {
    "title": "write one line: title: Sparse matrix times vector, one row per thread",
    "domain": "write the field that the kernel is from: domain: graphs",
    "class": f"write class: {' or class: '.join(MEMORY_CLASSES)}",
    "holdout": "write holdout: true or holdout: false",
    "check": "write check: FILE.py, which has a function expected()",
    "tolerance": "write a relative tolerance, tolerance: 1e-5, or leave it out for an exact result",
    "launch": "write launch: FILE.py or launch: FILE.yaml, a launch file",
    "source": "write source: FILE.cu",
}


@dataclass(frozen=True)
class _Manifest:
    """The text of each key, and its line."""

    path: str
    values: Mapping[str, Any]
    lines: Mapping[str, int]

    def place(self, key: str) -> str:
        return f"{self.path}:{self.lines[key]}" if key in self.lines else self.path

    def refuse(self, key: str, message: str, remedy: str = "") -> NoReturn:
        raise UsageError(f"{key} {message}", place=self.place(key), remedy=remedy or _WRITE[key])

    def text(self, key: str) -> str:
        value = self.values[key]
        if not isinstance(value, str) or not value.strip() or "\n" in value.strip():
            self.refuse(key, f"is {shown(value)}, not a text of one line")
        return value.strip()

    def one_of(self, key: str, choices: tuple[str, ...]) -> str:
        choice = self.text(key)
        if choice not in choices:
            self.refuse(key, f"is {shown(choice)}{suggestion(choice, choices)}")
        return choice

    def file(self, key: str, suffixes: tuple[str, ...]) -> str:
        """The file of a key, which lies relative to the manifest."""
        name = self.text(key)
        if not name.endswith(suffixes):
            self.refuse(key, f"is {shown(name)}, not a file that ends in {' or '.join(suffixes)}")
        path = Path(self.path).parent / name
        if not os.path.isfile(path):
            near = suggestion(path.name, [each.name for each in path.parent.glob("*")] if path.parent.is_dir() else [])
            self.refuse(key, f"names {shown(name)}, and the file does not exist{near}")
        return str(path)


def read_manifest(path: str | Path) -> SuiteKernel:
    """The kernel of a `manifest.yaml`, named after its folder. Nothing is compiled or run.

    Raises UsageError or FormatError with file and line for a key that is unknown, missing, given twice or of the wrong kind, a
    launch given both here and by a file, and a file that is not there.
    """
    name = str(path)
    if not os.path.isfile(name):
        remedy = f"write one, or begin the folder's name with an underscore; {', '.join(OWN_REQUIRED)} are required"
        raise UsageError(f"there is no {MANIFEST}", place=str(Path(name).parent), remedy=remedy)
    needs = f"a manifest needs {', '.join(OWN_REQUIRED)}, and {', '.join(LAUNCH_REQUIRED)} or launch"
    manifest = _Manifest(name, *read_yaml(name, needs=needs))
    _known_and_complete(manifest)
    launch = None
    if "launch" not in manifest.values:
        values = {key: value for key, value in manifest.values.items() if key in LAUNCH_KEYS}
        launch = spec_from_keys(values, manifest.lines, name)
        for key in ("grid", "block"):
            parse_dim3(getattr(launch, key), manifest.place(key))
        manifest.file("source", (".cu", ".ptx"))
    return SuiteKernel(
        name=Path(os.path.abspath(name)).parent.name,
        title=manifest.text("title"),
        domain=manifest.text("domain"),
        expected_class=manifest.one_of("class", MEMORY_CLASSES),
        holdout=manifest.one_of("holdout", ("true", "false")) == "true",
        path=name,
        check=manifest.file("check", (".py",)),
        tolerance=_tolerance(manifest),
        launch=launch,
        launch_file="" if launch else manifest.file("launch", (".py", ".yaml", ".yml")),
    )


def _known_and_complete(manifest: _Manifest) -> None:
    known = (*OWN_KEYS, *LAUNCH_KEYS)
    for key in manifest.values:
        if key not in known:
            manifest.refuse(key, f"is not a known key{suggestion(key, known)}", f"the keys are: {', '.join(known)}")
    filled = {key for key, value in manifest.values.items() if value is not None}
    for key in OWN_REQUIRED:
        if key not in filled:
            manifest.refuse(key, "is missing")
    doubled = [key for key in manifest.values if key in LAUNCH_KEYS]
    if "launch" in manifest.values and doubled:
        manifest.refuse(doubled[0], f"belongs in the launch file that line {manifest.lines['launch']} names", "keep one of them")
    if "launch" not in manifest.values and not filled & set(LAUNCH_REQUIRED):
        remedy = f"give {', '.join(LAUNCH_REQUIRED)}, or launch: FILE.py, a launch file"
        raise UsageError("no launch is given", place=manifest.path, remedy=remedy)


def _tolerance(manifest: _Manifest) -> float:
    if "tolerance" not in manifest.values:
        return 0.0
    text = manifest.text("tolerance")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        manifest.refuse("tolerance", f"is {shown(text)}, not a number above 0 and below 1")
    return value
