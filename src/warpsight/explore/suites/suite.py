"""What a benchmark suite is, and where one is found: a folder, or the name of a suite that comes with Warpsight."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from warpsight.base.errors import UsageError, suggestion
from warpsight.explore.request import KernelRequest
from warpsight.workload.launch_spec import LaunchSpec

MANIFEST = "manifest.yaml"


@dataclass(frozen=True)
class SuiteKernel:
    """One kernel of a suite, as its manifest says. `name` is its folder's, `path` the manifest's, which `place` names in messages.

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
    def place(self) -> str:
        """Where messages about the kernel point to."""
        return self.path

    def launch_spec(self) -> LaunchSpec:
        """The launch, with arrays of its own each time: what one run writes, the next does not see.

        A Python launch file is run for it. Raises what `read_launch_file` raises.
        """
        from warpsight.workload.launch_file import read_launch_file

        return self.launch if self.launch is not None else read_launch_file(self.launch_file)

    def request(self) -> KernelRequest:
        """The kernel as every part of `explore` takes one: `pipeline.obtain_trace(kernel.request())`."""
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

    def of_class(self, memory_class: str) -> tuple[SuiteKernel, ...]:
        """Those whose manifest expects `memory_class`, as `memory-divergent`."""
        return tuple(kernel for kernel in self.kernels if kernel.expected_class == memory_class)

    def kernel(self, name: str) -> SuiteKernel:
        """The kernel of that name. Raises UsageError when there is none."""
        names = [kernel.name for kernel in self.kernels]
        if name not in names:
            what = f'"{name}" is not a kernel of the suite {self.name}{suggestion(name, names)}'
            raise UsageError(what, place=self.path, remedy=f"it has: {', '.join(names)}")
        return self.kernels[names.index(name)]


@cache
def _shipped_folder() -> Path:
    """Where the suites that come with Warpsight lie: in the installed package, or in the checkout that it is run from."""
    from importlib.resources import files

    package = Path(str(files("warpsight")))
    installed = package / "explore" / "suites" / "shipped"
    return installed if installed.is_dir() else package.parents[1] / "suites"


def shipped_suites() -> list[str]:
    """Names of the suites that come with Warpsight, sorted."""
    return sorted({path.parents[1].name for path in _shipped_folder().glob(f"*/*/{MANIFEST}")})


def load_suite(suite: str | os.PathLike[str]) -> Suite:
    """The suite of a name (`warpsight`) or a folder with one folder for each kernel. A name that comes with Warpsight wins.

    Every manifest is read and checked; no kernel is compiled and no Python launch file is run. Folders whose name begins with a
    dot or an underscore are left out. Raises UsageError or FormatError with file and line.
    """
    from warpsight.explore.suites.manifest import read_manifest

    folder = _locate(os.fspath(suite))
    try:
        places = sorted(each for each in folder.iterdir() if each.is_dir() and each.name[:1] not in "._")
    except OSError as error:
        remedy = "give a folder that you may read"
        raise UsageError(f"cannot be read: {error.strerror}", place=str(folder), remedy=remedy) from error
    kernels = tuple(read_manifest(each / MANIFEST) for each in places)
    if not kernels:
        remedy = f"give the folder above the kernels' own, each of which has a {MANIFEST}"
        raise UsageError("is no suite: it has no folder with a kernel", place=str(folder), remedy=remedy)
    return Suite(Path(os.path.abspath(folder)).name, str(folder), kernels)


def _locate(suite: str) -> Path:
    if suite in shipped_suites():
        return _shipped_folder() / suite
    folder = Path(suite)
    if suite and "\0" not in suite and folder.is_dir():
        return folder
    known = shipped_suites()
    what = f'"{suite}" is neither a folder nor a suite that comes with Warpsight{suggestion(suite, known)}'
    raise UsageError(what, place="--suite", remedy=f"known: {', '.join(known) or 'none'}; or give a folder of kernels")
