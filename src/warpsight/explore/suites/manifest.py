"""The manifest of a kernel in a suite: what it is and what is expected of it, beside the keys of a launch file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from warpsight.base.errors import UsageError, suggestion
from warpsight.explore.suites.suite import MANIFEST, SuiteKernel
from warpsight.result.cpi_stack import MEMORY_CLASSES
from warpsight.workload.kinds import shown
from warpsight.workload.launch_check import parse_dim3
from warpsight.workload.launch_file import spec_from_keys
from warpsight.workload.launch_spec import KEYS as LAUNCH_KEYS
from warpsight.workload.launch_spec import REQUIRED as LAUNCH_REQUIRED
from warpsight.workload.launch_spec import LaunchSpec
from warpsight.workload.launch_yaml import read_yaml

OWN_KEYS = ("title", "domain", "class", "holdout", "check", "tolerance", "launch")
OWN_REQUIRED = ("title", "domain", "class", "holdout", "check")
_WRITE = {
    "title": "write one line: title: Sparse matrix times vector, a row a thread",
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

    def refuse(self, key: str, what: str, remedy: str = "") -> NoReturn:
        raise UsageError(f"{key} {what}", place=self.place(key), remedy=remedy or _WRITE[key])

    def text(self, key: str) -> str:
        value = self.values[key]
        if not isinstance(value, str) or not value.strip() or "\n" in value.strip():
            self.refuse(key, f"is {shown(value)}, not a text of one line")
        return value.strip()

    def one_of(self, key: str, words: tuple[str, ...]) -> str:
        word = self.text(key)
        if word not in words:
            self.refuse(key, f"is {shown(word)}{suggestion(word, words)}")
        return word

    def file(self, key: str, suffixes: tuple[str, ...]) -> str:
        """The file of a key, which lies relative to the manifest."""
        name = self.text(key)
        if not name.endswith(suffixes):
            self.refuse(key, f"is {shown(name)}, not a file that ends in {' or '.join(suffixes)}")
        path = Path(self.path).parent / name
        if not os.path.isfile(path):
            near = suggestion(path.name, [each.name for each in path.parent.glob("*")] if path.parent.is_dir() else [])
            self.refuse(key, f"names {shown(name)}, and there is no such file{near}")
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
    launch = None if "launch" in manifest.values else _own_launch(manifest)
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
    given = {key for key, value in manifest.values.items() if value is not None}
    for key in OWN_REQUIRED:
        if key not in given:
            manifest.refuse(key, "is missing")
    doubled = [key for key in manifest.values if key in LAUNCH_KEYS]
    if "launch" in manifest.values and doubled:
        manifest.refuse(doubled[0], f"belongs into the launch file that line {manifest.lines['launch']} names", "keep one of them")
    if "launch" not in manifest.values and not given & set(LAUNCH_REQUIRED):
        remedy = f"give {', '.join(LAUNCH_REQUIRED)}, or launch: FILE.py, a launch file"
        raise UsageError("no launch is given", place=manifest.path, remedy=remedy)


def _own_launch(manifest: _Manifest) -> LaunchSpec:
    values = {key: value for key, value in manifest.values.items() if key in LAUNCH_KEYS}
    spec = spec_from_keys(values, manifest.lines, manifest.path)
    for key in ("grid", "block"):
        parse_dim3(getattr(spec, key), manifest.place(key))
    manifest.file("source", (".cu", ".ptx"))
    return spec


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
