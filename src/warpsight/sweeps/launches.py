"""The launches of a study: every kernel under every choice of its launch axes, each with the key of its trace.

A trace of another tool is a member for each of its launches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpsight.base.diskcache import content_key
from warpsight.base.errors import UsageError, WarpsightError, suggestion
from warpsight.base.inputs import open_input, read_input
from warpsight.gpu.spec import GpuSpec
from warpsight.jobs.fingerprint import PROFILE, TRACE, fingerprint
from warpsight.jobs.store import ResultStore
from warpsight.kernels.launch import input_hash, kernel_hash
from warpsight.kernels.launch_file import LaunchSpec, in_order, is_by_name
from warpsight.pipeline.kernel_input import (
    ReadyLaunch,
    constant_value,
    constants_of,
    is_launch_file,
    launch_spec_of,
    prepare,
    written_launch,
)
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import launches_of
from warpsight.sweeps.names import DIMENSIONS, LAUNCH
from warpsight.sweeps.study import StudyKernel
from warpsight.traces.store_format import HEADER

_PIECE = 1 << 22


def members_of(kernel: StudyKernel) -> list[StudyKernel]:
    """The kernel itself, or of another tool's trace a member for each launch that it chooses, named `NAME.2` by its number.

    Each is the file of one launch from then on. Raises UsageError and FormatError for a folder that cannot be read.
    """
    if not kernel.request.is_foreign:
        kernel.request.refuse_import_options()
        return [kernel]
    launches = launches_of(kernel.request)
    requests = [replace(kernel.request, path=str(launch.path), kernels=None, launches=None) for launch in launches]
    if len(launches) == 1:
        return [StudyKernel(kernel.name, requests[0])]
    return [StudyKernel(f"{kernel.name}.{launch.number}", request) for launch, request in zip(launches, requests, strict=True)]


def foreign_key(request: KernelRequest) -> str:
    """The key of the trace that the launch's files become: their bytes, the user's launch options, and the code that reads them.

    Raises OSError for a file that cannot be read, UsageError and FormatError where there is no such launch.
    """
    digest = hashlib.sha256()
    (launch,) = launches_of(request)
    for path in launch.files():
        digest.update(path.name.encode("utf-8", "surrogateescape") + b"\0")
        with open_input(path) as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    opcodes = read_input(request.isa_file).decode("utf-8", "replace") if request.isa_file is not None else ""
    settings = repr((request.grid, request.block, request.shared, request.registers, request.cluster))
    return content_key(TRACE, "imported", digest.hexdigest(), settings, opcodes, fingerprint(TRACE))


Choice = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StudyLaunch:
    """A kernel of the study under one choice of the launch axes, for GPUs that execute the same instructions.

    `gpu` is one of these. `key` is the key of its trace, `folder` its place, now or later; both are empty if `refused` says why
    there is no trace. `sampled` is the key under which is kept that the launch is sampled: it has no trace then. Empty, every block
    of it runs.
    """

    kernel: str
    choice: Choice
    request: KernelRequest
    gpu: GpuSpec
    key: str = ""
    folder: str = ""
    refused: str = ""
    sampled: str = ""

    @property
    def traced(self) -> bool:
        """Whether the trace exists."""
        return bool(self.folder) and Path(self.folder).is_dir()

    def is_sampled(self, store: ResultStore) -> bool:
        """Whether the launch is known to be so long that it is sampled."""
        return store.has_folder(self.sampled)

    def known(self, store: ResultStore) -> bool:
        """Whether the trace exists, or is not needed since the launch is sampled."""
        return self.traced or self.is_sampled(store)


def study_launch(
    kernel: StudyKernel, choice: Choice, gpu: GpuSpec, store: ResultStore, accuracy: float | None = None
) -> StudyLaunch:
    """The launch for `gpu` with its trace's key. `refused` says why a kernel or a choice cannot be launched; if it is long, it is
    sampled unless `accuracy` is None.
    """
    sampled = ""
    try:
        refuse_standard_input(kernel.request.path)
        request = launched(kernel.request, choice)
        if request.is_foreign:
            key = foreign_key(request)
        else:
            request.refuse_import_options()
            if request.is_trace:
                folder = Path(request.path)
                key = hashlib.sha256((folder / HEADER).read_bytes()).hexdigest()
                return StudyLaunch(kernel.name, choice, request, gpu, key, str(folder.absolute()))
            key = trace_key(prepare(request, gpu))  # compiled, with its inputs, and not run
            sampled = "" if accuracy is None else content_key("sampled", key, gpu.name, fingerprint(PROFILE))
    except WarpsightError as error:
        return StudyLaunch(kernel.name, choice, kernel.request, gpu, refused=str(error))
    except OSError as error:
        return StudyLaunch(kernel.name, choice, kernel.request, gpu, refused=f"{kernel.request.path}: {error.strerror}")
    return StudyLaunch(kernel.name, choice, request, gpu, key, str(store.folder_of(key)), sampled=sampled)


def refuse_standard_input(path: object) -> None:
    """Raises UsageError for `-`."""
    if path == "-":
        what = "standard input can be read once, and a sweep reads its kernels where and when it runs them"
        raise UsageError(what, place="-", remedy="write the kernel to a file")


def launched(request: KernelRequest, choice: Sequence[tuple[str, str]]) -> KernelRequest:
    """`request` with what the launch axes say: `block`, `maxrregcount` and the like, `arg.N`, an argument by number or name, and
    `define.NAME` or `constant.NAME`, a macro or compile-time value besides those that the launch has.

    Raises UsageError for a trace, whose launch is over, and for an argument that the launch does not have.
    """
    if not choice:
        return request
    if request.is_trace:
        what = f"a trace cannot be launched again with a different {choice[0][0]}"
        raise UsageError(what, place=str(request.path), remedy="give the kernel instead of its trace")
    changes: dict[str, Any] = {}
    for name, text in choice:
        if name.startswith("arg."):
            changes["args"] = _with_argument(request, changes.get("args"), name.removeprefix("arg."), text)
        elif name.startswith("define."):
            macro, others = name.removeprefix("define."), changes.get("defines", defines_of(request))
            changes["defines"] = (*without_macro(others, macro), f"{macro}={text}")
        elif name.startswith("constant."):
            constants = changes.get("constants", constants_of(request))
            changes["constants"] = {**constants, name.removeprefix("constant."): constant_value(text)}
        else:
            changes[name] = text.replace("x", ",") if LAUNCH[f"launch.{name}"].kind == DIMENSIONS else int(float(text))
    return replace(request, **changes)


def defines_of(request: KernelRequest) -> tuple[str, ...]:
    """The macros of the launch: those of the request, else those of its launch file."""
    if request.defines is not None:
        return request.defines
    written = written_launch(request) if is_launch_file(request.path) else None
    return written.defines if isinstance(written, LaunchSpec) else ()


def without_macro(defines: Sequence[str], name: str) -> tuple[str, ...]:
    """`defines` without the macro `name`."""
    return tuple(each for each in defines if each.partition("=")[0] != name)


def _with_argument(request: KernelRequest, args: tuple[Any, ...] | None, called: str, text: str) -> tuple[Any, ...]:
    values = list(args if args is not None else _arguments(request))
    names = [str(number) for number in range(1, len(values) + 1)]
    if called not in names and not called.isdecimal():
        ready = prepare(request)
        names = [parameter.name for parameter in ready.source.module.kernels[ready.launch.kernel].parameters]
    if called not in names:
        what = f"launch.arg.{called}: the kernel has no argument {called}{suggestion(called, names)}"
        raise UsageError(what, place=str(request.path), remedy=f"it has {', '.join(names) or 'none'}; launch.arg.1 is the first")
    values[names.index(called)] = text
    return tuple(values)


def _arguments(request: KernelRequest) -> tuple[Any, ...]:
    """Those of the request or its launch file, in order."""
    spec = launch_spec_of(request)
    return in_order(spec, prepare(request).source).args if any(map(is_by_name, spec.args)) else spec.args


def trace_key(ready: ReadyLaunch) -> str:
    """The key of the trace that a prepared launch would make: kernel, inputs, what is recorded of it, and the recording code."""
    executed = ready.source.target if ready.architecture is None else f"machine code of {ready.architecture.real}"
    options = (ready.options.heap_bytes, ready.options.stack_bytes, ready.options.check, ready.max_instructions)
    recorded = (ready.registers.registers, ready.registers.static_shared_bytes, ready.sample, ready.seed, *options)
    hashes = (kernel_hash(ready.launch.kernel, ready.source), input_hash(ready.launch))
    return content_key(TRACE, *hashes, executed, *map(str, recorded), fingerprint(TRACE))
