"""The kernels of a study file: paths, mappings of path and launch, and those of a suite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError, suggestion
from warpsight.base.yaml_nodes import YamlNode
from warpsight.explore.request import KernelRequest
from warpsight.explore.suites.suite import MANIFEST, Suite, load_suite, shipped_suites
from warpsight.explore.sweep.study import StudyKernel
from warpsight.trace.importers.accelsim.files import is_kernel_file
from warpsight.workload.launch_file import relative_argument

_TEXTS = ("kernel", "shared", "sample", "arch", "heap", "kernels", "launches")
_NUMBERS = ("seed", "registers", "max_instructions", "threads", "stack")
_LISTS = ("args", "defines", "include_dirs")
_FIELDS = {"heap": "heap_bytes", "stack": "stack_bytes"}
KERNEL_KEYS = ("path", "name", "grid", "block", *_TEXTS, *_NUMBERS, *_LISTS, "check", "isa_file")
SUITE_KEYS = ("name", "only", "half")
HALVES = ("development", "holdout")


def read_kernels(node: YamlNode, folder: Path) -> Iterator[tuple[StudyKernel, str]]:
    """Each kernel of `kernels:` with its place. Paths are relative to `folder`. Raises UsageError with file and line."""
    for item in node.items():
        if item.is_mapping:
            yield _of_mapping(item, folder), item.place
        else:
            request = KernelRequest(path=_path(item, folder))
            yield StudyKernel(default_name(request), request), item.place


def suite_kernels(node: YamlNode, folder: Path) -> Iterator[tuple[StudyKernel, str]]:
    """Each kernel of `suite:`, with its place: a name or folder, or a mapping of it and `only` or `half`. Raises UsageError."""
    if not node.is_mapping:
        yield from _of_suite(_suite(node, folder), node.place)
        return
    entries = node.entries(SUITE_KEYS)
    if "name" not in entries:
        node.refuse("suite has no name", "write suite: {name: warpsight, half: development}")
    suite = _suite(entries["name"], folder)
    if "only" in entries and "half" in entries:
        entries["half"].refuse("only and half both choose kernels", "keep one of them")
    if "half" in entries:
        half = entries["half"].one_of(HALVES)
        chosen = suite.holdout if half == "holdout" else suite.development
        if not chosen:
            entries["half"].refuse(f"the suite {suite.name} has no kernel in that half", "leave half out")
        yield from ((StudyKernel(kernel.name, kernel.request()), node.place) for kernel in chosen)
    elif "only" in entries:
        for item in entries["only"].items():
            try:
                kernel = suite.kernel(item.text())
            except UsageError as error:
                item.refuse(error.what, error.remedy)
            yield StudyKernel(kernel.name, kernel.request()), item.place
    else:
        yield from _of_suite(suite, node.place)


def default_name(request: KernelRequest) -> str:
    """What a kernel is called that has no name: the file or folder without its ending, a manifest as its folder."""
    if not isinstance(request.path, (str, os.PathLike)):
        kernel = getattr(request.path, "fn", getattr(request.path, "py_func", request.path))
        return str(getattr(kernel, "__name__", type(kernel).__name__))
    text = os.fspath(request.path)
    if "\n" in text or text == "-":
        return "kernel" if "\n" in text else "stdin"
    path = Path(os.path.abspath(text))
    if is_kernel_file(path):
        return path.name.rpartition(".trace")[0]
    return path.parent.name if path.name == MANIFEST else path.stem


def _of_suite(suite: Suite, place: str) -> Iterator[tuple[StudyKernel, str]]:
    for member in members_of_suite(suite):
        yield member, place


def members_of_suite(suite: Suite) -> list[StudyKernel]:
    """The kernels of a suite as a study has them, in its order."""
    return [StudyKernel(kernel.name, kernel.request()) for kernel in suite]


def _suite(node: YamlNode, folder: Path) -> Suite:
    name = node.text()
    known = shipped_suites()
    if name in known:
        return load_suite(name)
    path = folder / name
    if not os.path.isdir(path):
        what = f'"{name}" is neither a folder nor a suite that comes with Warpsight{suggestion(name, known)}'
        node.refuse(what, f"known: {', '.join(known) or 'none'}; or give a folder of kernels")
    return load_suite(path)


def _path(node: YamlNode, folder: Path) -> str:
    text = node.text()
    path = folder / text
    if text == "-" or not os.path.exists(path):  # which, unlike a Path's own method, answers for names that no file can have, too
        near = suggestion(path.name, [each.name for each in path.parent.glob("*")] if os.path.isdir(path.parent) else [])
        node.refuse(f'there is no kernel "{text}"{near}', "give a .cu, .ptx or launch file, a manifest, or a trace folder")
    if os.path.isfile(path / MANIFEST):
        node.refuse(f"{text} is the folder of a kernel in a suite", f"write {text.rstrip('/')}/{MANIFEST}")
    return str(path)


def _of_mapping(node: YamlNode, folder: Path) -> StudyKernel:
    entries = node.entries(KERNEL_KEYS)
    if "path" not in entries:
        node.refuse("a kernel has no path", "write {path: saxpy.cu, grid: 4096, block: 256}")
    values: dict[str, Any] = {"path": _path(entries["path"], folder)}
    for key, entry in entries.items():
        field = _FIELDS.get(key, key)
        if key in ("grid", "block"):
            values[field] = _dimensions(entry)
        elif key in _TEXTS:
            values[field] = entry.text()
        elif key in _NUMBERS:
            values[field] = entry.whole(0)
        elif key in _LISTS:
            values[field] = tuple(item.text() for item in entry.items())
        elif key == "check":
            values[field] = entry.flag()
        elif key == "isa_file":
            values[field] = str(folder / entry.text())
    if "args" in values:
        values["args"] = tuple(relative_argument(each, folder) for each in values["args"])
    if "include_dirs" in values:
        values["include_dirs"] = tuple(str(folder / each) for each in values["include_dirs"])
    request = KernelRequest(**values)
    if request.is_trace:
        try:
            request.refuse_launch_options()
        except UsageError as error:
            key = error.place.removeprefix("--")
            entries.get(key, node).refuse(f"{key} {error.what}", error.remedy)
    return StudyKernel(entries["name"].text() if "name" in entries else default_name(request), request)


def _dimensions(node: YamlNode) -> str:
    """One to three numbers, `16x64` or `[16, 64]`."""
    from warpsight.workload.launch_check import parse_dim3

    text = "x".join(item.text() for item in node.items()) if node.is_list else node.text()
    parse_dim3(text, node.place)
    return text
