"""A study file: YAML, every message with its line. docs/reference/study-file.md has every key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError, suggestion
from warpsight.base.units import parse_share
from warpsight.base.yaml_nodes import Composed, YamlNode, compose
from warpsight.gpu.catalog import catalog_path, no_such_gpu
from warpsight.gpu.document import Text, parse_value
from warpsight.gpu.keys import find_key
from warpsight.kernels.launch_check import parse_dim3
from warpsight.kernels.launch_file import relative_argument
from warpsight.kernels.values import has_names
from warpsight.models.base import get_model
from warpsight.pipeline.request import ARGUMENTS, DIMENSIONS, PATHS, REQUEST_FIELDS, KernelRequest, Method, RequestField
from warpsight.pipeline.suites import MANIFEST, Suite, SuiteKernel, load_suite, shipped_suites
from warpsight.sweeps.axes import axis_of_list, axis_of_text
from warpsight.sweeps.expressions import Expression, parse_expression
from warpsight.sweeps.launches import members_of
from warpsight.sweeps.names import GPU, METHOD, known_names, study_key
from warpsight.sweeps.study import GRID, KINDS, MOST_DESIGNS, Axis, Sampling, SimulatorRuns, Study, StudyKernel, check_study
from warpsight.sweeps.study_document import STUDY_FIELDS
from warpsight.traces.importers.accelsim.files import is_kernel_file

KERNEL_KEYS = ("path", "name", *(each.key for each in REQUEST_FIELDS))
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
    entries = node.entries(SUITE_KEYS) if node.is_mapping else {"name": node}
    if "name" not in entries:
        node.refuse("suite has no name", "write suite: {name: warpsight, half: development}")
    suite = _suite(entries["name"], folder)
    if "only" in entries and "half" in entries:
        entries["half"].refuse("only and half both choose kernels", "keep one of them")
    if "only" in entries:
        for item in entries["only"].items():
            try:
                kernel = suite.kernel(item.text())
            except UsageError as error:
                item.refuse(error.what, error.remedy)
            yield StudyKernel(kernel.name, kernel.request()), item.place
        return
    chosen: Iterable[SuiteKernel] = suite
    if "half" in entries:
        chosen = suite.holdout if entries["half"].one_of(HALVES) == "holdout" else suite.development
        if not chosen:
            entries["half"].refuse(f"the suite {suite.name} has no kernel in that half", "remove half")
    yield from ((member, node.place) for member in members_of_suite(chosen))


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


def members_of_suite(kernels: Iterable[SuiteKernel]) -> list[StudyKernel]:
    """Kernels of a suite as a study has them, in their order."""
    return [StudyKernel(kernel.name, kernel.request()) for kernel in kernels]


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
    values |= {each.name: _request_value(each, entries[each.key], folder) for each in REQUEST_FIELDS if each.key in entries}
    request = KernelRequest(**values)
    if request.is_trace:
        try:
            request.refuse_launch_options()
        except UsageError as error:
            key = next((each.key for each in REQUEST_FIELDS if each.name == error.place), error.place)
            entries.get(key, node).refuse(f"{key} {error.what}", error.remedy)
    return StudyKernel(entries["name"].text() if "name" in entries else default_name(request), request)


def _request_value(field: RequestField, node: YamlNode, folder: Path) -> Any:
    if field.holds == DIMENSIONS:
        return _dimensions(node)
    if list in field.types:
        texts = [item.text() for item in node.items()]
        if field.holds == ARGUMENTS:
            return tuple(relative_argument(each, folder) for each in texts)
        return tuple(str(folder / each) for each in texts) if field.holds == PATHS else tuple(texts)
    if field.types == (bool,):
        return node.flag()
    if field.types == (int,):
        return node.whole(0)
    return str(folder / node.text()) if field.holds == PATHS else node.text()


def _dimensions(node: YamlNode) -> str:
    """One to three numbers, `16x64` or `[16, 64]`."""
    parts = [item.text() for item in node.items()] if node.is_list else [node.text()]
    if any(has_names(part) and _OPERATION.search(part) for part in parts):  # an expression of what the launch has
        return ", ".join(parts)
    text = "x".join(parts)
    parse_dim3(text, node.place)
    return text


# -- The file.

SCHEMA = "1"
STUDY_KEYS = ("schema", "suite", *(each.key for each in STUDY_FIELDS))
_FILE = Composed("study", "the YAML file of a study", "start with kernels: [...] and axes: {sm_count: 15:80:5}", UsageError)
_EITHER = Composed("study or launch", "YAML", "write a study file (docs/reference/study-file.md) or a launch file", UsageError)
_OPERATION = re.compile(r"[-+*/(]")
_METHOD_KEYS = tuple(name.removeprefix("method.") for name in METHOD)


def read_study(path: str | os.PathLike[str]) -> Study:
    """The study of a file. Paths in it are relative to it. Nothing is compiled, run or drawn.

    Raises UsageError or SpecError with file and line: no YAML, a key that is unknown (with the nearest), missing or given twice, a
    value of the wrong kind, a kernel, suite, GPU or model that is not there, and whatever `check_study` refuses.
    """
    shown = os.fspath(path)
    return _StudyReader(YamlNode(compose(Path(shown), shown, _FILE), "the study", shown), Path(shown)).study()


class _StudyReader:
    """Reads the fields of one file, each by the method named after its key; those that are missing have the defaults of `Study`.

    `places` are their lines, for checks of the whole.
    """

    def __init__(self, root: YamlNode, path: Path) -> None:
        self.root, self.path, self.folder = root, path, path.parent
        self.entries = root.entries(STUDY_KEYS)
        self.places: dict[str, str] = {name: node.place for name, node in self.entries.items()}

    def study(self) -> Study:
        """Everything in the file."""
        schema = self.entries.get("schema")
        if schema is not None and schema.text() != SCHEMA:
            schema.refuse(f'schema "{schema.text()}" is not known', f"this version reads schema {SCHEMA}")
        values: dict[str, Any] = {"name": self.path.stem, "kernels": ()}
        for field in STUDY_FIELDS:
            if field.key == "kernels":
                values["kernels"] = self.kernels()
            elif field.key in self.entries:
                values[field.name] = getattr(self, field.key)(self.entries[field.key])
        study = Study(**values)
        check_study(study, {"kernels": str(self.path), **self.places})
        return study

    def name(self, node: YamlNode) -> str:
        name = node.text()
        if not name.isprintable():
            node.refuse("name has characters that cannot be printed", "write a plain name")
        if not name.strip(" .") or "/" in name:
            node.refuse(f'"{name}" cannot be the name of a folder', "write a plain name; `out` names the folder")
        return name

    def kernels(self) -> tuple[StudyKernel, ...]:
        """Those of `kernels`, then those of `suite`."""
        members: list[tuple[StudyKernel, str]] = []
        for key, read in (("kernels", read_kernels), ("suite", suite_kernels)):
            if key in self.entries:
                for kernel, place in read(self.entries[key], self.folder):
                    members += [(member, place) for member in members_of(kernel)]
        self.places |= {f"kernels.{index}": place for index, (_, place) in enumerate(members)}
        return tuple(kernel for kernel, _ in members)

    def gpu(self, node: YamlNode) -> str:
        """A name of the catalogue, or a file beside the study."""
        name = node.text()
        known = catalog_path(name)
        if known is not None:
            return known.stem
        if not os.path.isfile(self.folder / name):
            node.refuse(*no_such_gpu(name))
        return str(self.folder / name)

    def set(self, node: YamlNode) -> tuple[str, ...]:
        """Overrides, as a mapping or as texts."""
        settings: list[tuple[str, str, str]] = []
        if node.is_list:
            for item in node.items():
                key, equals, text = (part.strip() for part in item.text().partition("="))
                if not equals or not key or not text:
                    item.refuse(f'"{item.text()[:80]}" is not key=value', "write for example l1.ways=4")
                settings.append((key, text, item.place))
        else:
            settings = [(key, entry.text(), entry.place) for key, entry in node.entries().items()]
        for key, text, place in settings:
            if f"set.{key}" in self.places:
                raise UsageError(f"{key} is set twice", place=place, remedy="remove one of the two")
            self.places[f"set.{key}"] = place
            study_key(key, place)
            known = find_key(key)
            if known is not None:
                parse_value(known, Text(text, place))
        return tuple(f"{key}={text}" for key, text, _ in settings)

    def axes(self, mapping: YamlNode) -> tuple[Axis, ...]:
        axes = []
        for key, node in mapping.entries().items():
            self.places[f"axes.{key}"] = node.place
            if key == GPU:
                if "gpu" in self.entries:
                    node.refuse("gpu is an axis, and also given", "keep one of them")
                values = [(self.gpu(each), each.place) for each in (node.items() if node.is_list else [node])]
                axes.append(axis_of_list(key, values, node.place))
                continue
            if node.is_mapping:
                names = [name for name in known_names() if name.startswith(f"{key}.")]
                node.refuse(f"{key} is a mapping, not values", f"write whole keys: {names[0] if names else 'l1.size'}: [...]")
            if node.is_list:
                axes.append(axis_of_list(key, [(item.text(), item.place) for item in node.items()], node.place))
            else:
                axes.append(axis_of_text(key, node.text(), node.place))
        return tuple(axes)

    def sampling(self, node: YamlNode) -> Sampling:
        entries = node.entries(("kind", "designs", "seed"))
        if "kind" not in entries:
            node.refuse("sampling has no kind", f"write kind: {' or kind: '.join(KINDS)}")
        kind = entries["kind"].one_of(KINDS)
        if kind == GRID and "seed" in entries:
            entries["seed"].refuse("a grid is not random and takes no seed", "remove it")
        designs = entries["designs"].whole(1, MOST_DESIGNS) if "designs" in entries else 0
        return Sampling(kind, designs, entries["seed"].whole(0) if "seed" in entries else 0)

    def derived(self, mapping: YamlNode) -> tuple[tuple[str, Expression], ...]:
        derived = []
        for key, node in mapping.entries().items():
            self.places[f"derived.{key}"] = node.place
            study_key(key, node.place)
            derived.append((key, parse_expression(node.text(), node.place)))
        return tuple(derived)

    def constraints(self, node: YamlNode) -> tuple[Expression, ...]:
        return tuple(parse_expression(item.text(), item.place) for item in node.items())

    def models(self, node: YamlNode) -> tuple[str, ...]:
        """Names that the registry knows."""
        names = []
        for item in node.items() if node.is_list else (node,):
            for name in (part.strip() for part in item.text().split(",")):
                try:
                    get_model(name)
                except UsageError as error:
                    hint = "; the simulator has its own key, simulator" if name == "simulator" else ""
                    item.refuse(error.what, error.remedy + hint)
                self.places[f"models.{name}"] = item.place
                names.append(name)
        return tuple(names)

    def method(self, mapping: YamlNode) -> Method:
        words = {}
        for name, node in mapping.entries(_METHOD_KEYS).items():
            words[name] = node.one_of(METHOD[f"method.{name}"].choices)
            if f"axes.method.{name}" in self.places or f"derived.method.{name}" in self.places:
                node.refuse(f"method.{name} is varied, and also given here", "remove one of the two")
        return Method(**words)

    def accuracy(self, node: YamlNode) -> float | None:
        """A share of the cycles, or `exact`: every block runs."""
        text = node.text()
        if text == "exact":
            return None
        if "simulator" in self.entries:
            node.refuse("the simulator needs every block", "write exact, or remove accuracy or simulator")
        try:
            return parse_share(text)
        except ValueError:
            node.refuse(f'"{text}" is not a share', "write for example 1 %, or exact, which runs every block")

    def simulator(self, node: YamlNode) -> SimulatorRuns:
        entries = node.entries(("designs", "seed", "where", "max_cycles"))
        where = entries.get("where")
        return SimulatorRuns(
            designs=entries["designs"].whole(1, MOST_DESIGNS) if "designs" in entries else 0,
            seed=entries["seed"].whole(0) if "seed" in entries else 0,
            where=parse_expression(where.text(), where.place) if where is not None else None,
            max_cycles=entries["max_cycles"].whole(1) if "max_cycles" in entries else None,
        )


def is_study_file(path: str) -> bool:
    """Whether `path` is a study and no launch file: YAML with kernels, a suite or axes at its top.

    Raises UsageError with file and line for YAML that cannot be read, which is neither.
    """
    if not path.endswith((".yaml", ".yml")) or not os.path.isfile(path):
        return False
    keys = YamlNode(compose(Path(path), path, _EITHER), "the file", path).entries()
    return any(name in keys for name in ("kernels", "suite", "axes", "sampling"))
